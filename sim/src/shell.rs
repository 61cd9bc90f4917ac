//! The shell: a fresh thread, madsim's runtime on it, and in it the whole world as its one task.
//!
//! madsim interposes clocks and entropy, so that code which asks the operating system for them in spite of everything
//! still gets the seed's, and its clock follows the world's. A fresh thread for every world: thread-locals (std's
//! hash keys, for one) begin the same.

#![allow(clippy::disallowed_methods, reason = "the thread of a world is made outside of it")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use crate::kernel::trace::{Line, Window, first_difference};
use crate::world::{Settings, World};

/// What a run leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<T> {
    /// What the experiment gave.
    pub value: T,
    pub seed: u64,
    pub events: u64,
    /// Over all events and what they did.
    pub hash: u64,
    pub virtual_ns: u64,
    /// The hash at every `kernel::trace::CHECKPOINT_EVENTS`-th event.
    pub checkpoints: Vec<u64>,
    /// The events of the settings' window.
    pub lines: Vec<Line>,
}

/// Deep recursion belongs to no task of ours, but debug builds have large frames.
const STACK_BYTES: usize = 16 << 20;

/// Runs `experiment` in a world of its own.
///
/// # Panics
/// Where the experiment does; the seed is printed first.
pub fn run<T: Send>(seed: u64, settings: Settings, experiment: impl FnOnce(&Rc<World>) -> T + Send) -> Outcome<T> {
    let body = move || {
        let runtime = madsim::runtime::Runtime::with_seed_and_config(seed, madsim::Config::default());
        runtime.block_on(async move {
            let world = World::new(seed, settings);
            let value = experiment(&world);
            let (events, hash, virtual_ns) = (world.events(), world.hash(), world.now());
            let (checkpoints, lines) = (world.trace().take_checkpoints(), world.trace().take_lines());
            world.end();
            Outcome { value, seed, events, hash, virtual_ns, checkpoints, lines }
        })
    };
    // The thread that simulates; it is the only one of its world.
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name(format!("world-{seed}")).stack_size(STACK_BYTES);
        let thread = builder
            .spawn_scoped(scope, move || catch_unwind(AssertUnwindSafe(body)))
            .expect("the system has room for a thread");
        match thread.join() {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) | Err(panic) => {
                eprintln!("the world of seed {seed} panicked");
                resume_unwind(panic)
            }
        }
    })
}

/// Two runs with one seed that differ.
#[derive(Debug, thiserror::Error)]
pub enum Divergence {
    #[error(
        "seed {seed} is not deterministic; the first event that differs:\n  first run:  {first}\n  second run: {second}"
    )]
    Event { seed: u64, first: String, second: String },
    #[error("seed {seed} is not deterministic: its events are equal, its results are not")]
    Value { seed: u64 },
    #[error(
        "seed {seed} is not deterministic, and each repetition differs elsewhere: hashes {hashes:x?}, events {events:?}"
    )]
    Unsteady { seed: u64, hashes: [u64; 2], events: [u64; 2] },
}

/// How often both runs are repeated to catch the first differing event in the window.
const REPETITIONS: usize = 4;

/// Runs the experiment twice. Gives the outcome when both are equal in every event and in their values.
pub fn run_twice<T: Send + PartialEq>(
    seed: u64,
    settings: &Settings,
    experiment: impl Fn(&Rc<World>) -> T + Sync,
) -> Result<Outcome<T>, Divergence> {
    let once = |window| {
        let settings = Settings { window, hash_contents: true, ..settings.clone() };
        run(seed, settings, |world| experiment(world))
    };
    let (mut first, mut second) = (once(Window::default()), once(Window::default()));
    let hashes = [first.hash, second.hash];
    let events = [first.events, second.events];
    for _ in 0..REPETITIONS {
        if first.hash == second.hash && first.events == second.events {
            if hashes[0] != hashes[1] {
                break;
            }
            return if first.value == second.value { Ok(first) } else { Err(Divergence::Value { seed }) };
        }
        let window = first_difference(&first.checkpoints, &second.checkpoints);
        (first, second) = (once(window), once(window));
        let count = first.lines.len().max(second.lines.len());
        for index in 0..count {
            let (a, b) = (first.lines.get(index), second.lines.get(index));
            if a != b {
                let text = |line: Option<&Line>| line.map_or("none, the run is over".into(), Line::to_string);
                return Err(Divergence::Event { seed, first: text(a), second: text(b) });
            }
        }
    }
    Err(Divergence::Unsteady { seed, hashes, events })
}
