//! What processors are like while others work on them: a thread on each does, a hundred times a second, a piece of work
//! that never changes, and notes what that took, and how long strangers had the processor in between.
//!
//! Those of a virtual machine are faster or slower by what its neighbours do, by half from one millisecond to the next,
//! as a core's other hardware thread works or idles. Prices that were found at one time hold at another in proportion.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use reactor::uring;

use crate::bound::{Bound, Had};

/// Between two pieces: they have some 30 us of it.
pub const EVERY: Duration = Duration::from_millis(10);
/// Half of a piece sorts numbers, half goes through the kernel, as a node's work does.
const NUMBERS: usize = 512;
const MESSAGES: usize = 8;
const MESSAGE: usize = 64;

/// Watches processors for as long as it lives.
pub struct Speedometer {
    over: Arc<AtomicBool>,
    watchers: Vec<Watcher>,
}

/// Of a span of `EVERY`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sight {
    /// Pieces a second.
    pub speed: f32,
    /// How long others had the processor while a thread that works was ready.
    pub taken_ns: u32,
}

struct Watcher {
    cpu: usize,
    seen: Arc<Mutex<Seen>>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    sights: Vec<Sight>,
    /// The threads that work, and what they had at the last sight.
    bound: Bound,
    had: Option<Had>,
}

impl Seen {
    fn note(&mut self, speed: f32) {
        let had = self.bound.look();
        let taken_ns = self.had.replace(had).map_or(0, |before| had.taken_ns_since(&before));
        self.sights.push(Sight { speed, taken_ns: u32::try_from(taken_ns).unwrap_or(u32::MAX) });
    }
}

impl Speedometer {
    /// Errors: a thread or a pipe could not be made. A processor that threads may not be bound to is not seen.
    pub fn on(cpus: &[usize]) -> io::Result<Self> {
        let mut all = Self { over: Arc::default(), watchers: Vec::new() };
        for &cpu in cpus {
            let seen = Arc::new(Mutex::new(Seen::default()));
            let (over, noted, mut piece) = (all.over.clone(), seen.clone(), Piece::new()?);
            let watch = move || {
                if uring::bind(cpu).is_err() {
                    return;
                }
                while !over.load(Ordering::Relaxed) {
                    thread::sleep(EVERY);
                    // The first brings it into the processor's caches, and either may be interrupted.
                    let Ok(ns) = piece.time().and_then(|ns| Ok(ns.min(piece.time()?))) else { return };
                    noted.lock().unwrap_or_else(PoisonError::into_inner).note(1e9 / ns as f32);
                }
            };
            let thread = thread::Builder::new().name(format!("speed-{cpu}")).spawn(watch)?;
            all.watchers.push(Watcher { cpu, seen, thread });
        }
        Ok(all)
    }

    /// Forgets what it has seen. `processes` are those whose threads work, this one's too where it is among them.
    pub fn begin(&self, processes: &[u32]) {
        for watcher in &self.watchers {
            let bound = Bound::to(watcher.cpu, processes);
            *watcher.seen() = Seen { bound, ..Seen::default() };
        }
    }

    /// What it has seen of each of `cpus` since then, `EVERY` apart.
    pub fn end(&self, cpus: &[usize]) -> Vec<Vec<Sight>> {
        let of = |watcher: &Watcher| std::mem::take(&mut watcher.seen().sights);
        self.watchers.iter().filter(|watcher| cpus.contains(&watcher.cpu)).map(of).collect()
    }
}

impl Watcher {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Speedometer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for watcher in self.watchers.drain(..) {
            // What it has seen is whole up to its end, whatever that was.
            let _ = watcher.thread.join();
        }
    }
}

/// Pieces a second, of all processors and all the time; 0 where nothing was seen.
pub fn mean(seen: &[Vec<Sight>]) -> f64 {
    let count: usize = seen.iter().map(Vec::len).sum();
    seen.iter().flatten().map(|sight| f64::from(sight.speed)).sum::<f64>() / count.max(1) as f64
}

/// Part of the time that others had, of all processors.
pub fn taken(seen: &[Vec<Sight>]) -> f64 {
    let count: usize = seen.iter().map(Vec::len).sum();
    let taken_ns: f64 = seen.iter().flatten().map(|sight| f64::from(sight.taken_ns)).sum();
    taken_ns / (count.max(1) as f64 * EVERY.as_nanos() as f64)
}

struct Piece {
    numbers: [u32; NUMBERS],
    pipe: (PipeReader, PipeWriter),
}

impl Piece {
    fn new() -> io::Result<Self> {
        Ok(Self { numbers: [0; NUMBERS], pipe: io::pipe()? })
    }

    /// ns that it takes now.
    fn time(&mut self) -> io::Result<u64> {
        let begun = Instant::now();
        let mut state = 1u64;
        for number in &mut self.numbers {
            // Knuth's MMIX generator.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *number = (state >> 32) as u32;
        }
        self.numbers.sort_unstable();
        let mut message = [std::hint::black_box(self.numbers[0]) as u8; MESSAGE];
        for _ in 0..MESSAGES {
            self.pipe.1.write_all(&message)?;
            self.pipe.0.read_exact(&mut message)?;
        }
        Ok((begun.elapsed().as_nanos() as u64).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_of_the_processors_asked_for_and_since_it_began() {
        let cpu = crate::probe::host::usable_cpus()[0];
        let speedometer = Speedometer::on(&[cpu, usize::MAX]).unwrap();
        thread::sleep(10 * EVERY);
        let seen = speedometer.end(&[cpu]);
        assert!(seen.len() == 1 && (1..=10).contains(&seen[0].len()), "{seen:?}");
        // A piece takes 1 us to 10 ms on whatever runs this.
        assert!((1e2..1e6).contains(&mean(&seen)), "{seen:?}");
        assert_eq!(speedometer.end(&[usize::MAX]), [Vec::<Sight>::new()], "there is no such processor");
        assert!(speedometer.end(&[]).is_empty());
        let watching = speedometer.over.clone();
        drop(speedometer);
        assert_eq!(Arc::strong_count(&watching), 1, "no thread is left");
    }
}
