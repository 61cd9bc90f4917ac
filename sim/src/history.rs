//! What clients asked of the system under test and what they were told, with virtual times.
//!
//! Values are numbers that name one write each; keys are numbers, whatever rows they stand for. A call without an
//! end was still under way when the history ended: all that is known of it is that it began. Two runs of one seed
//! give equal histories, and their text ([`Display`](fmt::Display)) is equal byte for byte.

use std::collections::BTreeMap;
use std::fmt;

/// Names a call of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Write { value: u64 },
    Read,
}

/// How a call ended, as far as the client can know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged.
    Written,
    /// The value read; `None` where there was none.
    Read(Option<u64>),
    /// The answer was that nothing has been done, nor will be.
    Refused(String),
    /// The answer was a failure. Begun, the write may be visible at any later time; its place in the order of writes
    /// was decided before the answer.
    Failed(String),
    /// There was no answer. The write may be carried out at any later time.
    Unanswered(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub session: u32,
    pub key: u64,
    pub action: Action,
    pub began_ns: u64,
    pub end: Option<(u64, Outcome)>,
}

impl Call {
    /// The value, if this is a write.
    pub fn value(&self) -> Option<u64> {
        match self.action {
            Action::Write { value } => Some(value),
            Action::Read => None,
        }
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        self.end.as_ref().map(|(_, outcome)| outcome)
    }

    /// When the write was acknowledged.
    pub fn acknowledged_ns(&self) -> Option<u64> {
        match self.end {
            Some((at, Outcome::Written)) => Some(at),
            _ => None,
        }
    }

    /// When the write's place in the order of writes was decided at the latest.
    pub fn ordered_ns(&self) -> Option<u64> {
        match self.end {
            Some((at, Outcome::Written | Outcome::Failed(_))) => Some(at),
            _ => None,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>14} ns  session {:<2} key {:<6x}", self.began_ns, self.session, self.key)?;
        match self.action {
            Action::Write { value } => write!(f, " write {value:x}")?,
            Action::Read => write!(f, " read")?,
        }
        match &self.end {
            None => write!(f, "  .. no end"),
            Some((at, outcome)) => {
                write!(f, "  .. {at} ns ")?;
                match outcome {
                    Outcome::Written => write!(f, "acknowledged"),
                    Outcome::Read(Some(value)) => write!(f, "gives {value:x}"),
                    Outcome::Read(None) => write!(f, "gives nothing"),
                    Outcome::Refused(cause) => write!(f, "refused: {cause}"),
                    Outcome::Failed(cause) => write!(f, "failed: {cause}"),
                    Outcome::Unanswered(cause) => write!(f, "unanswered: {cause}"),
                }
            }
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    calls: Vec<Call>,
    notes: Vec<(u64, String)>,
}

impl History {
    pub fn begin(&mut self, session: u32, key: u64, action: Action, at_ns: u64) -> CallId {
        self.calls.push(Call { session, key, action, began_ns: at_ns, end: None });
        CallId(self.calls.len() - 1)
    }

    pub fn end(&mut self, call: CallId, outcome: Outcome, at_ns: u64) {
        self.calls[call.0].end = Some((at_ns, outcome));
    }

    /// Something that happened beside the calls: a fault, say.
    pub fn note(&mut self, at_ns: u64, text: impl Into<String>) {
        self.notes.push((at_ns, text.into()));
    }

    /// In the order in which they began.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    pub fn notes(&self) -> &[(u64, String)] {
        &self.notes
    }

    /// The calls of each key, by time of their begin.
    pub fn by_key(&self) -> BTreeMap<u64, Vec<&Call>> {
        let mut keys: BTreeMap<u64, Vec<&Call>> = BTreeMap::new();
        for call in &self.calls {
            keys.entry(call.key).or_default().push(call);
        }
        // Shards run ahead of the world a little: what was noted first did not always begin first.
        keys.values_mut().for_each(|calls| calls.sort_by_key(|call| call.began_ns));
        keys
    }

    /// One key's calls and all notes, by time.
    pub fn excerpt(&self, key: u64) -> String {
        self.text(|call| call.key == key)
    }

    fn text(&self, wanted: impl Fn(&Call) -> bool) -> String {
        let calls = self.calls.iter().filter(|call| wanted(call)).map(|call| (call.began_ns, call.to_string()));
        let notes = self.notes.iter().map(|(at, text)| (*at, format!("{at:>14} ns  {text}")));
        let mut lines: Vec<(u64, String)> = calls.chain(notes).collect();
        lines.sort_by_key(|(at, _)| *at);
        lines.into_iter().map(|(_, line)| line + "\n").collect()
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(|_| true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_has_the_key_s_calls_and_all_faults() {
        let mut history = History::default();
        let write = history.begin(1, 7, Action::Write { value: 0x2a }, 100);
        history.begin(2, 8, Action::Read, 150);
        history.note(200, "node 1 loses power");
        history.end(write, Outcome::Written, 300);
        let read = history.begin(1, 7, Action::Read, 400);
        history.end(read, Outcome::Read(None), 500);
        let text = history.excerpt(7);
        let lines: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "100 ns session 1 key 7 write 2a .. 300 ns acknowledged",
                "200 ns node 1 loses power",
                "400 ns session 1 key 7 read .. 500 ns gives nothing",
            ]
        );
        assert_eq!(history.to_string().lines().count(), 4);
    }
}
