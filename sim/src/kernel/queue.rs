//! The event queue: pops in exact order of time, then of scheduling. A calendar in front of a heap.
//!
//! The calendar has 4,096 buckets of 1,024 ns, 4.2 ms together. An event inside of that goes to its bucket's list,
//! unsorted; one beyond waits in a heap and moves over when the calendar has come near enough. The bucket at hand is
//! sorted once and popped from its end; what is scheduled into it meanwhile is inserted in place.
//!
//! 1,024 ns: at the densest (100 busy shards) a bucket then holds some tens of events, which sort in cache; 4,096 of
//! them reach past disk and network latencies, so that only timers go through the heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::event::Event;

const BUCKET_BITS: u32 = 10;
const BUCKETS: u64 = 4096;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    sequence: u64,
    event: Event,
}

struct Node {
    entry: Entry,
    next: u32,
}

/// In the heap by time and sequence; the event lies beside.
#[derive(Clone, Copy)]
struct Far(Entry);

impl PartialEq for Far {
    fn eq(&self, other: &Self) -> bool {
        self.0.sequence == other.0.sequence
    }
}
impl Eq for Far {}
impl PartialOrd for Far {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Far {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0.at, self.0.sequence).cmp(&(other.0.at, other.0.sequence))
    }
}

pub struct Queue {
    /// The bucket at hand, latest first.
    current: Vec<Entry>,
    /// Number of the bucket at hand since time 0.
    tick: u64,
    heads: Box<[u32]>,
    /// A bit for each bucket that holds events, and a bit for each word of those.
    filled: [u64; (BUCKETS / 64) as usize],
    filled_words: u64,
    nodes: Vec<Node>,
    free: u32,
    in_buckets: usize,
    far: BinaryHeap<Reverse<Far>>,
    sequence: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

impl Queue {
    pub fn new() -> Self {
        Self {
            current: Vec::new(),
            tick: 0,
            heads: vec![NONE; BUCKETS as usize].into_boxed_slice(),
            filled: [0; (BUCKETS / 64) as usize],
            filled_words: 0,
            nodes: Vec::new(),
            free: NONE,
            in_buckets: 0,
            far: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// Events scheduled so far.
    pub fn scheduled(&self) -> u64 {
        self.sequence
    }

    pub fn len(&self) -> usize {
        self.current.len() + self.in_buckets + self.far.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Schedules `event`. A time before the last popped event's counts as that bucket's earliest: callers never do that.
    #[inline]
    pub fn push(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        let entry = Entry { at, sequence: self.sequence, event };
        let tick = at >> BUCKET_BITS;
        if tick <= self.tick {
            // Latest first; equal times were scheduled earlier and lie behind, nearer to the end.
            let place = self.current.partition_point(|other| other.at > at);
            self.current.insert(place, entry);
        } else if tick - self.tick < BUCKETS {
            self.push_bucket(tick, entry);
        } else {
            self.far.push(Reverse(Far(entry)));
        }
    }

    fn push_bucket(&mut self, tick: u64, entry: Entry) {
        let bucket = (tick % BUCKETS) as usize;
        let next = self.heads[bucket];
        let index = match self.free {
            NONE => {
                self.nodes.push(Node { entry, next });
                (self.nodes.len() - 1) as u32
            }
            index => {
                let node = &mut self.nodes[index as usize];
                self.free = node.next;
                *node = Node { entry, next };
                index
            }
        };
        self.heads[bucket] = index;
        self.filled[bucket / 64] |= 1 << (bucket % 64);
        self.filled_words |= 1 << (bucket / 64);
        self.in_buckets += 1;
    }

    /// When the next event is due.
    #[inline]
    pub fn next_at(&mut self) -> Option<u64> {
        if self.current.is_empty() && !self.advance() {
            return None;
        }
        self.current.last().map(|entry| entry.at)
    }

    #[inline]
    pub fn pop(&mut self) -> Option<(u64, Event)> {
        if self.current.is_empty() && !self.advance() {
            return None;
        }
        self.current.pop().map(|entry| (entry.at, entry.event))
    }

    /// Makes the next bucket with events the one at hand. False when there is none.
    fn advance(&mut self) -> bool {
        let near = self.next_filled();
        let far = self.far.peek().map(|Reverse(Far(entry))| entry.at >> BUCKET_BITS);
        self.tick = match (near, far) {
            (Some(near), Some(far)) => near.min(far),
            (Some(tick), None) | (None, Some(tick)) => tick,
            (None, None) => return false,
        };
        while let Some(Reverse(Far(entry))) = self.far.peek().copied()
            && (entry.at >> BUCKET_BITS) - self.tick < BUCKETS
        {
            self.far.pop();
            self.push_bucket(entry.at >> BUCKET_BITS, entry);
        }
        let bucket = (self.tick % BUCKETS) as usize;
        let mut index = std::mem::replace(&mut self.heads[bucket], NONE);
        while index != NONE {
            let node = &mut self.nodes[index as usize];
            self.current.push(node.entry);
            let next = std::mem::replace(&mut node.next, self.free);
            self.free = index;
            index = next;
        }
        self.in_buckets -= self.current.len();
        self.filled[bucket / 64] &= !(1 << (bucket % 64));
        if self.filled[bucket / 64] == 0 {
            self.filled_words &= !(1 << (bucket / 64));
        }
        if self.current.len() > 1 {
            self.current.sort_unstable_by_key(|entry| Reverse((entry.at, entry.sequence)));
        }
        true
    }

    /// Number of the first bucket with events after the one at hand.
    fn next_filled(&self) -> Option<u64> {
        if self.in_buckets == 0 {
            return None;
        }
        let here = (self.tick % BUCKETS) as u32;
        let (word, bit) = (here / 64, here % 64);
        let rest = if bit == 63 { 0 } else { self.filled[word as usize] & (!0 << (bit + 1)) };
        let bucket = if rest != 0 {
            word * 64 + rest.trailing_zeros()
        } else {
            // The words after this one, around, and this one's beginning last.
            let turned = self.filled_words.rotate_right((word + 1) % 64);
            let word = (word + 1 + turned.trailing_zeros()) % 64;
            word * 64 + self.filled[word as usize].trailing_zeros()
        };
        Some(self.tick + u64::from((bucket + BUCKETS as u32 - here - 1) % BUCKETS as u32) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Generator;

    fn call(index: u32) -> Event {
        Event::Call { index }
    }

    /// Against a sorted list: random distances from nothing to seconds, pushes between pops.
    #[test]
    fn pops_in_order_of_time_then_of_scheduling() {
        let mut random = Generator::new(3);
        let mut queue = Queue::new();
        let mut model: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
        let mut now = 0;
        for index in 0..200_000u32 {
            let reach = [0, 1, 50, 3_000, 40_000, 4_190_000, 4_200_000, 9_000_000_000][random.below(8) as usize];
            let at = now + if reach == 0 { 0 } else { random.below(reach) };
            queue.push(at, call(index));
            model.push(Reverse((at, index)));
            if random.chance(if model.len() > 3000 { 9 } else { 4 }, 10) {
                for _ in 0..random.below(4) {
                    let Some(Reverse((at, index))) = model.pop() else { break };
                    assert_eq!(queue.next_at(), Some(at));
                    assert_eq!(queue.pop(), Some((at, call(index))));
                    now = at;
                }
            }
        }
        while let Some(Reverse((at, index))) = model.pop() {
            assert_eq!(queue.pop(), Some((at, call(index))));
        }
        assert!(queue.pop().is_none() && queue.is_empty());
    }

    #[test]
    fn equal_times_keep_their_order() {
        let mut queue = Queue::new();
        (0..100).for_each(|index| queue.push(5_000_000_000, call(index)));
        (0..50).for_each(|index| assert_eq!(queue.pop(), Some((5_000_000_000, call(index)))));
        queue.push(5_000_000_000, call(100));
        (50..101).for_each(|index| assert_eq!(queue.pop(), Some((5_000_000_000, call(index)))));
    }
}
