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

use crate::bound::{self, Bound, Had};
use crate::median;

/// Between two pieces: each takes some 20 us, from whoever works.
pub const EVERY: Duration = Duration::from_millis(10);
/// A quarter of a piece copies what lies in the outer caches, the rest goes through the kernel, neither of it done just
/// before: second by second a node's throughput follows that closer than what it takes when it is repeated, and closer
/// than sorting in the innermost cache.
const COPIED: usize = 64 << 10;
const COPIED_FROM: usize = 1 << 20;
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

struct Seen {
    /// The threads that work, and what they had when it began.
    bound: Bound,
    began: Had,
    /// Pieces a second, and what the threads had then.
    looks: Vec<(f32, Had)>,
}

impl Seen {
    fn of(bound: Bound) -> Self {
        Self { began: bound.look(), bound, looks: Vec::new() }
    }

    fn sights(&self) -> Vec<Sight> {
        let before = std::iter::once(&self.began).chain(self.looks.iter().map(|(_, had)| had));
        let spans: Vec<bound::Span> =
            self.looks.iter().zip(before).map(|((_, had), before)| had.since(before)).collect();
        let speeds = self.looks.iter().map(|(speed, _)| *speed).collect();
        let usual = median(speeds, f32::total_cmp).unwrap_or(0.0);
        // A piece of half the speed was interrupted, as often as it was tried. Interruptions are watched by themselves.
        let speed = |speed: f32| if speed < usual / 2.0 { usual } else { speed };
        let taken_ns = bound::taken_ns(&spans).into_iter().map(|ns| u32::try_from(ns).unwrap_or(u32::MAX));
        self.looks.iter().zip(taken_ns).map(|(look, taken_ns)| Sight { speed: speed(look.0), taken_ns }).collect()
    }
}

impl Speedometer {
    /// Errors: a thread or a pipe could not be made. A processor that threads may not be bound to is not seen.
    pub fn on(cpus: &[usize]) -> io::Result<Self> {
        let mut all = Self { over: Arc::default(), watchers: Vec::new() };
        for &cpu in cpus {
            let seen = Arc::new(Mutex::new(Seen::of(Bound::default())));
            let (over, noted, mut piece) = (all.over.clone(), seen.clone(), Piece::new()?);
            let watch = move || {
                if uring::bind(cpu).is_err() {
                    return;
                }
                while !over.load(Ordering::Relaxed) {
                    thread::sleep(EVERY);
                    let Ok(ns) = piece.time() else { return };
                    let mut seen = noted.lock().unwrap_or_else(PoisonError::into_inner);
                    let had = seen.bound.look();
                    seen.looks.push((1e9 / ns as f32, had));
                }
            };
            let thread = thread::Builder::new().name(format!("{}{cpu}", bound::WATCHES)).spawn(watch)?;
            all.watchers.push(Watcher { cpu, seen, thread });
        }
        Ok(all)
    }

    /// Forgets what it has seen. `processes` are those whose threads work, this one's too where it is among them.
    pub fn begin(&self, processes: &[u32]) {
        for watcher in &self.watchers {
            *watcher.seen() = Seen::of(Bound::to(watcher.cpu, processes));
        }
    }

    /// What it has seen of each of `cpus` since it began, `EVERY` apart.
    pub fn seen(&self, cpus: &[usize]) -> Vec<Vec<Sight>> {
        self.watchers
            .iter()
            .filter(|watcher| cpus.contains(&watcher.cpu))
            .map(|watcher| watcher.seen().sights())
            .collect()
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
    mean_of(seen, |sight| f64::from(sight.speed))
}

/// Part of the time that others had, of all processors.
pub fn taken(seen: &[Vec<Sight>]) -> f64 {
    mean_of(seen, |sight| f64::from(sight.taken_ns)) / EVERY.as_nanos() as f64
}

fn mean_of(seen: &[Vec<Sight>], of: impl Fn(&Sight) -> f64) -> f64 {
    let count: usize = seen.iter().map(Vec::len).sum();
    seen.iter().flatten().map(of).sum::<f64>() / count.max(1) as f64
}

struct Piece {
    from: Vec<u8>,
    /// Where the next copy begins.
    at: usize,
    to: Vec<u8>,
    pipe: (PipeReader, PipeWriter),
}

impl Piece {
    fn new() -> io::Result<Self> {
        // Ones: pages of zeros might all be one.
        Ok(Self { from: vec![1; COPIED_FROM], at: 0, to: vec![0; COPIED], pipe: io::pipe()? })
    }

    /// ns that it takes now.
    fn time(&mut self) -> io::Result<u64> {
        let begun = Instant::now();
        self.to.copy_from_slice(&self.from[self.at..self.at + COPIED]);
        self.at = (self.at + COPIED) % COPIED_FROM;
        let mut message = [std::hint::black_box(&self.to)[0]; MESSAGE];
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
        let begun = Instant::now();
        let speedometer = Speedometer::on(&[cpu, usize::MAX]).unwrap();
        // However late a busy machine lets it begin.
        while speedometer.seen(&[cpu])[0].is_empty() && begun.elapsed() < Duration::from_secs(20) {
            thread::sleep(10 * EVERY);
        }
        let seen = speedometer.seen(&[cpu]);
        let most = begun.elapsed().div_duration_f64(EVERY) as usize;
        assert!(seen.len() == 1 && (1..=most).contains(&seen[0].len()), "{seen:?}");
        // A piece takes 1 us to 10 ms on whatever runs this.
        assert!((1e2..1e6).contains(&mean(&seen)), "{seen:?}");
        assert_eq!(speedometer.seen(&[usize::MAX]), [Vec::<Sight>::new()], "there is no such processor");
        assert!(speedometer.seen(&[]).is_empty());
        let watching = speedometer.over.clone();
        drop(speedometer);
        assert_eq!(Arc::strong_count(&watching), 1, "no thread is left");
    }
}
