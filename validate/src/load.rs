//! The load on real servers: the scenarios' own client on threads of this process, which may be pinned.
//!
//! The client is the code that loads simulated clusters, with as many connections and operations in flight, and takes
//! its latencies from the same moments. Loader `l` (from 0) of those that share a machine has the threads from
//! `l x shards` on.

use std::rc::Rc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use reactor::{Group, Work, WorkCount, uring};
use scenarios::client::{self, Client, ClientError, PhaseShare, SharedPhase, Target};
use scenarios::{Recorder, Workload};

/// How often [`Loaders::run`] tells that time passes.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Threads(#[from] uring::Error),
    #[error("the loading threads ended without a word")]
    Silent,
}

#[derive(Clone, Debug)]
pub struct LoaderConfig {
    pub loaders: usize,
    /// Threads of each.
    pub shards: usize,
    /// Where they are pinned, one after the other; empty: nowhere.
    pub cpus: Vec<usize>,
    /// How long an idle thread looks for answers before it sleeps.
    pub busy_poll: Duration,
}

impl LoaderConfig {
    /// One thread.
    pub fn one(cpu: Option<usize>) -> Self {
        Self { loaders: 1, shards: 1, cpus: cpu.into_iter().collect(), busy_poll: Duration::ZERO }
    }
}

/// Work of one thread, and the CPU that it took.
#[derive(Clone, Debug)]
pub struct Counted {
    pub cpu_ns: u64,
    pub work: Vec<(Work, WorkCount)>,
}

/// Threads with connections to all nodes. Dropping them closes those.
pub struct Loaders {
    host: uring::Host,
}

/// Creates the keyspace and the table where they do not exist.
pub fn create_schema(target: &Target) -> Result<(), LoadError> {
    let target = target.clone();
    uring::block_on(async move { client::create_schema(&target).await })??;
    Ok(())
}

impl Loaders {
    pub fn connect(config: &LoaderConfig, target: &Target) -> Result<Self, LoadError> {
        let threads = config.loaders * config.shards;
        let shards = uring::Config {
            shards: threads,
            cpus: (!config.cpus.is_empty()).then(|| config.cpus.clone()),
            busy_poll: config.busy_poll,
            ..Default::default()
        };
        let (tell, connected) = mpsc::channel();
        let host = {
            let (target, of_loader) = (target.clone(), config.shards);
            uring::Host::start(shards, move |thread| {
                connect(target.clone(), thread % of_loader, of_loader, tell.clone())
            })?
        };
        for _ in 0..threads {
            connected.recv().map_err(|_| LoadError::Silent)??;
        }
        Ok(Self { host })
    }

    /// Runs shares, each on the thread beside it, all at once. Gives what each thread recorded, in the order in which
    /// they ended. `tick` is called now and then.
    pub fn run(
        &self,
        shares: Vec<(usize, PhaseShare)>,
        mut tick: impl FnMut(),
    ) -> Result<Vec<(usize, Recorder)>, LoadError> {
        let mut running = shares.len();
        let (tell, ended) = mpsc::channel();
        for (thread, share) in shares {
            let tell = tell.clone();
            self.host.run_on(thread, move || {
                drop(reactor::spawn(Group::Statement, "load", drive(thread, share, tell)));
            });
        }
        // So that threads that ended by a failure are not waited for.
        drop(tell);
        let mut recorders = Vec::with_capacity(running);
        while running > 0 {
            match ended.recv_timeout(TICK) {
                Ok((thread, recorder)) => {
                    running -= 1;
                    recorders.push((thread, recorder?));
                }
                Err(RecvTimeoutError::Timeout) => tick(),
                Err(RecvTimeoutError::Disconnected) => return Err(LoadError::Silent),
            }
        }
        Ok(recorders)
    }

    /// Runs one workload on the first thread; gives how many operations ended.
    pub fn run_alone(&self, workload: Workload, stream: u64) -> Result<u64, LoadError> {
        let shared = SharedPhase::new(workload);
        let share = PhaseShare { shared, shard: 0, shards: 1, seed: 1, stream, warmup_ns: 0 };
        let recorders = self.run(vec![(0, share)], || ())?;
        Ok(recorders.into_iter().map(|(_, recorder)| recorder.finish().operations).sum())
    }

    /// What a thread has counted so far.
    pub fn counted(&self, thread: usize) -> Result<Counted, LoadError> {
        let (tell, told) = mpsc::channel();
        self.host.run_on(thread, move || {
            let count = |work: &Work| (*work, reactor::with_counters(|counters| counters.work(*work)));
            let counted = Counted { cpu_ns: reactor::used_cpu_ns(), work: Work::ALL.iter().map(count).collect() };
            let _ = tell.send(counted);
        });
        told.recv().map_err(|_| LoadError::Silent)
    }

    pub fn stop(self) -> Result<(), LoadError> {
        self.host.stop();
        Ok(self.host.join()?)
    }
}

async fn connect(target: Target, shard: usize, shards: usize, tell: Sender<Result<(), ClientError>>) {
    let connected = Client::connect(&target, shard as u32, shards as u32).await;
    // Nobody listens any more once another thread has failed.
    let _ = tell.send(connected.map(|client| reactor::set_local(Rc::new(client))));
}

async fn drive(thread: usize, share: PhaseShare, tell: Sender<(usize, Result<Recorder, ClientError>)>) {
    let client = reactor::local::<Client>().expect("every thread has connected before any is told to drive");
    let _ = tell.send((thread, client.run(share).await));
}

/// What several threads recorded, as one.
pub fn merged(recorders: impl IntoIterator<Item = Recorder>) -> Option<Recorder> {
    recorders.into_iter().reduce(|mut all, recorder| {
        all.merge(recorder);
        all
    })
}
