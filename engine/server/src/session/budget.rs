//! The memory of one shard that clients may occupy: requests that are being executed and answers that wait to be read.
//!
//! A request that does not fit is refused as OVERLOADED, which drivers retry elsewhere or later; it is not left
//! waiting, for what waits occupies memory too.

use std::cell::Cell;
use std::rc::Rc;

/// Beside its body, what a request may take: its plan, its values and its answer in the making. As Scylla estimates.
const REQUEST_OVERHEAD_BYTES: usize = 8 << 10;

pub(crate) struct Budget {
    used: Cell<usize>,
    max: usize,
}

impl Budget {
    pub fn new(max: usize) -> Rc<Self> {
        Rc::new(Self { used: Cell::new(0), max })
    }

    /// Room for a request with a body of `body` bytes until the claim is dropped; `None` when there is none.
    pub fn claim(self: &Rc<Self>, body: usize) -> Option<Claim> {
        // Twice: as it came, and decoded.
        let bytes = 2 * body + REQUEST_OVERHEAD_BYTES;
        if self.used.get().saturating_add(bytes) > self.max {
            return None;
        }
        self.add(bytes);
        Some(Claim { budget: self.clone(), bytes })
    }

    /// Whether what is left should go to those who read their answers.
    pub fn is_short(&self) -> bool {
        self.used.get() >= self.max / 2
    }

    pub fn add(&self, bytes: usize) {
        self.used.set(self.used.get() + bytes);
    }

    pub fn remove(&self, bytes: usize) {
        self.used.set(self.used.get().saturating_sub(bytes));
    }
}

pub(crate) struct Claim {
    budget: Rc<Budget>,
    bytes: usize,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.budget.remove(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_ends_with_its_request() {
        let budget = Budget::new(3 * REQUEST_OVERHEAD_BYTES);
        let first = budget.claim(1_000).unwrap();
        let second = budget.claim(1_000).unwrap();
        assert!(budget.claim(1_000).is_none());
        drop(first);
        assert!(budget.claim(1_000).is_some());
        drop(second);
        assert_eq!(budget.used.get(), 0);
    }
}
