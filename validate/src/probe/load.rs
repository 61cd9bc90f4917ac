//! A load on a file through the reactor's own operations: the same code measures a real disk and a simulated one.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use hdrhistogram::Histogram;
use reactor::fs::File;
use reactor::{Buf, Group};

/// Arrivals beyond so many in flight are left out: the device is far behind, and the rate that it reached shows it.
const IN_FLIGHT_MAX: u32 = 2_048;
/// Longest latency that is told apart, in ns.
const LONGEST_NS: u64 = 60_000_000_000;

#[derive(Clone, Copy, Debug)]
pub enum Arrival {
    /// So many in flight, always.
    Depth(u32),
    /// So many a second, at uneven distances; latencies count from when they were due.
    Rate(f64),
}

#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub writes: bool,
    pub block: u64,
    /// Places in a row instead of drawn at random.
    pub sequential: bool,
    pub arrival: Arrival,
}

impl Load {
    pub fn random(writes: bool, block: u64, arrival: Arrival) -> Self {
        Self { writes, block, sequential: false, arrival }
    }

    pub fn sequential(writes: bool, block: u64, arrival: Arrival) -> Self {
        Self { writes, block, sequential: true, arrival }
    }
}

/// What a load did after it had settled.
#[derive(Clone, Debug)]
pub struct Seen {
    pub operations: u64,
    pub seconds: f64,
    /// In ns.
    pub latency: Histogram<u64>,
    /// Between one moment at which something was done and the next, in ns.
    pub gaps: Histogram<u64>,
    /// Since the load's beginning, for counting wear.
    pub bytes_in_all: u64,
}

pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds")
}

impl Seen {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds.max(1e-9)
    }

    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e3
    }

    /// The same load's part on another shard, at the same time.
    pub fn merge(&mut self, other: &Seen) {
        self.operations += other.operations;
        self.bytes_in_all += other.bytes_in_all;
        self.latency.add(&other.latency).expect("one range for all");
        self.gaps.add(&other.gaps).expect("one range for all");
    }
}

struct State {
    file: File,
    file_bytes: u64,
    load: Load,
    counted_from: u64,
    until: u64,
    latency: RefCell<Histogram<u64>>,
    gaps: RefCell<Histogram<u64>>,
    done_at: Cell<u64>,
    operations: Cell<u64>,
    all: Cell<u64>,
    next: Cell<u64>,
    in_flight: Cell<u32>,
    idle: RefCell<Vec<Buf>>,
    failed: RefCell<Option<io::Error>>,
    done: reactor::sync::Notify,
}

impl State {
    fn place(&self) -> u64 {
        let blocks = (self.file_bytes / self.load.block).max(1);
        let block = if self.load.sequential {
            let next = self.next.get();
            self.next.set(next + 1);
            next % blocks
        } else {
            reactor::random() % blocks
        };
        block * self.load.block
    }

    fn buffer(&self) -> Buf {
        let bytes = self.load.block as usize;
        self.idle.borrow_mut().pop().unwrap_or_else(|| {
            let mut buf = Buf::direct(bytes);
            if self.load.writes {
                buf.resize(bytes, 0x5a);
            }
            buf
        })
    }

    fn is_over(&self) -> bool {
        reactor::now() >= self.until || self.failed.borrow().is_some()
    }

    async fn operation(&self, due: u64, mut buf: Buf) -> Buf {
        let bytes = self.load.block as usize;
        let result = if self.load.writes {
            let (result, back) = self.file.write_all_at(self.place(), buf).await;
            buf = back;
            result
        } else {
            buf.clear();
            let (result, back) = self.file.read_at(self.place(), bytes, buf).await;
            buf = back;
            match result {
                Ok(read) if read < bytes => Err(io::ErrorKind::UnexpectedEof.into()),
                other => other.map(drop),
            }
        };
        let now = reactor::now();
        self.all.set(self.all.get() + 1);
        match result {
            Err(error) => {
                self.failed.borrow_mut().get_or_insert(error);
            }
            Ok(()) if now >= self.counted_from && now < self.until => {
                self.operations.set(self.operations.get() + 1);
                self.latency.borrow_mut().saturating_record((now - due).max(1));
                let gap = now - self.done_at.replace(now).max(self.counted_from);
                self.gaps.borrow_mut().saturating_record(gap.max(1));
            }
            Ok(()) => {}
        }
        buf
    }

    async fn worker(self: Rc<Self>) {
        let mut buf = self.buffer();
        while !self.is_over() {
            buf = self.operation(reactor::now(), buf).await;
        }
    }

    async fn arrivals(self: Rc<Self>, rate: f64) {
        let gap_ns = (1e9 / rate.max(1e-3)) as u64;
        let mut due = reactor::now();
        loop {
            due += gap_ns - gap_ns / 4 + reactor::random() % (gap_ns / 2).max(1);
            if due > reactor::now() {
                reactor::time::sleep_until(due.min(self.until)).await;
            }
            if self.is_over() {
                break;
            }
            if self.in_flight.get() >= IN_FLIGHT_MAX {
                continue;
            }
            self.in_flight.set(self.in_flight.get() + 1);
            let state = self.clone();
            drop(reactor::spawn(Group::Statement, "arrival", async move {
                let buf = state.operation(due, state.buffer()).await;
                state.idle.borrow_mut().push(buf);
                state.in_flight.set(state.in_flight.get() - 1);
                state.done.notify_all();
            }));
        }
        self.done.wait_until(|| self.in_flight.get() == 0).await;
    }
}

/// Runs the loads at once on the first `file_bytes` of `file` for `for_ns`; the first third is not counted.
pub async fn run(file: &File, file_bytes: u64, loads: &[Load], for_ns: u64) -> io::Result<Vec<Seen>> {
    let began = reactor::now();
    let states: Vec<Rc<State>> = loads
        .iter()
        .map(|load| {
            Rc::new(State {
                file: file.clone(),
                file_bytes,
                load: *load,
                counted_from: began + for_ns / 3,
                until: began + for_ns,
                latency: RefCell::new(histogram()),
                gaps: RefCell::new(histogram()),
                done_at: Cell::new(0),
                operations: Cell::new(0),
                all: Cell::new(0),
                next: Cell::new(reactor::random() % (file_bytes / load.block).max(1)),
                in_flight: Cell::new(0),
                idle: RefCell::default(),
                failed: RefCell::default(),
                done: reactor::sync::Notify::new(),
            })
        })
        .collect();
    let mut tasks = Vec::new();
    for state in &states {
        match state.load.arrival {
            Arrival::Depth(depth) => {
                tasks.extend((0..depth).map(|_| reactor::spawn(Group::Statement, "worker", state.clone().worker())));
            }
            Arrival::Rate(rate) => {
                tasks.push(reactor::spawn(Group::Statement, "arrivals", state.clone().arrivals(rate)));
            }
        }
    }
    for task in tasks {
        task.await;
    }
    let seconds = (for_ns - for_ns / 3) as f64 / 1e9;
    let mut seen = Vec::new();
    for state in &states {
        if let Some(error) = state.failed.borrow_mut().take() {
            return Err(error);
        }
        seen.push(Seen {
            operations: state.operations.get(),
            seconds,
            latency: state.latency.borrow().clone(),
            gaps: state.gaps.borrow().clone(),
            bytes_in_all: state.all.get() * state.load.block,
        });
    }
    Ok(seen)
}
