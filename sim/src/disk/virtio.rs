//! A virtual machine's disk behind one queue: a thread of the host takes what the guest has queued, one request after
//! the other, until nothing is left, and then answers all of it together. What comes meanwhile puts the answer off.
//!
//! So Firecracker's `VirtioBlock::process_queue` works (its `devices/virtio/block/virtio/device.rs`) with the file engine
//! `Sync`, its default. Writes and flushes are in the same queue, so what they take from reads needs no curve.
//!
//! A thread that is often busy is put off for others now and then, as the host's scheduler shares a processor out, and
//! everything in the queue with it: a stalling episode comes when its `every` is over, if the thread was busy for the
//! share `busy` of that time, and is as much shorter than `length` as the thread was less than always busy. (At 10,000
//! and 20,000 reads a second of at most 96,000 none stood still for 2 ms, at 36,000 they did twice a second, at 46,000
//! 10.5 times, and 16 to 17 times from 51,000 on: for 2.6 ms, the median; 3.0 at 64,000, 3.4 at 87,000, 4.1 at most.)

use std::collections::VecDeque;

use super::device::{Direction, Request};
use super::model::{DirectionModel, DiskModel, EpisodeModel};
use crate::latency::Latency;
use crate::random::Generator;
use crate::server::Served;

pub(super) struct Virtio {
    read: Side,
    write: Side,
    flush_ns: u64,
    discard_ns_per_byte: f64,
    /// When the thread is through with what it has.
    through_at: u64,
    /// Those whose answers may be under way, the last of them open.
    batches: VecDeque<Batch>,
    busy_ns: u64,
    stalls: Vec<Stalls>,
    random: Generator,
}

struct Stalls {
    model: EpisodeModel,
    /// The end of the last one, and when the next one is due.
    since: u64,
    due_at: u64,
    /// What the thread did in between.
    work_ns: u64,
}

impl Stalls {
    fn new(model: &EpisodeModel, random: &mut Generator) -> Self {
        let mut stalls = Self { model: model.clone(), since: 0, due_at: 0, work_ns: 0 };
        stalls.plan(0, random);
        stalls
    }

    /// From half to one and a half times the mean, evenly.
    fn plan(&mut self, since: u64, random: &mut Generator) {
        let due_at = since + self.model.every_ns / 2 + random.below(self.model.every_ns.max(1));
        (self.since, self.due_at, self.work_ns) = (since, due_at, 0);
    }

    /// How long the thread stands still before it does `work_ns` from `at` on.
    fn before(&mut self, at: u64, work_ns: u64, random: &mut Generator) -> u64 {
        let mut length_ns = 0;
        if at >= self.due_at {
            let busy = self.work_ns as f64 / (at - self.since) as f64;
            if busy >= self.model.busy {
                length_ns = (self.model.length.sample(random.next_u64()) as f64 * busy) as u64;
            }
            self.plan(at + length_ns, random);
        }
        self.work_ns += work_ns;
        length_ns
    }

    /// Of the time of a thread that is never idle, what is left.
    fn leaves(&self) -> f64 {
        let every = self.model.every_ns as f64;
        every / (every + self.model.length.mean_ns())
    }
}

/// What is answered together.
struct Batch {
    number: u64,
    /// Between the thread's last request and the guest's notice.
    after_ns: u64,
    ends_at: u64,
}

struct Side {
    ns_per_operation: f64,
    ns_per_byte: f64,
    /// A small request in an idle device.
    alone: Latency,
}

/// Requests whose rate `iops`, and whose bytes a second `bandwidth` tells, and how many of them there are at once, as
/// `orrery probe` measures them.
const SMALL: f64 = 4096.0;
const LARGE: f64 = 131_072.0;
const SMALL_AT_ONCE: f64 = 256.0;
const LARGE_AT_ONCE: f64 = 32.0;

