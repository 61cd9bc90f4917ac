//! A hash over every event and what it did, with checkpoints, and the events themselves inside of a window.
//!
//! Two runs with one seed must give the same hash. When they do not, the checkpoints say between which events they
//! part, and a repetition of both with a [`Window`] there gives the events to compare.

use std::cell::{Cell, RefCell};

use super::event::Event;

/// Events between two checkpoints.
pub const CHECKPOINT_EVENTS: u64 = 4096;

/// Events to record, by their number from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    pub from: u64,
    pub until: u64,
}

/// One event as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub number: u64,
    pub at_ns: u64,
    pub event: Event,
    pub place: Option<Place>,
    /// What it did, in the order of doing; see [`Trace::note`].
    pub effects: Vec<(&'static str, u64)>,
}

/// Where an event took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub host: u32,
    pub shard: u32,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "event {} at {} ns: {:?}", self.number, self.at_ns, self.event)?;
        if let Some(Place { host, shard }) = self.place {
            write!(f, " on host {host} shard {shard}")?;
        }
        self.effects.iter().try_for_each(|(what, value)| write!(f, ", {what} {value}"))
    }
}

pub struct Trace {
    hash: Cell<u64>,
    events: Cell<u64>,
    checkpoints: RefCell<Vec<u64>>,
    window: Window,
    lines: RefCell<Vec<Line>>,
}

/// Odd, with well-spread bits.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl Trace {
    pub fn new(seed: u64, window: Window) -> Self {
        Self {
            hash: Cell::new(seed ^ MULTIPLIER),
            events: Cell::new(0),
            checkpoints: RefCell::new(Vec::new()),
            window,
            lines: RefCell::new(Vec::new()),
        }
    }

    #[inline]
    fn mix(&self, word: u64) {
        let hash = (self.hash.get() ^ word).wrapping_mul(MULTIPLIER);
        self.hash.set(hash ^ (hash >> 32));
    }

    /// An event takes place.
    #[inline]
    pub fn event(&self, at: u64, event: &Event, place: impl FnOnce() -> Option<Place>) {
        let number = self.events.get();
        self.events.set(number + 1);
        let (kind, detail) = event.words();
        self.mix(at ^ kind.rotate_right(16));
        self.mix(detail);
        if number.is_multiple_of(CHECKPOINT_EVENTS) {
            self.checkpoints.borrow_mut().push(self.hash.get());
        }
        if number >= self.window.from && number < self.window.until {
            let line = Line { number, at_ns: at, event: *event, place: place(), effects: Vec::new() };
            self.lines.borrow_mut().push(line);
        }
    }

    /// The event at hand did something that can be told by a number.
    #[inline]
    pub fn note(&self, what: &'static str, value: u64) {
        self.mix(value);
        let number = self.events.get().wrapping_sub(1);
        if number >= self.window.from
            && number < self.window.until
            && let Some(line) = self.lines.borrow_mut().last_mut()
        {
            line.effects.push((what, value));
        }
    }

    pub fn hash(&self) -> u64 {
        self.hash.get()
    }

    pub fn events(&self) -> u64 {
        self.events.get()
    }

    pub fn take_checkpoints(&self) -> Vec<u64> {
        self.checkpoints.take()
    }

    pub fn take_lines(&self) -> Vec<Line> {
        self.lines.take()
    }
}

/// A short name for bytes, for [`Trace::note`].
pub fn digest(bytes: &[u8]) -> u64 {
    let mut digest = bytes.len() as u64;
    let mut mix = |word: u64| digest = (digest.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        mix(u64::from_le_bytes(word.try_into().expect("chunks of eight")));
    }
    words.remainder().iter().for_each(|&byte| mix(u64::from(byte)));
    digest
}

/// The window of events in which two runs part, from their checkpoints.
pub fn first_difference(a: &[u64], b: &[u64]) -> Window {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count() as u64;
    Window { from: same.saturating_sub(1) * CHECKPOINT_EVENTS, until: (same + 1) * CHECKPOINT_EVENTS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_different_effect_gives_a_different_hash() {
        let run = |value| {
            let trace = Trace::new(1, Window { from: 0, until: 10 });
            trace.event(5, &Event::Run { seat: 1 }, || None);
            trace.note("cpu", value);
            (trace.hash(), trace.take_lines()[0].to_string())
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7).0, run(8).0);
        assert_eq!(run(7).1, "event 0 at 5 ns: Run { seat: 1 }, cpu 7");
    }

    #[test]
    fn the_window_encloses_the_first_difference() {
        let window = first_difference(&[1, 2, 3, 4], &[1, 2, 9, 9]);
        assert!(window.from <= CHECKPOINT_EVENTS && window.until > 2 * CHECKPOINT_EVENTS);
        assert_eq!(first_difference(&[1], &[2]).from, 0);
    }
}
