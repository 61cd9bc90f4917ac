//! Oracles: what must hold of a history, whatever faults struck. One file each.
//!
//! An oracle is a pure function of a [`History`]. It accuses only where no order of the calls, allowed by what the
//! clients were told, explains what was read; a call whose fate is unknown is given the benefit of every doubt.

pub mod acknowledged;
pub mod register;

use std::fmt;

use crate::history::{Call, History};

/// What should not have happened, with the calls that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub oracle: &'static str,
    pub key: u64,
    pub text: String,
    pub calls: Vec<Call>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: key {:x}: {}", self.oracle, self.key, self.text)?;
        for call in &self.calls {
            write!(f, "\n  {call}")?;
        }
        Ok(())
    }
}

/// Everything that any oracle finds, for a history whose writes and reads were all at QUORUM.
pub fn at_quorum(history: &History) -> Vec<Violation> {
    let mut violations = acknowledged::check(history);
    violations.extend(register::check(history));
    violations
}

#[cfg(test)]
pub(crate) mod examples {
    use crate::history::{Action, History, Outcome};

    /// A history in the order of the lines: a key's writes and reads with their times.
    #[derive(Default)]
    pub struct Example(pub History);

    impl Example {
        pub fn write(mut self, value: u64, began_ns: u64, end: Option<(u64, Outcome)>) -> Self {
            let call = self.0.begin(0, 1, Action::Write { value }, began_ns);
            if let Some((at, outcome)) = end {
                self.0.end(call, outcome, at);
            }
            self
        }

        pub fn written(self, value: u64, began_ns: u64, ended_ns: u64) -> Self {
            self.write(value, began_ns, Some((ended_ns, Outcome::Written)))
        }

        pub fn read(mut self, value: Option<u64>, began_ns: u64, ended_ns: u64) -> Self {
            let call = self.0.begin(1, 1, Action::Read, began_ns);
            self.0.end(call, Outcome::Read(value), ended_ns);
            self
        }
    }
}
