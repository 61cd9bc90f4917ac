//! Requests that wait for their answers.
//!
//! A slab of slots; a request's id is its slot and the slot's generation, so that an answer that comes too late meets
//! nobody. The slots of one timeout are chained in the order of sending, which is the order of their deadlines: the
//! earliest deadline of all is the least of the chains' heads, and no request needs a timer of its own.

use std::time::Duration;

use super::{CallError, Payload};
use crate::topology::NodeIndex;

/// Distinct timeouts are few: one each for reads, writes, schema, heartbeats, and so on. Beyond this many, a request
/// joins the class that is nearest from above, or the longest.
const MAX_CLASSES: usize = 32;

const NONE: u32 = u32::MAX;

pub(super) type Done = Box<dyn FnOnce(Result<&[u8], CallError>)>;

/// Who gets the answer.
pub(super) enum Waiter {
    Callback(Done),
    Call(std::rc::Rc<super::call::CallState>),
}

impl Waiter {
    pub(super) fn finish(self, result: Result<Payload, CallError>) {
        match self {
            Waiter::Callback(done) => match result {
                Ok(payload) => done(Ok(&payload)),
                Err(error) => done(Err(error)),
            },
            Waiter::Call(state) => state.finish(result),
        }
    }
}

struct Slot {
    generation: u32,
    prev: u32,
    next: u32,
    class: u32,
    deadline_ns: u64,
    to: NodeIndex,
    lane: u8,
    waiter: Option<Waiter>,
}

struct Class {
    timeout_ns: u64,
    head: u32,
    tail: u32,
}

pub(super) struct Taken {
    pub to: NodeIndex,
    pub waiter: Waiter,
}

#[derive(Default)]
pub(super) struct Outstanding {
    slots: Vec<Slot>,
    free: Vec<u32>,
    classes: Vec<Class>,
    count: usize,
}