impl Side {
    /// The thread does a request's bytes after all else of it, so that its time is a line, here through the two that
    /// were measured. (Reads of 4, 8, 12, 16 and 32 KiB took 18, 22, 25, 29 and 38 us each, of 128 KiB 127 us.) All that
    /// are there at once are one batch, and between two of these the thread waits for the way there and back.
    ///
    /// `works`: of a busy thread's time, what stalls leave.
    fn new(of: &DirectionModel, works: f64) -> Self {
        let alone = of.service.mean_ns();
        // A batch takes the work of all and the way of one, which is what one alone takes less its work.
        let small = ((SMALL_AT_ONCE * works * 1e9 / of.iops - alone) / (SMALL_AT_ONCE - 1.0)).max(0.0);
        let way = (alone - small).max(0.0);
        let large = (works * LARGE * 1e9 / of.bandwidth - way / LARGE_AT_ONCE).max(small);
        let ns_per_byte = ((large - small) / (LARGE - SMALL)).max(0.0);
        Self { ns_per_operation: (small - SMALL * ns_per_byte).max(0.0), ns_per_byte, alone: of.service.clone() }
    }

    fn work_ns(&self, bytes: u64) -> u64 {
        (self.ns_per_operation + bytes as f64 * self.ns_per_byte).round() as u64
    }

    /// What a small request takes beside the thread's work: from the guest to it, and back.
    fn way_ns(&self, random: u64) -> u64 {
        self.alone.sample(random).saturating_sub(self.work_ns(SMALL as u64))
    }
}

impl Virtio {
    pub fn new(model: &DiskModel, mut random: Generator) -> Self {
        let stalling = model.episodes.iter().filter(|episode| episode.rates_left <= 0.0);
        let stalls: Vec<Stalls> = stalling.map(|episode| Stalls::new(episode, &mut random)).collect();
        let works = stalls.iter().map(Stalls::leaves).product();
        Self {
            read: Side::new(&model.read, works),
            write: Side::new(&model.write, works),
            stalls,
            flush_ns: model.flush_ns,
            discard_ns_per_byte: model.discard.map_or(0.0, |bandwidth| 1e9 / bandwidth),
            through_at: 0,
            batches: VecDeque::new(),
            busy_ns: 0,
            random,
        }
    }

