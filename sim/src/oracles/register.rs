//! A key is a last-writer-wins register with regular semantics.
//!
//! A read that begins after a write was acknowledged gives that write's value or a newer one. A write is *older* than
//! another when its place in the order was decided (it was answered) before the other began; writes that overlap may
//! go either way, and one without an answer may take its place at any later time.
//!
//! This holds of Cassandra's timestamps only while the hosts' clocks agree to within the time between two such calls.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Call, History, Outcome};

const NAME: &str = "register";

pub fn check(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (key, calls) in history.by_key() {
        let writes: BTreeMap<u64, &Call> = calls.iter().filter_map(|call| Some((call.value()?, *call))).collect();
        let acknowledged: Vec<&Call> = calls.iter().copied().filter(|call| call.acknowledged_ns().is_some()).collect();
        for read in &calls {
            let Some(Outcome::Read(Some(value))) = read.outcome() else { continue };
            let Some(write) = writes.get(value) else { continue };
            let Some(ordered_ns) = write.ordered_ns() else { continue };
            let known =
                acknowledged.iter().filter(|other| other.acknowledged_ns().is_some_and(|at| at < read.began_ns));
            let newer = known.filter(|other| other.began_ns > ordered_ns).max_by_key(|other| other.began_ns);
            if let Some(newer) = newer {
                let text = format!("{value:x} was read although a newer value had been acknowledged");
                let calls = vec![(*write).clone(), (*newer).clone(), (*read).clone()];
                violations.push(Violation { oracle: NAME, key, text, calls });
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracles::examples::Example;

    fn finds(example: Example, expect: bool) {
        let found = check(&example.0);
        assert_eq!(!found.is_empty(), expect, "{found:?}");
    }

    #[test]
    fn a_read_never_goes_behind_what_was_acknowledged() {
        let two = || Example::default().written(1, 10, 20).written(2, 30, 40);
        finds(two().read(Some(2), 50, 60), false);
        finds(two().read(Some(1), 50, 60), true);
        finds(two().read(Some(1), 35, 60), false);
    }

    #[test]
    fn writes_that_overlap_go_either_way() {
        let two = || Example::default().written(1, 10, 35).written(2, 30, 40);
        finds(two().read(Some(1), 50, 60).read(Some(2), 70, 80), false);
    }

    #[test]
    fn a_write_without_an_answer_may_come_late() {
        let late = |end| Example::default().write(1, 10, end).written(2, 30, 40).read(Some(1), 50, 60);
        finds(late(None), false);
        finds(late(Some((20, Outcome::Unanswered("t".into())))), false);
        finds(late(Some((20, Outcome::Failed("t".into())))), true);
    }

    #[test]
    fn a_failed_write_does_not_hide_a_value() {
        let failed = || Example::default().written(1, 10, 20).write(2, 30, Some((40, Outcome::Failed("t".into()))));
        finds(failed().read(Some(1), 50, 60).read(Some(2), 70, 80).read(Some(1), 90, 95), false);
    }
}
