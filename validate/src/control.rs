//! How fast the engine is now: a control, a node and a client that do the same whenever they are asked.
//!
//! What it takes them more or less than at another time is the machine's doing, whatever that is: a virtual one's
//! processors are slower by a tenth for minutes, and the watch of their speed ([`crate::speed`]) does not always see it.

use std::net::Ipv4Addr;
use std::time::Duration;

use scenarios::client::TableSpec;
use scenarios::generate::Keys;
use scenarios::{Arrival, Consistency, Mix, Row, Workload};
use server::NodeConfig;

use crate::load::{LoadError, LoaderConfig, Loaders, create_schema};
use crate::local::{LocalCluster, LocalError, Nodes, Place};
use crate::usage;

/// Of default rows, all in memory: reads, for writes would leave something behind.
const ROWS: u64 = 100_000;
const MEMORY: u64 = 256 << 20;
const THREADS: u32 = 64;
const CONNECTIONS: u32 = 8;
/// Each time.
pub const LASTS: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error(transparent)]
    Node(#[from] LocalError),
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Idle unless it is asked.
pub struct Control {
    cluster: LocalCluster,
    loaders: Loaders,
}

impl Control {
    pub fn start(place: &Place) -> Result<Self, ControlError> {
        let mut config = NodeConfig::single(Ipv4Addr::LOCALHOST.into(), "data");
        (config.memtable_bytes, config.cache_bytes) = (MEMORY, MEMORY);
        let cluster = LocalCluster::start(&Nodes::one(place, config))?;
        let target = cluster.target(TableSpec::new("control", 1, Row::STRESS_DEFAULT), CONNECTIONS);
        create_schema(&target)?;
        let loaders = Loaders::connect(&LoaderConfig::one(place.loader_cpu), &target)?;
        let control = Self { cluster, loaders };
        control.every_row(Mix::WRITE)?;
        Ok(control)
    }

    fn every_row(&self, mix: Mix) -> Result<(), ControlError> {
        let keys = Keys::Sequence { from: 1, to: ROWS };
        let once = Workload { mix, keys, operations: Some(ROWS), duration_ns: None, ..reads(Duration::ZERO) };
        self.loaders.run_alone(once, 0)?;
        Ok(())
    }

    /// Operations a second of CPU: the node's, and the client's, once every row has been read.
    ///
    /// It was idle before, and the host of a virtual machine may have taken the mappings of its memory away meanwhile:
    /// to touch a page again took 22 us in some hours and next to nothing in others, and the first quarter of a second
    /// went at a third of the speed.
    pub fn measure(&self, lasts: Duration) -> Result<[f64; 2], ControlError> {
        self.every_row(Mix::READ)?;
        let node = || usage::cpu_ns(&self.cluster.process_ids());
        let client = || self.loaders.counted(0).map(|counted| counted.cpu_ns as f64);
        let before = [node(), client()?];
        let operations = self.loaders.run_alone(reads(lasts), 1)? as f64;
        let after = [node(), client()?];
        Ok([0, 1].map(|side| operations * 1e9 / (after[side] - before[side]).max(1.0)))
    }

    pub fn stop(self) -> Result<(), ControlError> {
        self.loaders.stop()?;
        Ok(self.cluster.stop()?)
    }
}

fn reads(lasts: Duration) -> Workload {
    Workload {
        mix: Mix::READ,
        keys: Keys::Uniform { from: 1, to: ROWS },
        arrival: Arrival::Closed { threads: THREADS },
        consistency: Consistency::One,
        operations: None,
        duration_ns: Some(lasts.as_nanos() as u64),
        row: Row::STRESS_DEFAULT,
        connections_per_host: CONNECTIONS,
    }
}
