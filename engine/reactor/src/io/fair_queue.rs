//! Which request goes to a disk next, and when: pure, given the time.
//!
//! 1. Every request has a cost: the part of a second of the disk that it takes, in nanoseconds. As in Seastar's
//!    `io_queue`, that is one over the rate of operations plus its bytes over the bandwidth, of its direction.
//! 2. Costs are paid from a token bucket that fills with time and holds the latency goal at most, so that the disk is
//!    never given more than it can do. A request larger than the bucket goes when the bucket is in credit, and puts it
//!    into debt: no request is too large.
//! 3. What is in flight is bounded by the latency goal too, in cost: a device slower than it was said to be gets no
//!    longer a queue for it. A few requests may always be in flight, as a device works on several at once.
//! 4. Waiting classes share by their shares: each has a virtual time that advances by cost over shares, and the least
//!    goes first, so that no class starves. A class that was idle resumes at the virtual time of the one that went
//!    last; it cannot save up its idleness.
//!
//! Without rates only the number in flight is bounded, and costs are nominal.

use std::collections::VecDeque;

use super::properties::{Direction, Rates};
use crate::Group;

/// In flight at once whatever their cost: fewer would leave the channels of a slow device idle.
const IN_FLIGHT_MIN: u32 = 4;

/// What a request costs where nothing is known of the disk: 10 us and 1 GB/s.
const NOMINAL: Rates =
    Rates { read_iops: 100_000, read_bandwidth: 1 << 30, write_iops: 100_000, write_bandwidth: 1 << 30 };

struct Waiting<T> {
    cost_ns: u64,
    item: T,
}

struct Class<T> {
    shares: u32,
    /// Cost of what went, over shares.
    virtual_ns: u64,
    queue: VecDeque<Waiting<T>>,
}

pub(crate) struct FairQueue<T> {
    classes: [Class<T>; Group::COUNT],
    /// Bit i: class i has waiting requests.
    waiting: u32,
    /// Virtual time of the class that went last.
    floor_ns: u64,
    costs: Rates,
    has_rates: bool,
    goal_ns: u64,
    depth_max: u32,
    /// In debt when negative.
    tokens_ns: i64,
    filled_at_ns: u64,
    in_flight: u32,
    in_flight_cost_ns: u64,
}

impl<T> FairQueue<T> {
    /// `rates`: this shard's part of the disk.
    pub fn new(rates: Option<Rates>, goal_ns: u64, depth_max: u32, shares: [u32; Group::COUNT]) -> Self {
        Self {
            classes: shares.map(|shares| Class { shares: shares.max(1), virtual_ns: 0, queue: VecDeque::new() }),
            waiting: 0,
            floor_ns: 0,
            costs: rates.unwrap_or(NOMINAL),
            has_rates: rates.is_some(),
            goal_ns: goal_ns.max(1),
            depth_max: depth_max.max(1),
            tokens_ns: goal_ns.max(1) as i64,
            filled_at_ns: 0,
            in_flight: 0,
            in_flight_cost_ns: 0,
        }
    }

    #[inline]
    pub fn cost_ns(&self, direction: Direction, bytes: u64) -> u64 {
        self.costs.cost_ns(direction, bytes)
    }