    /// `ends_at` as far as it is known now: [`Self::answered_at`] has it later.
    pub fn serve(&mut self, at: u64, not_before: u64, request: Request) -> Served {
        let side = match request.direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        };
        let (work_ns, way_ns) = (side.work_ns(request.bytes), side.way_ns(self.random.next_u64()));
        self.take(at.max(not_before), work_ns, way_ns)
    }

    pub fn flush(&mut self, at: u64) -> u64 {
        let way_ns = self.write.way_ns(self.random.next_u64());
        self.take(at, self.flush_ns.saturating_sub(way_ns), way_ns).ends_at
    }

    /// Frees a removed file's blocks, a request in the queue like others. (The thread of a virtual machine's disk took
    /// 17.2 ms for 126 MB, 4.6 ms for 34 MB, 0.07 ms for 4 KiB.)
    pub fn discard(&mut self, at: u64, bytes: u64) -> u64 {
        let way_ns = self.write.way_ns(self.random.next_u64());
        let work_ns = self.write.ns_per_operation + bytes as f64 * self.discard_ns_per_byte;
        self.take(at, work_ns as u64, way_ns).ends_at
    }

    fn take(&mut self, at: u64, work_ns: u64, way_ns: u64) -> Served {
        let last = self.batches.back();
        if last.is_none() || self.through_at <= at {
            let (number, earliest) = last.map_or((1, 0), |last| (last.number + 1, last.ends_at));
            while self.batches.front().is_some_and(|batch| batch.ends_at < at) {
                self.batches.pop_front();
            }
            // Half of the way lies before the work, assumed.
            self.through_at = at + way_ns / 2;
            self.batches.push_back(Batch { number, after_ns: way_ns - way_ns / 2, ends_at: earliest });
        }
        for stalls in &mut self.stalls {
            self.through_at += stalls.before(self.through_at, work_ns, &mut self.random);
        }
        let starts_at = self.through_at;
        self.through_at += work_ns;
        self.busy_ns += work_ns;
        let through_at = self.through_at;
        let ends_at = self.batches.back_mut().map_or(through_at, |batch| {
            // Answers do not overtake each other.
            batch.ends_at = batch.ends_at.max(through_at + batch.after_ns);
            batch.ends_at
        });
        Served { starts_at, ends_at }
    }

    /// The number of the batch that the last request is in.
    pub fn batch(&self) -> u64 {
        self.batches.back().map_or(0, |batch| batch.number)
    }

    /// When a batch is answered, by all that has come; `None` when that is long over.
    pub fn answered_at(&self, number: u64) -> Option<u64> {
        self.batches.iter().find(|batch| batch.number == number).map(|batch| batch.ends_at)
    }

    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50 us alone, of which 10 us are the thread's; 131.072 us are for 128 KiB.
    fn model() -> DiskModel {
        let direction = || DirectionModel {
            iops: 256.0 / (256.0 * 10e-6 + 40e-6),
            bandwidth: 32.0 * LARGE / (32.0 * 131.072e-6 + 40e-6),
            service: Latency::constant(50_000),
        };
        DiskModel { read: direction(), write: direction(), flush_ns: 90_000, ..DiskModel::fast("test") }
    }

    fn disk() -> Virtio {
        Virtio::new(&model(), Generator::new(1))
    }

    const READ: Request = Request { direction: Direction::Read, place: 0, bytes: 4096 };

    #[test]
    fn what_comes_while_the_thread_works_is_answered_with_what_it_works_on() {
        let mut disk = disk();
        let us = |served: Served| (served.starts_at / 1000, served.ends_at / 1000);
        assert_eq!(us(disk.serve(0, 0, READ)), (20, 50));
        let first = disk.batch();
        assert_eq!(us(disk.serve(25_000, 0, READ)), (30, 60));
        assert_eq!((disk.batch(), disk.answered_at(first)), (first, Some(60_000)));
        // It looks again when it is through, not when the answer has come.
        assert_eq!(us(disk.serve(40_000, 0, READ)), (60, 90));
        assert_eq!((disk.batch(), disk.answered_at(first)), (first + 1, Some(60_000)));
        disk.serve(1_000_000, 0, READ);
        assert_eq!(disk.answered_at(first), None);
    }

    #[test]
    fn what_comes_behind_a_discard_waits_for_it() {
        let mut disk = Virtio::new(&DiskModel { discard: Some(20e9), ..model() }, Generator::new(1));
        // The first half of a small write's way of 40 us, its work besides its bytes, the discard; and the way back.
        let through_at = 1_000_000 + 20_000 + 6_094 + 20_000_000;
        assert_eq!(disk.discard(1_000_000, 400_000_000), through_at + 20_000);
        assert_eq!(disk.serve(1_000_000, 0, READ).starts_at, through_at);
    }

    #[test]
    fn many_bytes_and_flushes_keep_the_thread_from_all_else() {
        let mut disk = disk();
        let write = Request { direction: Direction::Write, place: 0, bytes: 128 << 10 };
        assert_eq!(disk.serve(0, 0, write).ends_at, 171_072);
        assert_eq!(disk.flush(0), 221_072);
        assert_eq!(disk.serve(140_000, 0, READ).ends_at, 231_072);
        assert_eq!(disk.busy_ns(), 191_072);
        assert_eq!(disk.flush(2_000_000), 2_090_000);
    }

    #[test]
    fn a_busy_thread_is_put_off_and_does_what_it_was_measured_to_do() {
        let stall =
            EpisodeModel { every_ns: 50_000_000, length: Latency::constant(4_000_000), rates_left: 0.0, busy: 0.4 };
        let mut disk = Virtio::new(&DiskModel { episodes: vec![stall], ..model() }, Generator::new(1));
        // One behind the other, without a pause.
        let (mut before, mut stalls) = (0, 0);
        for _ in 0..1_000_000 {
            let served = disk.serve(0, 0, READ);
            stalls += u32::from(served.starts_at > before + 3_000_000);
            before = served.starts_at;
        }
        assert!((before as f64 / 10e9 - 1.0).abs() < 0.01, "{before} ns");
        // 10 s / 54 ms, and a standard deviation of 4.
        assert!((177..194).contains(&stalls), "{stalls} in 10 s");
        // One read a millisecond is the thread's work for 1 % of the time.
        let from = before + 1_000_000_000;
        let late = (0..10_000).filter(|i| {
            let at = from + i * 1_000_000;
            disk.serve(at, 0, READ).ends_at > at + 1_000_000
        });
        assert!(late.count() < 20);
    }

    #[test]
    fn between_small_and_large_requests_time_is_a_line() {
        let took = |kib: u64| disk().serve(0, 0, Request { bytes: kib << 10, ..READ }).ends_at - 40_000;
        assert_eq!((took(4), took(66), took(128)), (10_000, 70_536, 131_072));
    }
}
