//! A host: its files and disks, its NIC, its descriptors, its shards, and how it dies and comes back.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;

use reactor::{Fd, Group, IoClassStats, Remote, Shard, ShardConfig, Work};

use crate::cpu::Pace;
use crate::disk::device::{Device, DiskCounters, SharedLimits};
use crate::disk::faults::DiskFaults;
use crate::disk::gathering::Gathering;
use crate::disk::image::{PendingWrite, Watch};
use crate::disk::page_cache::{PageCache, PageCacheModel};
use crate::disk::part::channels::Channels;
use crate::disk::tree::{Errno, InodeId, Tree};
use crate::disk::write_back::Dirty;
use crate::heap::Heap;
use crate::kernel::event::{ConnectionId, Event, Side};
use crate::model::HostModel;
use crate::nic::Nic;
use crate::nic::listener::Listeners;
use crate::random::{Generator, Stream};
use crate::seat::Seat;
use crate::world::World;

/// Names a host of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// How a host's process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// `kill -9`: the kernel lives, keeps what was written and closes the connections.
    Kill,
    /// The machine stops: what was not synced may be lost or torn, and peers hear nothing.
    PowerLoss,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not booted yet, or crashed.
    Off,
    Running,
    /// The process is gone, the machine is not.
    NoProcess,
    /// Shards are being dropped.
    Dying(Option<Crash>),
}

/// What a shard's first task is given.
#[derive(Clone, Copy, Debug)]
pub struct BootContext {
    pub host: HostId,
    /// The host's address.
    pub ip: IpAddr,
    pub shard: usize,
    pub shards: usize,
    /// How many boots of this host came before.
    pub boots_before: u32,
}

pub(crate) type Boot = Rc<dyn Fn(BootContext) -> Pin<Box<dyn Future<Output = ()>>>>;

/// What a descriptor of a host stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Descriptor {
    /// `gathers`: what comes once a file is as seldom as in full size, see [`crate::disk::gathering`].
    File {
        inode: InodeId,
        read: bool,
        write: bool,
        direct: bool,
        dsync: bool,
        gathers: bool,
    },
    Listener {
        port: u16,
    },
    Connection {
        id: ConnectionId,
        side: Side,
    },
}

/// Descriptors by number. The upper bits of a number count how often its place was used, so that a stale descriptor
/// is an error instead of someone else's file.
#[derive(Default)]
pub(crate) struct Descriptors {
    places: Vec<(u32, Option<Descriptor>)>,
    free: Vec<u32>,
}

const PLACE_BITS: u32 = 20;

impl Descriptors {
    pub fn add(&mut self, descriptor: Descriptor) -> Fd {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.places.push((0, None));
                (self.places.len() - 1) as u32
            }
        };
        let (used, entry) = &mut self.places[place as usize];
        *entry = Some(descriptor);
        Fd((*used << PLACE_BITS) | place)
    }

    pub fn get(&self, fd: Fd) -> Result<Descriptor, Errno> {
        let place = fd.0 & ((1 << PLACE_BITS) - 1);
        match self.places.get(place as usize) {
            Some((used, Some(descriptor))) if *used == fd.0 >> PLACE_BITS => Ok(*descriptor),
            _ => Err(Errno(libc::EBADF)),
        }
    }

    pub fn remove(&mut self, fd: Fd) -> Result<Descriptor, Errno> {
        let descriptor = self.get(fd)?;
        let place = fd.0 & ((1 << PLACE_BITS) - 1);
        let (used, entry) = &mut self.places[place as usize];
        *entry = None;
        // The all-ones number is what the reactor's idle slots hold.
        *used = (*used + 1) % ((1 << (32 - PLACE_BITS)) - 1);
        self.free.push(place);
        Ok(descriptor)
    }

    fn all(&self) -> Vec<Fd> {
        let open = self.places.iter().enumerate().filter(|(_, (_, entry))| entry.is_some());
        open.map(|(place, (used, _))| Fd((used << PLACE_BITS) | place as u32)).collect()
    }
}

