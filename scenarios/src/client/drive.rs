//! One shard's part of one phase: begins operations as the arrival says and records how they end.
//!
//! Threads of a workload are not tasks. They are interchangeable, so a driver only counts how many are idle: an answer
//! begins the next operation in the same breath, or leaves its thread to the pacer until one is due.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cql::request::Parameters;
use cql::values::ValuesBuffer;
use cql::{Compression, Header, Opcode, Request, Response};
use reactor::Work;
use reactor::sync::Notify;
use types::Token;

use crate::client::error::ClientError;
use crate::client::link::{Answers, Flight, Link};
use crate::client::pace::Pace;
use crate::client::ring::{Ring, Sharding};
use crate::client::statements;
use crate::generate::{KeyGenerator, Random, fill_value, key_bytes};
use crate::latency::{Recorder, Side, Timing};
use crate::workload::{Operation, Row, Workload};

/// The default of the drivers that cassandra-stress and its successors use.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(12);
const SWEEP: Duration = Duration::from_secs(1);
/// Operations that the pacer begins before others get their turn.
const BURST: u32 = 16;
/// YCSB's `maxscanlength` of workload E, even from 1 on.
const SCAN_MAX: u64 = 100;
/// A phase in which this many operations fail before the first succeeds is misconfigured.
const HOPELESS: u64 = 1_000;

/// What the shards of one loader share during one phase: the sequence of keys and the number of operations left.
#[derive(Clone, Debug)]
pub struct SharedPhase {
    pub workload: Workload,
    generator: KeyGenerator,
    left: Arc<AtomicU64>,
}

impl SharedPhase {
    pub fn new(workload: Workload) -> Self {
        let generator = KeyGenerator::new(workload.keys);
        let left = Arc::new(AtomicU64::new(workload.operations.unwrap_or(u64::MAX)));
        Self { workload, generator, left }
    }

    /// For loader `loader` (from 0) of `loaders` that insert keys beside each other.
    pub fn of_loader(self, loader: u64, loaders: u64) -> Self {
        Self { generator: self.generator.of_loader(loader, loaders), ..self }
    }

    /// Operations that shards have begun.
    pub fn begun(&self) -> u64 {
        self.workload.operations.unwrap_or(u64::MAX) - self.left.load(Ordering::Relaxed)
    }

    /// The part of the phase that is over `elapsed_ns` after its start, 0 to 1: of its time, or of its operations.
    pub fn part_done(&self, elapsed_ns: u64) -> f64 {
        let part = match (self.workload.duration_ns, self.workload.operations) {
            (Some(duration), _) => elapsed_ns as f64 / duration as f64,
            (None, Some(all)) => self.begun() as f64 / all as f64,
            (None, None) => 0.0,
        };
        part.min(1.0)
    }

    /// No shard begins another operation.
    pub fn end(&self) {
        self.left.store(0, Ordering::Relaxed);
    }

