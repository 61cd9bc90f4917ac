//! A host's heap that is collected: how much of it is young, what of that is alive, and how long a collection takes.

use std::cell::{Cell, RefCell};

use crate::model::{CopyingModel, OldModel, PauseModel};

#[derive(Default)]
pub(crate) struct Heap {
    /// Since the last collection: allocated, and of it what stays alive. In bytes.
    allocated: Cell<u64>,
    retained: Cell<u64>,
    survivors: RefCell<Survivors>,
    /// `None` before the first collection.
    old: Cell<Option<Old>>,
}

/// What earlier collections found alive.
#[derive(Default)]
struct Survivors {
    /// Bytes by the number of collections survived, from 1 on.
    by_age: Vec<u64>,
}

/// What a collection moved, in bytes.
struct Moved {
    /// For the first time.
    first: u64,
    again: u64,
    /// Of these, what became old.
    promoted: u64,
}

impl Survivors {
    fn bytes(&self) -> u64 {
        self.by_age.iter().sum()
    }

    /// From this age on they become old: the younger ones take `desired` bytes at most.
    fn threshold(&self, desired: u64, max: usize) -> usize {
        let mut younger = 0;
        let reaches = |bytes: &u64| {
            younger += bytes;
            younger > desired
        };
        self.by_age.iter().position(reaches).map_or(max, |index| (index + 1).min(max))
    }

    /// A collection of a young generation of `young` bytes, that finds `newest` alive of what was allocated since the
    /// last.
    fn collect(&mut self, newest: u64, young: u64, model: &PauseModel, copying: &CopyingModel) -> Moved {
        let again = self.bytes();
        let part = young.min(model.young_bytes) as f64 / model.young_bytes as f64;
        let threshold = self.threshold((copying.desired_bytes as f64 * part) as u64, copying.tenuring_max);
        self.by_age.insert(0, newest);
        self.by_age.truncate(threshold);
        Moved { first: newest, again, promoted: newest + again - self.bytes() }
    }
}

/// The old generation of a collector that has both in one heap.
#[derive(Clone, Copy)]
struct Old {
    bytes: u64,
    /// Collections that are still to free a part of it.
    mixed_left: u64,
}

impl Old {
    /// Anywhere between two clearings: the host has been at work before.
    fn begin(model: &OldModel, random: u64) -> Self {
        let between = model.mark_bytes.saturating_sub(model.live_bytes);
        let bytes = model.live_bytes + ((u128::from(between) * u128::from(random)) >> 64) as u64;
        Self { bytes, mixed_left: 0 }
    }

    /// A collection promoted so much.
    fn collect(&mut self, promoted: u64, model: &OldModel) {
        let garbage = self.bytes.saturating_sub(model.live_bytes);
        if let Some(part) = garbage.checked_div(self.mixed_left) {
            self.bytes -= part;
            self.mixed_left -= 1;
        } else if self.bytes >= model.mark_bytes {
            // Marking ends before the next collection: it takes a second or less.
            self.bytes -= (garbage as f64 * model.dead_regions) as u64;
            self.mixed_left = model.mixed;
        }
        self.bytes += promoted;
    }

    /// What the young generation may take, with what a collection copies of it.
    fn leaves(&self, model: &OldModel) -> u64 {
        if self.mixed_left > 0 { 0 } else { model.room_bytes.saturating_sub(self.bytes) }
    }
}

fn ns_of(first: u64, again: u64, model: &CopyingModel) -> u64 {
    ((first as f64 / model.first_bytes_per_s + again as f64 / model.again_bytes_per_s) * 1e9) as u64
}

impl Heap {
    #[inline]
    pub fn allocate(&self, bytes: u64, retained: u64) {
        self.allocated.set(self.allocated.get() + bytes);
        self.retained.set(self.retained.get() + retained);
    }

    /// The young generation is full, or would take too long to collect.
    #[inline]
    fn is_due(&self, model: &PauseModel) -> bool {
        let allocated = self.allocated.get();
        let Some(copying) = &model.copying else { return allocated >= model.young_bytes };
        let survivors = self.survivors.borrow().bytes();
        if allocated + survivors < copying.least_bytes {
            return false;
        }
        let retained = self.retained.get();
        let room = match (&copying.old, self.old.get()) {
            (Some(model), Some(old)) => old.leaves(model).saturating_sub(retained),
            _ => u64::MAX,
        };
        let expected_ns = || model.pause.median_ns() + ns_of(retained, survivors, copying);
        allocated + survivors >= model.young_bytes.min(room)
            || copying.target_ns.is_some_and(|target_ns| expected_ns() >= target_ns)
    }