pub(crate) struct Host {
    pub id: u32,
    pub ip: IpAddr,
    pub model: HostModel,
    pub state: Cell<State>,
    pub paused: Cell<bool>,
    pub skew_ns: Cell<i64>,
    pub heap: Heap,
    pub tree: RefCell<Tree>,
    pub devices: RefCell<Vec<Device>>,
    pub page_cache: RefCell<PageCache>,
    pub dirty: RefCell<Dirty>,
    pub gathering: RefCell<Gathering>,
    /// Threads that read from disks, where those are few.
    pub readers: RefCell<Option<Channels>>,
    pub volume_limits: RefCell<Option<SharedLimits>>,
    pub descriptors: RefCell<Descriptors>,
    pub nic: RefCell<Nic>,
    pub listeners: RefCell<BTreeMap<u16, Listeners>>,
    pub next_port: Cell<u16>,
    pub seats: RefCell<Vec<Rc<Seat>>>,
    pub boots: Cell<u32>,
    boot: RefCell<Option<Boot>>,
    pause_random: RefCell<Generator>,
    pub paused_ns: Cell<u64>,
    pub retired_cpu_ns: Cell<u64>,
    pub faults: RefCell<DiskFaults>,
    pub fault_random: RefCell<Generator>,
    /// By disk: bytes that files may take.
    pub space: RefCell<Vec<Option<u64>>>,
    pub watch: RefCell<Option<Watch>>,
    /// While somebody watches: by seat and slot.
    pub pending_writes: RefCell<BTreeMap<(u32, u64), PendingWrite>>,
}

impl Host {
    pub fn new(seed: u64, id: u32, ip: IpAddr, model: HostModel) -> Self {
        let mounts: Vec<_> =
            model.disks.iter().enumerate().map(|(index, (path, _))| (path.clone(), index as u32)).collect();
        let device = |(index, (_, disk)): (usize, &(String, _))| {
            Device::new(Clone::clone(disk), Generator::stream(seed, Stream::Disk, &[u64::from(id), index as u64]))
        };
        Self {
            id,
            ip,
            state: Cell::new(State::Off),
            paused: Cell::new(false),
            skew_ns: Cell::new(model.clock_skew_ns),
            heap: Heap::default(),
            tree: RefCell::new(Tree::new(&mounts)),
            devices: RefCell::new(model.disks.iter().enumerate().map(device).collect()),
            page_cache: RefCell::new(PageCache::new(PageCacheModel {
                bytes: model.page_cache_bytes,
                readahead: model.readahead_bytes,
                floor: model.readahead_floor,
            })),
            dirty: RefCell::new(Dirty::new(model.page_cache_bytes, model.trickle_bytes)),
            gathering: RefCell::new(Gathering::new(model.data_part)),
            readers: RefCell::new(model.read_threads.map(Channels::new)),
            volume_limits: RefCell::new(model.volume_caps.map(SharedLimits::new)),
            descriptors: RefCell::new(Descriptors::default()),
            nic: RefCell::new(Nic::new(&model)),
            listeners: RefCell::new(BTreeMap::new()),
            next_port: Cell::new(FIRST_EPHEMERAL_PORT),
            seats: RefCell::new(Vec::new()),
            boots: Cell::new(0),
            boot: RefCell::new(None),
            pause_random: RefCell::new(Generator::stream(seed, Stream::Scheduling, &[u64::from(id)])),
            paused_ns: Cell::new(0),
            retired_cpu_ns: Cell::new(0),
            faults: RefCell::default(),
            // The world's own draws from this stream take no numbers.
            fault_random: RefCell::new(Generator::stream(seed, Stream::Faults, &[u64::from(id)])),
            space: RefCell::new(vec![None; model.disks.len()]),
            watch: RefCell::default(),
            pending_writes: RefCell::default(),
            model,
        }
    }

    /// What work takes of its cost in a run of a shard's CPU that begins now: less while the core's other thread sleeps.
    /// Interrupts have the first threads, shards the others, core by core.
    #[inline]
    pub fn pace(&self, seat: &Seat, now: u64) -> Pace {
        let moments = self.model.moments.as_ref();
        if self.model.cpu.siblings.is_none() && moments.is_none() {
            return Pace::FULL_COST;
        }
        let slowness = moments.map_or(1.0, |moments| moments.slowness(self.cpu(seat.index), now));
        Pace::of(self.sibling_factor(seat, now) * slowness)
    }

    /// A number that no other host's shard has.
    pub fn cpu(&self, shard: usize) -> usize {
        self.id as usize * self.model.shards + shard
    }

