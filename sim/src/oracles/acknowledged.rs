//! An acknowledged write is there, and nothing is there that nobody wrote.
//!
//! 1. A read that begins after a write of its key was acknowledged finds a value. (Nothing is ever deleted.)
//! 2. A value that is read was written to that key, by a call that began before the read ended and was not refused.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Call, History, Outcome};

const NAME: &str = "acknowledged";

pub fn check(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (key, calls) in history.by_key() {
        let writes: BTreeMap<u64, &Call> = calls.iter().filter_map(|call| Some((call.value()?, *call))).collect();
        let first =
            calls.iter().filter(|call| call.acknowledged_ns().is_some()).min_by_key(|call| call.acknowledged_ns());
        for read in &calls {
            let Some((ended_ns, Outcome::Read(value))) = &read.end else { continue };
            let mut accuse = |text: String, write: Option<&Call>| {
                let calls = write.into_iter().chain([*read]).cloned().collect();
                violations.push(Violation { oracle: NAME, key, text, calls });
            };
            match value {
                None => {
                    if let Some(write) = first
                        && write.acknowledged_ns().is_some_and(|at| at < read.began_ns)
                    {
                        accuse("an acknowledged write is lost".into(), Some(write));
                    }
                }
                Some(value) => match writes.get(value) {
                    None => accuse(format!("the value {value:x} was never written"), None),
                    Some(write) if write.began_ns > *ended_ns => {
                        accuse(format!("the value {value:x} was read before it was written"), Some(write));
                    }
                    Some(write) if matches!(write.outcome(), Some(Outcome::Refused(_))) => {
                        accuse(format!("the value {value:x} of a refused write was read"), Some(write));
                    }
                    Some(_) => {}
                },
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracles::examples::Example;

    fn finds(example: Example, expect: Option<&str>) {
        let found = check(&example.0);
        match expect {
            None => assert_eq!(found, []),
            Some(text) => assert!(found.len() == 1 && found[0].text.contains(text), "{found:?}"),
        }
    }

    #[test]
    fn what_was_acknowledged_is_there() {
        finds(Example::default().written(1, 10, 20).read(Some(1), 30, 40), None);
        finds(Example::default().written(1, 10, 20).read(None, 30, 40), Some("lost"));
        finds(Example::default().read(None, 0, 5).written(1, 10, 20).read(None, 15, 40), None);
    }

    #[test]
    fn an_unknown_fate_excuses() {
        for end in [None, Some((20, Outcome::Failed("t".into()))), Some((20, Outcome::Unanswered("t".into())))] {
            finds(Example::default().write(1, 10, end.clone()).read(None, 30, 40).read(Some(1), 50, 60), None);
        }
        let refused = Some((20, Outcome::Refused("u".into())));
        finds(Example::default().write(1, 10, refused.clone()).read(None, 30, 40), None);
        finds(Example::default().write(1, 10, refused).read(Some(1), 30, 40), Some("refused"));
    }

    #[test]
    fn nothing_is_invented() {
        finds(Example::default().written(1, 10, 20).read(Some(2), 30, 40), Some("never written"));
        finds(Example::default().read(Some(1), 0, 5).written(1, 10, 20), Some("before it was written"));
        finds(Example::default().read(Some(1), 0, 15).written(1, 10, 20), None);
    }
}