    pub fn set_shares(&mut self, class: Group, shares: u32) {
        self.classes[class as usize].shares = shares.max(1);
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub fn waiting(&self) -> usize {
        self.classes.iter().map(|class| class.queue.len()).sum()
    }

    /// Whether a request may go past an empty queue, now; then it counts as in flight.
    #[inline]
    pub fn pass(&mut self, now_ns: u64, class: Group, cost_ns: u64) -> bool {
        if self.waiting != 0 || !self.has_room(now_ns) {
            return false;
        }
        let floor_ns = self.floor_ns;
        let state = &mut self.classes[class as usize];
        state.virtual_ns = state.virtual_ns.max(floor_ns);
        self.spend(class as usize, cost_ns);
        true
    }

    pub fn push(&mut self, class: Group, cost_ns: u64, item: T) {
        let state = &mut self.classes[class as usize];
        if state.queue.is_empty() {
            state.virtual_ns = state.virtual_ns.max(self.floor_ns);
            self.waiting |= 1 << class as usize;
        }
        state.queue.push_back(Waiting { cost_ns, item });
    }

    /// The request whose turn it is, if there is room for it now; then it counts as in flight.
    pub fn next(&mut self, now_ns: u64) -> Option<T> {
        if self.waiting == 0 || !self.has_room(now_ns) {
            return None;
        }
        let mut rest = self.waiting;
        let mut best = (u64::MAX, usize::MAX);
        while rest != 0 {
            let index = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let virtual_ns = self.classes[index].virtual_ns;
            if virtual_ns < best.0 {
                best = (virtual_ns, index);
            }
        }
        let waiting = self.take_front(best.1)?;
        self.spend(best.1, waiting.cost_ns);
        Some(waiting.item)
    }

    fn take_front(&mut self, class: usize) -> Option<Waiting<T>> {
        let queue = &mut self.classes.get_mut(class)?.queue;
        let front = queue.pop_front();
        if queue.is_empty() {
            self.waiting &= !(1 << class);
        }
        front
    }

    /// When time alone makes room for the next one; `None` when nothing waits, or a completion has to come first.
    pub fn next_at(&self) -> Option<u64> {
        if self.waiting == 0 || !self.has_rates || !self.may_be_more_in_flight() {
            return None;
        }
        Some(self.filled_at_ns + (1 - self.tokens_ns).max(0) as u64)
    }

    /// A request that went has ended.
    #[inline]
    pub fn ended(&mut self, cost_ns: u64) {
        self.in_flight -= 1;
        self.in_flight_cost_ns -= cost_ns;
    }

    /// Takes a waiting request out.
    pub fn remove(&mut self, class: Group, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let queue = &mut self.classes[class as usize].queue;
        let at = queue.iter().position(|waiting| is_it(&waiting.item))?;
        let removed = queue.remove(at);
        if queue.is_empty() {
            self.waiting &= !(1 << class as usize);
        }
        removed.map(|waiting| waiting.item)
    }

    fn spend(&mut self, class: usize, cost_ns: u64) {
        let state = &mut self.classes[class];
        self.floor_ns = self.floor_ns.max(state.virtual_ns);
        state.virtual_ns += cost_ns * 1000 / u64::from(state.shares);
        self.in_flight += 1;
        self.in_flight_cost_ns += cost_ns;
        if self.has_rates {
            self.tokens_ns -= cost_ns as i64;
        }
    }

    #[inline]
    fn may_be_more_in_flight(&self) -> bool {
        self.in_flight < self.depth_max
            && (!self.has_rates || self.in_flight < IN_FLIGHT_MIN || self.in_flight_cost_ns < self.goal_ns)
    }

    #[inline]
    fn has_room(&mut self, now_ns: u64) -> bool {
        if !self.may_be_more_in_flight() {
            return false;
        }
        if !self.has_rates {
            return true;
        }
        if now_ns > self.filled_at_ns {
            let filled = self.tokens_ns.saturating_add_unsigned(now_ns - self.filled_at_ns);
            self.tokens_ns = filled.min(self.goal_ns as i64);
            self.filled_at_ns = now_ns;
        }
        self.tokens_ns > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL_NS: u64 = 1_000_000;
    const RATES: Rates =
        Rates { read_iops: 10_000, read_bandwidth: 100_000_000, write_iops: 5_000, write_bandwidth: 50_000_000 };
    const EVEN: [u32; Group::COUNT] = [1000; Group::COUNT];

    fn queue(rates: Option<Rates>) -> FairQueue<Group> {
        FairQueue::new(rates, GOAL_NS, 64, EVEN)
    }

    #[test]
    fn costs_are_parts_of_a_second() {
        let queue = queue(Some(RATES));
        assert_eq!(queue.cost_ns(Direction::Read, 0), 100_000);
        assert_eq!(queue.cost_ns(Direction::Read, 100_000), 1_100_000);
        assert_eq!(queue.cost_ns(Direction::Write, 0), 200_000);
        assert_eq!(queue.cost_ns(Direction::Write, 50_000_000), 1_000_200_000);
    }

    /// Keeps all named classes waiting for a second on a device that takes each request's cost. Gives what each got.
    fn saturate(queue: &mut FairQueue<Group>, classes: &[(Group, u64)]) -> [u64; Group::COUNT] {
        let mut got = [0; Group::COUNT];
        let mut now = 0;
        let mut ends: VecDeque<(u64, u64)> = VecDeque::new();
        let cost_of = |class: Group| classes.iter().find(|(c, _)| *c == class).map_or(0, |(_, cost)| *cost);
        for (class, cost) in classes {
            (0..8).for_each(|_| queue.push(*class, *cost, *class));
        }
        while now < 1_000_000_000 {
            while let Some(class) = queue.next(now) {
                let cost = cost_of(class);
                got[class as usize] += cost;
                let begins = ends.back().map_or(now, |(end, _)| (*end).max(now));
                ends.push_back((begins + cost, cost));
                queue.push(class, cost, class);
            }
            let ends_at = ends.front().map(|(end, _)| *end);
            now = ends_at.into_iter().chain(queue.next_at()).min().unwrap().max(now + 1);
            while let Some((_, cost)) = ends.pop_front_if(|(end, _)| *end <= now) {
                queue.ended(cost);
            }
        }
        got
    }

    #[test]
    fn classes_share_by_their_shares_whatever_the_size_of_their_requests() {
        let mut queue = queue(Some(RATES));
        queue.set_shares(Group::Statement, 3000);
        let got = saturate(&mut queue, &[(Group::Statement, 100_000), (Group::Compaction, 700_000)]);
        let total: u64 = got.iter().sum();
        assert!((990_000_000..1_010_000_000).contains(&total), "the disk is busy, and not over its rates: {total}");
        let part = got[Group::Statement as usize] * 100 / total;
        assert!((73..=77).contains(&part), "{part} %");
    }

    #[test]
    fn nobody_starves() {
        let mut queue = queue(Some(RATES));
        queue.set_shares(Group::Statement, 100_000);
        queue.set_shares(Group::Maintenance, 1);
        let got = saturate(&mut queue, &[(Group::Statement, 100_000), (Group::Maintenance, 100_000)]);
        assert!(got[Group::Maintenance as usize] > 0);
    }

    #[test]
    fn one_class_alone_gets_the_disk() {
        let got = saturate(&mut queue(Some(RATES)), &[(Group::Streaming, 300_000)]);
        let total = got[Group::Streaming as usize];
        assert!((990_000_000..1_010_000_000).contains(&total), "{total}");
    }

    #[test]
    fn what_is_in_flight_is_worth_the_latency_goal() {
        let mut queue = queue(Some(RATES));
        (0..100).for_each(|_| queue.push(Group::Compaction, 100_000, Group::Compaction));
        let gone = std::iter::from_fn(|| queue.next(0)).count();
        assert_eq!(gone, 10);
        // Time alone does not help a device that does not answer.
        assert_eq!((queue.next(10 * GOAL_NS), queue.next_at()), (None, None));
        queue.ended(100_000);
        assert!(queue.next(10 * GOAL_NS).is_some() && queue.next(10 * GOAL_NS).is_none());
    }

    #[test]
    fn tokens_come_with_time() {
        let mut queue = queue(Some(RATES));
        assert!(queue.pass(0, Group::Compaction, 5 * GOAL_NS), "larger than the bucket");
        queue.ended(5 * GOAL_NS);
        assert!(!queue.pass(0, Group::Statement, 100_000));
        queue.push(Group::Statement, 100_000, Group::Statement);
        assert_eq!(queue.next(0), None);
        let due = queue.next_at().unwrap();
        assert_eq!(due, 4 * GOAL_NS + 1);
        assert_eq!(queue.next(due - 1), None);
        assert_eq!(queue.next(due), Some(Group::Statement));
        assert!(queue.is_empty());
    }

    #[test]
    fn without_rates_only_the_depth_binds() {
        let mut queue = queue(None);
        let passed = (0..100).filter(|_| queue.pass(0, Group::Statement, 1_000_000_000)).count();
        assert_eq!(passed, 64);
        queue.push(Group::Compaction, 1, Group::Compaction);
        assert_eq!((queue.next(u64::MAX / 2), queue.next_at()), (None, None));
        queue.ended(1_000_000_000);
        assert_eq!(queue.next(0), Some(Group::Compaction));
    }

    #[test]
    fn idleness_is_not_saved_up() {
        let mut queue = queue(None);
        for _ in 0..1000 {
            assert!(queue.pass(0, Group::Compaction, 100_000));
            queue.ended(100_000);
        }
        (0..64).for_each(|_| assert!(queue.pass(0, Group::Maintenance, 0)));
        for _ in 0..4 {
            queue.push(Group::Compaction, 100_000, Group::Compaction);
            queue.push(Group::Statement, 100_000, Group::Statement);
        }
        (0..64).for_each(|_| queue.ended(0));
        let order: Vec<Group> = std::iter::from_fn(|| queue.next(0)).collect();
        let first: Vec<Group> = order[..3].to_vec();
        assert!(first.contains(&Group::Compaction) && first.contains(&Group::Statement), "{order:?}");
    }

    #[test]
    fn what_is_removed_does_not_come() {
        let mut queue = queue(None);
        queue.push(Group::Flush, 1, Group::Flush);
        assert_eq!(queue.remove(Group::Flush, |_| true), Some(Group::Flush));
        assert_eq!(queue.remove(Group::Flush, |_| true), None);
        assert!(queue.is_empty() && queue.next(0).is_none());
    }
}