fn id_of(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

impl Outstanding {
    pub fn len(&self) -> usize {
        self.count
    }

    fn class_of(&mut self, timeout_ns: u64) -> u32 {
        if let Some(class) = self.classes.iter().position(|class| class.timeout_ns == timeout_ns) {
            return class as u32;
        }
        if self.classes.len() < MAX_CLASSES {
            self.classes.push(Class { timeout_ns, head: NONE, tail: NONE });
            return self.classes.len() as u32 - 1;
        }
        let longest = |(_, class): &(usize, &Class)| class.timeout_ns;
        let above =
            self.classes.iter().enumerate().filter(|(_, class)| class.timeout_ns > timeout_ns).min_by_key(longest);
        let nearest = above.or_else(|| self.classes.iter().enumerate().max_by_key(longest));
        nearest.map_or(0, |(class, _)| class as u32)
    }

    /// Begins to wait. Gives the request's id and its deadline.
    pub fn insert(&mut self, to: NodeIndex, lane: u8, now_ns: u64, timeout: Duration, waiter: Waiter) -> (u64, u64) {
        let number = self.class_of(timeout.as_nanos().min(u128::from(u64::MAX / 2)) as u64);
        let class = &mut self.classes[number as usize];
        let deadline_ns = now_ns.saturating_add(class.timeout_ns);
        let prev = class.tail;
        let slot = Slot { generation: 0, prev, next: NONE, class: number, deadline_ns, to, lane, waiter: Some(waiter) };
        let index = match self.free.pop() {
            Some(index) => {
                let old = &mut self.slots[index as usize];
                *old = Slot { generation: old.generation, ..slot };
                index
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        class.tail = index;
        if prev == NONE {
            class.head = index;
        } else {
            self.slots[prev as usize].next = index;
        }
        self.count += 1;
        (id_of(index, self.slots[index as usize].generation), deadline_ns)
    }

    /// Ends the wait of `id`, unless it has ended.
    pub fn take(&mut self, id: u64) -> Option<Taken> {
        let index = id as u32;
        let slot = self.slots.get_mut(index as usize).filter(|slot| slot.generation == (id >> 32) as u32)?;
        let waiter = slot.waiter.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        let (prev, next, class, to) = (slot.prev, slot.next, slot.class as usize, slot.to);
        match prev {
            NONE => self.classes[class].head = next,
            prev => self.slots[prev as usize].next = next,
        }
        match next {
            NONE => self.classes[class].tail = prev,
            next => self.slots[next as usize].prev = prev,
        }
        self.free.push(index);
        self.count -= 1;
        Some(Taken { to, waiter })
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.heads().map(|head| self.slots[head as usize].deadline_ns).min()
    }

    fn heads(&self) -> impl Iterator<Item = u32> + '_ {
        self.classes.iter().map(|class| class.head).filter(|head| *head != NONE)
    }

    /// A request whose deadline has passed, if there is one.
    pub fn expired(&mut self, now_ns: u64) -> Option<Taken> {
        let head = self.heads().find(|head| self.slots[*head as usize].deadline_ns <= now_ns)?;
        self.take(id_of(head, self.slots[head as usize].generation))
    }

    /// Ids of all that wait for `to` on `lane`, in the order of sending within each timeout.
    pub fn ids_of(&self, to: NodeIndex, lane: u8) -> Vec<u64> {
        let mut ids = Vec::new();
        for head in self.heads() {
            let mut index = head;
            while index != NONE {
                let slot = &self.slots[index as usize];
                if slot.to == to && slot.lane == lane {
                    ids.push(id_of(index, slot.generation));
                }
                index = slot.next;
            }
        }
        ids
    }

    /// Forgets everybody, without a word to them: the shard is closing.
    pub fn clear(&mut self) -> Vec<Waiter> {
        let waiters = self.slots.iter_mut().filter_map(|slot| slot.waiter.take()).collect();
        *self = Self::default();
        waiters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(outstanding: &mut Outstanding, to: u16, now_ns: u64, timeout_ns: u64) -> u64 {
        let waiter = Waiter::Callback(Box::new(|_| ()));
        outstanding.insert(NodeIndex(to), 0, now_ns, Duration::from_nanos(timeout_ns), waiter).0
    }

    #[test]
    fn deadlines_come_in_order_across_classes() {
        let mut outstanding = Outstanding::default();
        let a = insert(&mut outstanding, 1, 0, 100);
        let b = insert(&mut outstanding, 2, 10, 100);
        let c = insert(&mut outstanding, 3, 20, 10);
        assert_eq!(outstanding.next_deadline(), Some(30));
        assert!(outstanding.expired(29).is_none());
        assert_eq!(outstanding.expired(30).unwrap().to, NodeIndex(3));
        assert!(outstanding.take(c).is_none(), "an answer after the timeout meets nobody");
        assert!(outstanding.take(a).is_some());
        assert_eq!(outstanding.next_deadline(), Some(110));
        let d = insert(&mut outstanding, 4, 30, 100);
        assert_ne!(d, a, "a reused slot has another id");
        assert_eq!(outstanding.ids_of(NodeIndex(2), 0), vec![b]);
        assert!(outstanding.take(b).is_some());
        assert_eq!(outstanding.next_deadline(), Some(130));
        assert!(outstanding.take(d).is_some());
        assert_eq!((outstanding.next_deadline(), outstanding.len()), (None, 0));
    }

    #[test]
    fn the_middle_of_a_chain_can_go_first() {
        let mut outstanding = Outstanding::default();
        let ids: Vec<u64> = (0..5).map(|n| insert(&mut outstanding, n, u64::from(n), 100)).collect();
        for id in [ids[2], ids[4], ids[0]] {
            assert!(outstanding.take(id).is_some());
        }
        assert_eq!(outstanding.expired(200).unwrap().to, NodeIndex(1));
        assert_eq!(outstanding.expired(200).unwrap().to, NodeIndex(3));
        assert!(outstanding.expired(u64::MAX).is_none());
    }

    #[test]
    fn many_timeouts_share_the_nearest_class_from_above() {
        let mut outstanding = Outstanding::default();
        for n in 1..=MAX_CLASSES as u64 {
            insert(&mut outstanding, 0, 0, n * 1000);
        }
        let id = |outstanding: &Outstanding| outstanding.slots.last().unwrap().deadline_ns;
        insert(&mut outstanding, 0, 0, 4500);
        assert_eq!(id(&outstanding), 5000);
        insert(&mut outstanding, 0, 0, 1_000_000);
        assert_eq!(id(&outstanding), MAX_CLASSES as u64 * 1000);
        assert_eq!(outstanding.classes.len(), MAX_CLASSES);
    }
}