    fn sibling_factor(&self, seat: &Seat, now: u64) -> f64 {
        let Some(siblings) = &self.model.cpu.siblings else { return 1.0 };
        let sibling = (siblings.reserved + seat.index) ^ 1;
        let is_awake = match sibling.checked_sub(siblings.reserved) {
            None => self.nic.borrow().is_interrupted(sibling, now),
            Some(index) => self.seats.borrow().get(index).is_some_and(|other| other.is_awake(now)),
        };
        if is_awake { 1.0 } else { siblings.alone }
    }

    /// The same for a run on a pool in which `busy` CPUs are at work, this one among them. The kernel gives threads
    /// cores of their own while there are any.
    pub fn pool_pace(&self, busy: usize, now: u64) -> Pace {
        let cpu = &self.model.cpu;
        let alone = cpu.siblings.filter(|siblings| busy <= siblings.cores).map_or(1.0, |siblings| siblings.alone);
        let slowness = self.model.moments.as_ref().map_or(1.0, |moments| moments.slowness(busy, now));
        Pace::of(alone * slowness * cpu.contention.map_or(1.0, |contention| contention.factor(busy)))
    }

    /// The machine answers on the network.
    pub fn is_up(&self) -> bool {
        !matches!(self.state.get(), State::Off | State::Dying(Some(Crash::PowerLoss)))
    }

    pub fn forget_boot(&self) {
        self.boot.borrow_mut().take();
    }

    pub fn ephemeral_port(&self) -> u16 {
        let port = self.next_port.get();
        self.next_port.set(if port == LAST_EPHEMERAL_PORT { FIRST_EPHEMERAL_PORT } else { port + 1 });
        port
    }
}

/// Linux's `ip_local_port_range`.
const FIRST_EPHEMERAL_PORT: u16 = 32768;
const LAST_EPHEMERAL_PORT: u16 = 60999;

/// What a host's devices and CPUs did so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCounters {
    /// CPU used by each shard since its boot.
    pub shard_cpu_ns: Vec<u64>,
    /// CPU of each kind of work, all shards together.
    pub work_ns: [u64; Work::COUNT],
    /// CPU used by shards of earlier boots.
    pub earlier_cpu_ns: u64,
    /// Time for which all shards stood still.
    pub paused_ns: u64,
    pub disks: Vec<DiskCounters>,
    /// Time at the limit of what its network volumes may do together that their work amounts to.
    pub volumes_busy_ns: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub sent_packets: u64,
    pub received_packets: u64,
    /// Of what was sent and received: time on the way, and in queues before and behind it.
    pub transit_ns: u64,
    pub network_wait_ns: u64,
    /// CPU used by scheduling groups of all shards, and time that their tasks waited for it.
    pub group_cpu_ns: [u64; Group::COUNT],
    pub group_wait_ns: [u64; Group::COUNT],
    /// CPU that went into other threads' locks.
    pub contended_ns: u64,
    /// Reads and writes of the groups, with their waits.
    pub io: [IoClassStats; Group::COUNT],
}

fn io_of(host: &Host) -> [IoClassStats; Group::COUNT] {
    let mut sums = [IoClassStats::default(); Group::COUNT];
    for shard in host.seats.borrow().iter().filter_map(|seat| seat.shard()) {
        for disk in shard.io_stats() {
            for (sum, class) in sums.iter_mut().zip(disk.classes) {
                sum.operations += class.operations;
                sum.bytes += class.bytes;
                sum.queue_delay_ns += class.queue_delay_ns;
                sum.execution_delay_ns += class.execution_delay_ns;
            }
        }
    }
    sums
}

impl World {
    /// Adds a host, switched off. Addresses must differ.
    pub fn add_host(&self, ip: IpAddr, model: HostModel) -> HostId {
        let mut hosts = self.hosts_mut();
        let id = hosts.len() as u32;
        let fresh = self.network().addresses.insert(ip, id).is_none();
        assert!(fresh, "two hosts with the address {ip}");
        hosts.push(Rc::new(Host::new(self.seed(), id, ip, model)));
        HostId(id)
    }

