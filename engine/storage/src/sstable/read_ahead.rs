//! A file that is read in order, in windows past the cache: the next one comes while the present one is parsed.
//!
//! The first window is small, as a page may end within it, and nothing is read ahead of it. Each further one is twice
//! as large, up to a bound that keeps what a scan holds of one SSTable below 768 KiB.

use std::cell::Cell;
use std::rc::Rc;

use reactor::{Group, JoinHandle};

use super::reader::Sstable;
use crate::{Bytes, Error};

const WINDOW_FIRST: usize = 32 << 10;
const WINDOW_MAX: usize = 256 << 10;

pub(crate) struct ReadAhead {
    sstable: Rc<Sstable>,
    /// Taken out while it is read.
    state: Cell<Option<State>>,
}

struct State {
    start: u64,
    window: Bytes,
    size: usize,
    /// The window behind this one, on its way.
    next: Option<JoinHandle<Result<Bytes, Error>>>,
}

impl State {
    fn end(&self) -> u64 {
        self.start + self.window.len() as u64
    }
}

impl ReadAhead {
    pub fn new(sstable: Rc<Sstable>) -> Self {
        Self { sstable, state: Cell::new(None) }
    }

    /// `len` bytes from `offset`, fewer at the end of the data.
    pub async fn read(&self, offset: u64, len: usize) -> Result<Bytes, Error> {
        let data = &self.sstable.data;
        let end = offset.saturating_add(len as u64).min(data.len);
        let mut state = match self.state.take() {
            Some(state) if (state.start..=state.end()).contains(&offset) => state,
            _ => State { start: offset, window: Bytes::default(), size: 0, next: None },
        };
        while state.end() < end {
            state.size = (state.size * 2).clamp(WINDOW_FIRST, WINDOW_MAX);
            let from = state.end();
            let next = match state.next.take() {
                Some(next) => next.await?,
                None => data.read_past_cache(from, state.size.max((end - from) as usize)).await?,
            };
            let behind = from + next.len() as u64;
            // In order for the second time: so it will go on.
            if state.size > WINDOW_FIRST && behind < data.len {
                let (sstable, size) = (self.sstable.clone(), (state.size * 2).min(WINDOW_MAX));
                let ahead = async move { sstable.data.read_past_cache(behind, size).await };
                state.next = Some(reactor::spawn(Group::Statement, "read-ahead", ahead));
            }
            let kept = (offset - state.start) as usize;
            if kept == state.window.len() {
                (state.start, state.window) = (from, next);
            } else {
                let joined = [&state.window[kept..], &next].concat();
                (state.start, state.window) = (offset, joined.into());
            }
        }
        let from = (offset - state.start) as usize;
        let bytes = state.window.slice(from..from + end.saturating_sub(offset) as usize);
        self.state.set(Some(state));
        Ok(bytes)
    }
}