    fn take_one(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// One shard's place in a phase; may travel to its shard's thread.
#[derive(Clone, Debug)]
pub struct PhaseShare {
    pub shared: SharedPhase,
    pub shard: u32,
    pub shards: u32,
    /// Of the run; `stream` keeps phases, loaders and shards apart.
    pub seed: u64,
    pub stream: u64,
    pub warmup_ns: u64,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    Written,
    /// The version that the row carries (see [`crate::generate::fill_value`]), or `None` for no row.
    Read(Option<u64>),
    /// It may or may not have happened.
    Failed(&'a str),
}

/// Sees the history of a driver's operations.
pub trait Observer {
    fn began(&self, write: bool, partition: u64, version: u64, begun_ns: u64);
    fn ended(&self, write: bool, partition: u64, version: u64, begun_ns: u64, ended_ns: u64, outcome: Outcome<'_>);
}

/// What a client has connected to.
#[derive(Clone)]
pub(super) struct Reach {
    pub links: Rc<Vec<Rc<Link>>>,
    pub nodes: Rc<Vec<NodeLinks>>,
    pub ring: Rc<Ring>,
    /// How long a run goes on without any connection.
    pub patience: Duration,
}

/// The connections to one node. One that broke may come back to another shard, which passes on what it does not own.
pub(super) struct NodeLinks {
    pub all: Vec<Rc<Link>>,
    /// `None`: any of them may be sent anything.
    sharding: Option<Sharding>,
    /// By the shard that serves them, where the node has told.
    by_shard: Vec<Vec<Rc<Link>>>,
}

/// The one that is up with the least in flight.
fn least_busy(links: &[Rc<Link>]) -> Option<&Rc<Link>> {
    links.iter().filter(|link| link.is_up()).min_by_key(|link| link.in_flight())
}

impl NodeLinks {
    pub fn new(sharding: Option<Sharding>) -> Self {
        let shards = sharding.map_or(0, |sharding| sharding.shards as usize);
        Self { all: Vec::new(), sharding, by_shard: vec![Vec::new(); shards] }
    }

    pub fn add(&mut self, link: Rc<Link>, served_by: u32) {
        if let Some(of_shard) = self.by_shard.get_mut(served_by as usize) {
            of_shard.push(link.clone());
        }
        self.all.push(link);
    }

    /// One to the shard that owns `token`, else to any.
    fn choose(&self, token: Token) -> Option<&Rc<Link>> {
        let of_owner = self.sharding.and_then(|sharding| self.by_shard.get(sharding.owner(token) as usize));
        of_owner.and_then(|links| least_busy(links)).or_else(|| least_busy(&self.all))
    }
}

pub(super) struct Driver {
    share: PhaseShare,
    /// Told of every operation, for oracles.
    observer: Option<Rc<dyn Observer>>,
    row: Row,
    threads: u32,
    reach: Reach,
    keys: RefCell<Random>,
    choices: RefCell<Random>,
    values: RefCell<ValuesBuffer>,
    column: RefCell<Vec<u8>>,
    pace: RefCell<Pace>,
    recorder: RefCell<Recorder>,
    end_ns: u64,
    in_flight: Cell<u32>,
    idle: Cell<u32>,
    versions: Cell<u64>,
    succeeded: Cell<u64>,
    failed: Cell<u64>,
    first_failure: RefCell<Option<String>>,
    stopped: Cell<bool>,
    /// Since when no link has been up; 0 while one is.
    lost_since_ns: Cell<u64>,
    patience_ns: u64,
    abandoned: Cell<bool>,
    changed: Notify,
    me: Weak<Driver>,
}

impl Driver {
    /// Runs the share to its end.
    pub async fn run(
        share: PhaseShare,
        observer: Option<Rc<dyn Observer>>,
        reach: &Reach,
    ) -> Result<Recorder, ClientError> {
        let start_ns = reactor::now();
        let workload = share.shared.workload.clone();
        let arrival = workload.arrival.share(share.shard, share.shards);
        let end_ns = workload.duration_ns.map_or(u64::MAX, |duration| start_ns + duration);
        let driver = Rc::new_cyclic(|me| Driver {
            row: workload.row,
            threads: arrival.threads(),
            reach: reach.clone(),
            keys: RefCell::new(Random::new(share.seed, share.stream * 2)),
            choices: RefCell::new(Random::new(share.seed, share.stream * 2 + 1)),
            values: RefCell::new(ValuesBuffer::default()),
            column: RefCell::new(Vec::new()),
            pace: RefCell::new(Pace::new(&arrival, start_ns)),
            recorder: RefCell::new(Recorder::new(start_ns, share.warmup_ns, workload.duration_ns)),
            end_ns,
            in_flight: Cell::new(0),
            idle: Cell::new(arrival.threads()),
            // Versions of different shards and phases must differ; 2^40 operations of one shard fit.
            versions: Cell::new((share.stream + 1) << 40),
            succeeded: Cell::new(0),
            failed: Cell::new(0),
            first_failure: RefCell::new(None),
            stopped: Cell::new(false),
            lost_since_ns: Cell::new(0),
            patience_ns: reach.patience.as_nanos() as u64,
            abandoned: Cell::new(false),
            changed: Notify::new(),
            me: me.clone(),
            share,
            observer,
        });
        for link in driver.reach.links.iter() {
            link.set_answers(Some(driver.clone()));
        }
        reactor::spawn(reactor::Group::Statement, "client pacer", driver.clone().pace_idle());
        reactor::spawn(reactor::Group::Statement, "client sweep", Driver::sweep(driver.me.clone()));
        driver.changed.wait_until(|| driver.is_over()).await;
        driver.stopped.set(true);
        for link in driver.reach.links.iter() {
            link.set_answers(None);
        }
        driver.changed.notify_all();
        driver.verdict()?;
        Ok(driver.recorder.borrow().clone())
    }

    fn verdict(&self) -> Result<(), ClientError> {
        if self.succeeded.get() == 0
            && self.failed.get() >= HOPELESS.min(u64::from(self.threads))
            && let Some(first) = self.first_failure.borrow().clone()
        {
            return Err(ClientError::NothingSucceeds { attempts: self.failed.get(), first });
        }
        if self.abandoned.get() { Err(ClientError::AllLost) } else { Ok(()) }
    }

    fn all_lost(&self) -> bool {
        !self.reach.links.iter().any(|link| link.is_up())
    }

    fn is_hopeless(&self) -> bool {
        self.succeeded.get() == 0 && self.failed.get() >= HOPELESS
    }

    fn is_over(&self) -> bool {
        self.stopped.get() && self.in_flight.get() == 0
    }

    fn must_stop(&self, now: u64) -> bool {
        if !self.stopped.get() && (now >= self.end_ns || self.is_hopeless()) {
            self.stop();
        }
        self.stopped.get()
    }

    fn stop(&self) {
        self.stopped.set(true);
        self.changed.notify_all();
    }

    /// Begins operations for idle threads as they come due, until the phase's end.
    async fn pace_idle(self: Rc<Self>) {
        loop {
            let now = reactor::now();
            let mut burst = 0;
            while burst < BURST && self.idle.get() > 0 && !self.must_stop(now) && self.begin_one(now) {
                burst += 1;
            }
            if self.must_stop(now) {
                return;
            }
            if burst == BURST {
                reactor::time::yield_now().await;
                continue;
            }
            if self.idle.get() > 0 {
                let due = self.pace.borrow().due_ns();
                if due > now {
                    reactor::time::sleep_until(due.min(self.end_ns)).await;
                    continue;
                }
                if !self.all_lost() {
                    // Due, and yet not begun: every stream of every link is taken.
                    reactor::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
            }
            // Every thread is busy (or no link is up): wait for an answer that leaves one idle.
            let changed = self.changed.notified();
            if self.end_ns == u64::MAX {
                changed.await;
            } else {
                let left = Duration::from_nanos(self.end_ns.saturating_sub(now));
                // Elapsed is the phase's end, seen at the head of the loop.
                reactor::time::timeout(left, changed).await.ok();
            }
        }
    }

    /// Gives up operations that the server has not answered in time.
    async fn sweep(driver: Weak<Self>) {
        loop {
            reactor::time::sleep(SWEEP).await;
            let Some(driver) = driver.upgrade() else { return };
            if driver.is_over() {
                return;
            }
            let now = reactor::now();
            let limit = now.saturating_sub(REQUEST_TIMEOUT.as_nanos() as u64);
            driver.reach.links.iter().for_each(|link| link.give_up(limit));
            driver.lose_patience(now);
        }
    }

    /// Ends a run that has had no connection for too long.
    fn lose_patience(&self, now: u64) {
        if !self.all_lost() {
            return self.lost_since_ns.set(0);
        }
        let since = self.lost_since_ns.get();
        if since == 0 {
            self.lost_since_ns.set(now);
        } else if now - since >= self.patience_ns {
            self.abandoned.set(true);
            self.stop();
        }
    }

    /// Begins one operation for an idle thread, if one is due and may be begun.
    fn begin_one(&self, now: u64) -> bool {
        if self.all_lost() {
            return false;
        }
        let Some(due_ns) = self.pace.borrow_mut().begin(now) else { return false };
        if !self.share.shared.take_one() {
            self.stop();
            return false;
        }
        let SharedPhase { workload: Workload { mix, .. }, generator, .. } = &self.share.shared;
        let operation = match mix.only() {
            Some(only) => only,
            None => mix.at(self.choices.borrow_mut().below(mix.total())),
        };
        let number = match operation {
            Operation::Insert => generator.insert(),
            _ => generator.draw(&mut self.keys.borrow_mut()),
        };
        let version = self.versions.get();
        self.versions.set(version + 1);
        let flight = Flight {
            due_ns,
            begun_ns: now,
            partition: number,
            version,
            operation,
            is_modifying: false,
            given_up: false,
        };
        if let Some(observer) = &self.observer {
            observer.began(operation.is_write(), number, version, now);
        }
        self.idle.set(self.idle.get() - 1);
        self.in_flight.set(self.in_flight.get() + 1);
        if reactor::processors() == 1 {
            return self.set_off(flight);
        }
        self.hand_over(move |driver| {
            driver.set_off(flight);
        });
        true
    }

    /// Between the thread of an operation and the one that has its connection: whichever takes over is woken, on
    /// whichever processor.
    fn hand_over(&self, work: impl FnOnce(&Self) + 'static) {
        if let Some(driver) = self.me.upgrade() {
            reactor::spawn(reactor::Group::Statement, "client thread", async move { work(&driver) });
        }
    }

    /// False, and the operation's thread idle again, if there is no stream for it.
    fn set_off(&self, flight: Flight) -> bool {
        let sent = self.send(flight);
        if !sent {
            self.in_flight.set(self.in_flight.get() - 1);
            self.idle.set(self.idle.get() + 1);
            self.changed.notify_all();
        }
        sent
    }

    /// Sends an operation's request, of a read-modify-write the one whose turn it is.
    fn send(&self, flight: Flight) -> bool {
        let (partition, place) = match flight.operation {
            Operation::Write | Operation::Insert => self.row.place(flight.partition),
            _ => (flight.partition, 0),
        };
        let key: [u8; Row::KEY_BYTES] = key_bytes(partition);
        let Some(link) = self.choose_link(&key) else { return false };
        let mut bytes = 0;
        let sent = link.send(flight, |out, stream| bytes = self.encode(link, out, stream, &flight, &key, place));
        if sent {
            reactor::charge(Work::ClientRequest, bytes as u64);
        }
        sent
    }

    /// A link to one of the partition's replicas that is up, or to any node.
    fn choose_link(&self, key: &[u8]) -> Option<&Rc<Link>> {
        let Reach { links, nodes, ring, .. } = &self.reach;
        let token = Token::of_key(key);
        let width = ring.width();
        let first = self.choices.borrow_mut().below(width as u64) as usize;
        let mut replicas = (first..width).chain(0..first).map(|choice| &nodes[ring.replica(token, choice)]);
        replicas.find_map(|node| node.choose(token)).or_else(|| least_busy(links))
    }

    /// Appends the request's frame; gives its length.
    fn encode(&self, link: &Link, out: &mut Vec<u8>, stream: i16, flight: &Flight, key: &[u8], place: u32) -> usize {
        let begin = out.len();
        let mut values = self.values.borrow_mut();
        values.clear();
        let mut column = self.column.borrow_mut();
        column.resize(self.row.column_bytes as usize, 0);
        let place = place.to_be_bytes();
        let place = (self.row.rows > 1).then_some(&place);
        let statement = match flight.operation {
            Operation::Write | Operation::Insert => {
                values.push_bytes(key);
                if let Some(place) = place {
                    values.push_bytes(place);
                }
                for i in 0..self.row.columns {
                    fill_value(flight.partition, i, flight.version, &mut column);
                    values.push_bytes(&column);
                }
                statements::WRITE
            }
            Operation::ReadModifyWrite if !flight.is_modifying => {
                values.push_bytes(key);
                statements::READ
            }
            Operation::Update | Operation::ReadModifyWrite => {
                fill_value(flight.partition, 0, flight.version, &mut column);
                values.push_bytes(&column);
                values.push_bytes(key);
                if let Some(place) = place {
                    values.push_bytes(place);
                }
                statements::UPDATE
            }
            Operation::Read => {
                values.push_bytes(key);
                statements::READ
            }
            Operation::Scan => {
                values.push_bytes(key);
                let rows = 1 + self.choices.borrow_mut().below(SCAN_MAX) as u32;
                values.push_bytes(&rows.to_be_bytes());
                statements::SCAN
            }
        };
        let code = self.share.shared.workload.consistency.code();
        let consistency = cql::Consistency::from_code(code).expect("the levels are those of the protocol");
        let mut parameters = Parameters::new(consistency, values.values());
        parameters.skip_metadata = matches!(statement, statements::READ | statements::SCAN);
        let ids = link.ids.borrow();
        Request::Execute { id: &ids[statement], parameters }
            .encode(out, stream, Compression::None)
            .expect("a row of a workload is far below a frame's limit");
        out.len() - begin
    }

    fn end(&self, flight: Flight, outcome: Outcome<'static>) {
        if reactor::processors() == 1 {
            return self.ended(flight, outcome);
        }
        self.hand_over(move |driver| driver.ended(flight, outcome));
    }

    fn ended(&self, flight: Flight, outcome: Outcome<'_>) {
        let ended_ns = reactor::now();
        match outcome {
            Outcome::Failed(kind) => {
                self.failed.set(self.failed.get() + 1);
                self.recorder.borrow_mut().error(kind);
            }
            _ => {
                self.succeeded.set(self.succeeded.get() + 1);
                let timing = Timing { due_ns: flight.due_ns, begun_ns: flight.begun_ns, ended_ns };
                let side = if flight.operation.is_write() { Side::Write } else { Side::Read };
                self.recorder.borrow_mut().record_side(side, timing);
            }
        }
        if let Some(observer) = &self.observer {
            observer.ended(
                flight.operation.is_write(),
                flight.partition,
                flight.version,
                flight.begun_ns,
                ended_ns,
                outcome,
            );
        }
        self.in_flight.set(self.in_flight.get() - 1);
        self.idle.set(self.idle.get() + 1);
        let begun = !self.must_stop(ended_ns) && self.begin_one(ended_ns);
        if !begun {
            // The pacer waits for idle threads, or the phase is over.
            self.changed.notify_all();
        }
    }

    fn first_failure(&self, message: &str) {
        if self.first_failure.borrow().is_none() {
            *self.first_failure.borrow_mut() = Some(message.to_string());
        }
    }
}

impl Answers for Driver {
    fn answered(&self, flight: Flight, header: &Header, body: &[u8]) {
        reactor::charge(Work::ClientResponse, body.len() as u64);
        match Response::decode(header, body) {
            Ok(Response::Void) if flight.operation.is_write() => self.end(flight, Outcome::Written),
            Ok(Response::Rows(_)) if flight.operation == Operation::ReadModifyWrite => {
                if !self.send(Flight { is_modifying: true, ..flight }) {
                    self.end(flight, Outcome::Failed("connection lost"));
                }
            }
            Ok(Response::Rows(rows)) if !flight.operation.is_write() => {
                // A partition that was never written is not an error to the server, but it is one to a benchmark.
                let row = rows.iter().next().and_then(Result::ok);
                let version =
                    row.and_then(|row| row.cell(0)).and_then(|c| c.first_chunk()).map(|c| u64::from_be_bytes(*c));
                // What another loader counts as inserted may be on its way still.
                let must_exist = self.observer.is_none() && self.share.shared.workload.mix.insert == 0;
                match row {
                    None if must_exist => {
                        self.first_failure("the row does not exist");
                        self.end(flight, Outcome::Failed("row not found"));
                    }
                    _ => self.end(flight, Outcome::Read(version)),
                }
            }
            Ok(Response::Error(error)) => {
                self.first_failure(&error.message);
                self.end(flight, Outcome::Failed(error_name(&error.kind)));
            }
            Ok(other) => {
                self.first_failure(&format!("an unexpected response: {other:?}"));
                self.end(flight, Outcome::Failed("unexpected response"));
            }
            Err(error) => {
                self.first_failure(&error.to_string());
                self.end(flight, Outcome::Failed("unreadable response"));
            }
        }
        debug_assert!(matches!(header.opcode, Opcode::Result | Opcode::Error | Opcode::Event));
    }

    fn failed(&self, flight: Flight, kind: &'static str) {
        self.first_failure(kind);
        self.end(flight, Outcome::Failed(kind));
    }

    fn link_changed(&self) {
        self.changed.notify_all();
    }
}

fn error_name(kind: &cql::response::ErrorKind) -> &'static str {
    use cql::response::ErrorKind;
    match kind {
        ErrorKind::Unavailable { .. } => "unavailable",
        ErrorKind::WriteTimeout { .. } => "write timeout",
        ErrorKind::ReadTimeout { .. } => "read timeout",
        ErrorKind::WriteFailure { .. } => "write failure",
        ErrorKind::ReadFailure { .. } => "read failure",
        ErrorKind::Overloaded => "overloaded",
        ErrorKind::IsBootstrapping => "bootstrapping",
        ErrorKind::Unprepared { .. } => "unprepared",
        ErrorKind::Syntax | ErrorKind::Invalid | ErrorKind::Config => "invalid request",
        _ => "server error",
    }
}