    /// Boots the host: `boot`'s future is the first task of each shard. Restarts run it again.
    pub fn boot<F, Fut>(self: &Rc<Self>, host: HostId, boot: F)
    where
        F: Fn(BootContext) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let boot: Boot = Rc::new(move |context| Box::pin(boot(context)));
        *self.host(host.0).boot.borrow_mut() = Some(boot);
        self.restart(host);
    }

    /// Boots a host that is off or has lost its process, with what its disks hold.
    pub fn restart(self: &Rc<Self>, id: HostId) {
        let host = self.host(id.0);
        assert!(matches!(host.state.get(), State::Off | State::NoProcess), "host {} runs already", id.0);
        let boot = host.boot.borrow().clone();
        let was_off = host.state.replace(State::Running) == State::Off;
        let boots_before = host.boots.replace(host.boots.get() + 1);
        if was_off && boots_before > 0 {
            self.forget_old_connections(id.0);
        }
        let shards = host.model.shards;
        for index in 0..shards {
            let seat = self.add_seat(&host, index);
            let usual = ShardConfig::new(index, shards);
            let task_quota_ns = host.model.task_quota_ns.unwrap_or(usual.task_quota_ns);
            let processors = host.model.cpus_per_shard;
            let task_turn_ns = host.model.task_turn_ns.unwrap_or(usual.task_turn_ns);
            let (io, one_queue) = (host.model.io.clone(), host.model.one_queue);
            let config = ShardConfig { processors, io, task_quota_ns, task_turn_ns, one_queue, ..usual };
            let shard = Shard::new(config, seat.clone(), {
                let notices = self.notices();
                let seat = seat.id;
                Remote::new(move || notices.seat(seat))
            });
            seat.set_shard(shard.clone());
            host.seats.borrow_mut().push(seat.clone());
            if let Some(boot) = &boot {
                let context = BootContext { host: id, ip: host.ip, shard: index, shards, boots_before };
                drop(shard.spawn(Group::Maintenance, "boot", boot(context)));
            }
            self.make_ready(&seat);
        }
        self.trace().note("boot", u64::from(id.0));
    }

    /// Ends the host's process, or the machine. Its tasks are dropped, its shards are gone.
    pub fn crash(self: &Rc<Self>, id: HostId, crash: Crash) {
        let host = self.host(id.0);
        if host.state.get() == State::NoProcess && crash == Crash::PowerLoss {
            host.state.set(State::Running);
        }
        if host.state.get() != State::Running {
            return;
        }
        self.trace().note("crash", u64::from(id.0));
        self.close_shards(&host, Some(crash));
        host.paused.set(false);
        match crash {
            Crash::Kill => host.state.set(State::NoProcess),
            Crash::PowerLoss => {
                host.page_cache.borrow_mut().clear();
                host.dirty.borrow_mut().clear();
                host.tree.borrow_mut().lose_power(self.now(), &mut self.fault_random());
                self.silence_connections(id.0);
                host.state.set(State::Off);
            }
        }
    }

    pub(crate) fn close_shards(self: &Rc<Self>, host: &Rc<Host>, crash: Option<Crash>) {
        host.state.set(State::Dying(crash));
        for seat in host.seats.borrow().iter() {
            if let Some(shard) = seat.take_shard() {
                shard.close();
                host.retired_cpu_ns.set(host.retired_cpu_ns.get() + seat.used_ns());
            }
            self.retire_seat(seat.id);
        }
        host.seats.borrow_mut().clear();
        let open = host.descriptors.borrow().all();
        for fd in open {
            // Nobody is left to hear of an error.
            let _ = self.close(host, self.now(), fd);
        }
        host.listeners.borrow_mut().clear();
    }

    /// The host stands still: nothing runs, but its kernel still takes bytes in and disks finish.
    pub fn pause(self: &Rc<Self>, id: HostId) {
        self.host(id.0).paused.set(true);
    }

    pub fn resume(self: &Rc<Self>, id: HostId) {
        let host = self.host(id.0);
        if host.paused.replace(false) {
            host.seats.borrow().iter().for_each(|seat| self.make_ready(seat));
        }
    }

    /// Stops all shards of the host for `ns`: a collection of garbage, a stolen processor.
    pub fn stand_still(&self, id: HostId, ns: u64) {
        let host = self.host(id.0);
        self.stop_host(&host, self.now(), ns);
    }

    pub(crate) fn stop_host(&self, host: &Host, at: u64, ns: u64) {
        host.paused_ns.set(host.paused_ns.get() + ns);
        for seat in host.seats.borrow().iter() {
            if seat.pool.is_some() {
                self.stop_pool(seat, at, ns);
            } else {
                seat.cpu_free_at.set(seat.cpu_free_at.get().max(at + ns));
            }
        }
    }

    /// Stops the host when its young generation is to be collected.
    #[inline]
    pub(crate) fn collect_garbage(&self, host: &Host, at: u64) {
        let Some(pauses) = &host.model.pauses else { return };
        if let Some(ns) = host.heap.collect(pauses, || host.pause_random.borrow_mut().next_u64()) {
            self.stop_host(host, at, ns);
        }
    }

    /// Moves the host's wall clock.
    pub fn set_clock_skew(&self, id: HostId, skew_ns: i64) {
        self.host(id.0).skew_ns.set(skew_ns);
    }

    /// Nothing that the disk mounted at index `disk` has not begun begins before `for_ns` from now.
    pub fn stall_disk(&self, id: HostId, disk: usize, for_ns: u64) {
        if let Some(device) = self.host(id.0).devices.borrow_mut().get_mut(disk) {
            device.stall(self.now() + for_ns);
        }
    }

    pub fn host_counters(&self, id: HostId) -> HostCounters {
        let host = self.host(id.0);
        let nic = host.nic.borrow();
        let mut work_ns = [0; Work::COUNT];
        for seat in host.seats.borrow().iter() {
            work_ns.iter_mut().zip(seat.spent_ns()).for_each(|(sum, ns)| *sum += ns);
        }
        let of_groups = |count: &dyn Fn(&Seat, Group) -> u64| {
            Group::ALL.map(|group| host.seats.borrow().iter().map(|seat| count(seat, group)).sum())
        };
        HostCounters {
            work_ns,
            shard_cpu_ns: host.seats.borrow().iter().map(|seat| seat.used_ns()).collect(),
            earlier_cpu_ns: host.retired_cpu_ns.get(),
            paused_ns: host.paused_ns.get(),
            disks: host.devices.borrow().iter().map(Device::counters).collect(),
            volumes_busy_ns: host.volume_limits.borrow().as_ref().map_or(0, SharedLimits::busy_ns),
            sent_bytes: nic.counters.sent_bytes,
            received_bytes: nic.counters.received_bytes,
            sent_packets: nic.counters.sent_packets,
            received_packets: nic.counters.received_packets,
            transit_ns: nic.counters.transit_ns,
            network_wait_ns: nic.counters.wait_ns,
            group_cpu_ns: of_groups(&|seat, group| seat.shard().map_or(0, |shard| shard.group_cpu_ns(group))),
            group_wait_ns: of_groups(&|seat, group| seat.waited_ns(group)),
            contended_ns: host.seats.borrow().iter().map(|seat| seat.contended_ns.get()).sum(),
            io: io_of(&host),
        }
    }

    /// Bytes of this process's memory in which the host's files are kept.
    pub fn file_memory(&self, id: HostId) -> usize {
        self.host(id.0).tree.borrow().memory()
    }

    pub fn is_running(&self, id: HostId) -> bool {
        self.host(id.0).state.get() == State::Running
    }

    /// How often the host was booted.
    pub fn boots(&self, id: HostId) -> u32 {
        self.host(id.0).boots.get()
    }

    /// Runs `f` in the context of a shard, for instance to spawn a task or to look at its state; the shard then runs.
    /// `None` when the host is not running.
    pub fn on_shard<R>(self: &Rc<Self>, id: HostId, shard: usize, f: impl FnOnce(&Shard) -> R) -> Option<R> {
        let seat = self.host(id.0).seats.borrow().get(shard)?.clone();
        let shard = seat.shard()?;
        let result = shard.enter(|| f(&shard));
        self.make_ready(&seat);
        Some(result)
    }

    pub(crate) fn schedule_resume(&self, at: u64, host: u32) {
        self.schedule(at, Event::Resume { host });
    }

    /// Lets the host go on after `for_ns`; for a pause with an end.
    pub fn pause_for(self: &Rc<Self>, id: HostId, for_ns: u64) {
        self.pause(id);
        self.schedule_resume(self.now() + for_ns, id.0);
    }
}