    /// Collects if it is time to, and gives how long that stops the host.
    #[inline]
    pub fn collect(&self, model: &PauseModel, mut random: impl FnMut() -> u64) -> Option<u64> {
        if !self.is_due(model) {
            return None;
        }
        let (allocated, retained) = (self.allocated.take(), self.retained.take());
        let mut ns = model.pause.sample(random());
        if let Some(copying) = &model.copying {
            let mut survivors = self.survivors.borrow_mut();
            let young = allocated + survivors.bytes();
            let moved = survivors.collect(retained, young, model, copying);
            ns += ns_of(moved.first, moved.again, copying);
            if let Some(model) = &copying.old {
                let mut old = self.old.get().unwrap_or_else(|| Old::begin(model, random()));
                old.collect(moved.promoted, model);
                self.old.set(Some(old));
            }
        }
        Some(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latency;

    const MB: u64 = 1_000_000;
    const MS: u64 = 1_000_000;

    fn model(copying: CopyingModel) -> PauseModel {
        PauseModel { young_bytes: 1000 * MB, pause: Latency::constant(10 * MS), copying: Some(copying) }
    }

    /// Pauses, and what was allocated before each, when of 10 MB `retained` MB stay alive.
    fn pauses(copying: CopyingModel, retained: u64, count: usize) -> Vec<(u64, u64)> {
        let (heap, model) = (Heap::default(), model(copying));
        let mut allocated = 0;
        let mut seen = Vec::new();
        while seen.len() < count {
            heap.allocate(10 * MB, retained * MB);
            allocated += 10;
            if let Some(ns) = heap.collect(&model, || 0) {
                seen.push((ns / MS, allocated));
                allocated = 0;
            }
        }
        seen
    }

    const G1: CopyingModel = CopyingModel {
        first_bytes_per_s: 1e9,
        again_bytes_per_s: 1e9,
        tenuring_max: 15,
        desired_bytes: 150 * MB,
        target_ns: None,
        least_bytes: 0,
        old: None,
    };

    #[test]
    fn survivors_are_copied_until_they_are_old() {
        assert_eq!(pauses(G1, 0, 6), [(10, 1000); 6]);
        // All stay in the survivor space at first; then, as two collections' survivors are more than is desired, each
        // is copied twice there and once into the old generation. They take room from eden.
        assert_eq!(pauses(G1, 1, 6), [(110, 1000), (200, 900), (281, 810), (264, 830), (258, 840), (261, 840)]);
        // Those that are old at the second collection already.
        let parallel_new = CopyingModel { tenuring_max: 1, ..G1 };
        assert_eq!(pauses(parallel_new, 1, 6)[2..], [(191, 910), (192, 910), (192, 910), (192, 910)]);
    }

    #[test]
    fn a_collector_with_a_target_collects_earlier() {
        let aiming = CopyingModel { target_ns: Some(100 * MS), least_bytes: 100 * MB, tenuring_max: 1, ..G1 };
        assert!(pauses(aiming, 1, 6).iter().all(|(ms, _)| (100..=110).contains(ms)), "{:?}", pauses(aiming, 1, 6));
        // It keeps a least young generation, whatever that takes.
        let eager = CopyingModel { target_ns: Some(MS), least_bytes: 500 * MB, ..G1 };
        assert!(pauses(eager, 0, 6).iter().all(|seen| *seen == (10, 500)));
    }

    #[test]
    fn what_was_moved_before_lies_together() {
        let twice = CopyingModel { again_bytes_per_s: 2e9, ..G1 };
        assert_eq!(pauses(twice, 1, 6), [(110, 1000), (150, 900), (186, 810), (178, 830), (176, 840), (177, 840)]);
    }

    #[test]
    fn the_old_generation_takes_room_from_the_young_one_until_it_is_cleared() {
        let old =
            OldModel { room_bytes: 1300 * MB, mark_bytes: 600 * MB, live_bytes: 400 * MB, dead_regions: 0.5, mixed: 2 };
        let shared = CopyingModel { least_bytes: 200 * MB, tenuring_max: 1, old: Some(old), ..G1 };
        // 400 MB are old at first: 900 are left for new ones, survivors and copies of the new ones, then less by what
        // became old. The fifth collection finds 640, which marking halves; the next two clear the rest, each as early
        // as can be.
        let allocated: Vec<u64> = pauses(shared, 1, 9).iter().map(|(_, allocated)| *allocated).collect();
        assert_eq!(allocated, [1000, 730, 670, 600, 550, 150, 190, 790, 720]);
    }
}
