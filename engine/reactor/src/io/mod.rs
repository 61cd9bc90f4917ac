//! The I/O queue: between a shard's tasks and its world, one [`FairQueue`](fair_queue::FairQueue) for each disk.
//!
//! Reads and writes of files pass through it; all else goes straight to the world. A request's class is the scheduling
//! group of the task that asks. Where nothing waits and there is room, a request passes at the cost of a few additions;
//! else it stays in its slot, and goes when a completion or time makes room. The queue belongs to one shard, which has
//! an equal part of each disk's rates.

pub(crate) mod fair_queue;
mod properties;

use std::cell::{Cell, RefCell};

pub(crate) use properties::Direction;
pub use properties::{Disk, IoConfig, Rates};

use self::fair_queue::FairQueue;
use crate::{Group, SlotId};

/// Which disk's queue a file's operations go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueId(u8);

/// A request's way through the queue; kept in its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    queue: QueueId,
    class: Group,
    bytes: u64,
    cost_ns: u64,
    asked_at_ns: u64,
    /// `None` while it waits.
    began_at_ns: Option<u64>,
}

impl Ticket {
    pub fn is_waiting(&self) -> bool {
        self.began_at_ns.is_none()
    }
}

/// What one class did on one disk, of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoClassStats {
    /// Operations that have ended.
    pub operations: u64,
    pub bytes: u64,
    /// Sums over the operations: in the queue, and in the world behind it.
    pub queue_delay_ns: u64,
    pub execution_delay_ns: u64,
}

/// What one shard did on one disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoStats {
    /// Empty for the disks of which nothing is known.
    pub mountpoint: String,
    /// By `Group`.
    pub classes: [IoClassStats; Group::COUNT],
    /// In the queue now.
    pub waiting: usize,
}

impl IoStats {
    pub fn class(&self, class: Group) -> &IoClassStats {
        &self.classes[class as usize]
    }
}

struct Queue {
    mountpoint: String,
    fair: RefCell<FairQueue<SlotId>>,
    stats: RefCell<[IoClassStats; Group::COUNT]>,
}

pub(crate) struct IoQueues {
    /// Longest mount point first; the last has all other files.
    queues: Vec<Queue>,
    /// Requests that wait, in all queues.
    waiting: Cell<usize>,
}

/// The commit log before statements, before flushes, before compaction: what waits for each, and how long it can.
fn default_shares(class: Group) -> u32 {
    match class {
        Group::CommitLog => 2000,
        Group::Statement => 1000,
        Group::Flush => 600,
        Group::Compaction => 400,
        Group::Streaming => 200,
        Group::Maintenance => 200,
    }
}

impl IoQueues {
    pub fn new(config: &IoConfig, shards: usize) -> Self {
        let shares = Group::ALL.map(default_shares);
        let queue = |mountpoint: &str, rates: Option<Rates>| Queue {
            mountpoint: mountpoint.trim_end_matches('/').into(),
            fair: RefCell::new(FairQueue::new(rates, config.latency_goal_ns, config.depth_max, shares)),
            stats: RefCell::default(),
        };
        let mut disks: Vec<&Disk> = config.disks.iter().take(usize::from(u8::MAX)).collect();
        disks.sort_by_key(|disk| std::cmp::Reverse(disk.mountpoint.trim_end_matches('/').len()));
        let known = disks.into_iter().map(|disk| queue(&disk.mountpoint, Some(disk.rates.share(shards))));
        let mut queues: Vec<Queue> = known.collect();
        if queues.last().is_none_or(|last| !last.mountpoint.is_empty()) {
            queues.push(queue("", None));
        }
        Self { queues, waiting: Cell::new(0) }
    }

    /// The queue of a file's disk. Relative paths lie on the disk of "/", or the unknown one.
    pub fn of_path(&self, path: &str) -> QueueId {
        let lies_under = |queue: &Queue| {
            path.strip_prefix(queue.mountpoint.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || queue.mountpoint.is_empty())
        };
        QueueId(self.queues.iter().position(lies_under).unwrap_or(self.queues.len() - 1) as u8)
    }

    fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[usize::from(id.0)]
    }

    pub fn set_shares(&self, class: Group, shares: u32) {
        self.queues.iter().for_each(|queue| queue.fair.borrow_mut().set_shares(class, shares));
    }

    /// A request asks to go. With a ticket that waits it must stay in its slot until [`IoQueues::next`] names it.
    #[inline]
    pub fn ask(
        &self,
        now_ns: u64,
        queue: QueueId,
        class: Group,
        direction: Direction,
        bytes: u64,
        slot: SlotId,
    ) -> Ticket {
        let fair = &mut *self.queue(queue).fair.borrow_mut();
        let cost_ns = fair.cost_ns(direction, bytes);
        let passes = fair.pass(now_ns, class, cost_ns);
        if !passes {
            fair.push(class, cost_ns, slot);
            self.waiting.set(self.waiting.get() + 1);
        }
        Ticket { queue, class, bytes, cost_ns, asked_at_ns: now_ns, began_at_ns: passes.then_some(now_ns) }
    }

    #[inline]
    pub fn has_waiting(&self) -> bool {
        self.waiting.get() > 0
    }

    /// A request that waited and goes now: the caller gives it to the world.
    pub fn next(&self, now_ns: u64) -> Option<SlotId> {
        let slot = self.queues.iter().find_map(|queue| queue.fair.borrow_mut().next(now_ns))?;
        self.waiting.set(self.waiting.get() - 1);
        Some(slot)
    }

    /// When time makes room for one that waits.
    pub fn next_at(&self) -> Option<u64> {
        if !self.has_waiting() {
            return None;
        }
        self.queues.iter().filter_map(|queue| queue.fair.borrow().next_at()).min()
    }

    /// A request that went has ended.
    #[inline]
    pub fn ended(&self, now_ns: u64, ticket: &Ticket) {
        let queue = self.queue(ticket.queue);
        queue.fair.borrow_mut().ended(ticket.cost_ns);
        let began_at_ns = ticket.began_at_ns.unwrap_or(ticket.asked_at_ns);
        let stats = &mut queue.stats.borrow_mut()[ticket.class as usize];
        stats.operations += 1;
        stats.bytes += ticket.bytes;
        stats.queue_delay_ns += began_at_ns.saturating_sub(ticket.asked_at_ns);
        stats.execution_delay_ns += now_ns.saturating_sub(began_at_ns);
    }

    /// Nobody wants a waiting request any more.
    pub fn remove(&self, ticket: &Ticket, slot: SlotId) {
        let removed = self.queue(ticket.queue).fair.borrow_mut().remove(ticket.class, |other| *other == slot);
        if removed.is_some() {
            self.waiting.set(self.waiting.get() - 1);
        }
    }

    pub fn stats(&self) -> Vec<IoStats> {
        let stats = |queue: &Queue| IoStats {
            mountpoint: queue.mountpoint.clone(),
            classes: *queue.stats.borrow(),
            waiting: queue.fair.borrow().waiting(),
        };
        self.queues.iter().map(stats).collect()
    }
}

impl Ticket {
    pub fn begin(&mut self, now_ns: u64) {
        self.began_at_ns = Some(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_find_their_disk() {
        let rates = Rates { read_iops: 1, read_bandwidth: 1, write_iops: 1, write_bandwidth: 1 };
        let disk = |mountpoint: &str| Disk { mountpoint: mountpoint.into(), rates };
        let queues = |disks: &[&str]| {
            IoQueues::new(&IoConfig { disks: disks.iter().map(|m| disk(m)).collect(), ..IoConfig::default() }, 1)
        };
        let name = |queues: &IoQueues, path: &str| queues.queue(queues.of_path(path)).mountpoint.clone();
        let two = queues(&["/data", "/data/log/"]);
        assert_eq!(name(&two, "/data/a"), "/data");
        assert_eq!(name(&two, "/data/log/a"), "/data/log");
        assert_eq!(name(&two, "/database"), "");
        assert_eq!(name(&two, "relative"), "");
        let root = queues(&["/", "/x"]);
        assert_eq!((root.queues.len(), name(&root, "/y/z"), name(&root, "/x")), (2, String::new(), "/x".into()));
        assert_eq!(queues(&[]).queues.len(), 1);
    }
}
