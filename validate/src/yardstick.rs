//! How fast the processors are now: the rate at which a node answers one unchanging load.
//!
//! Those of a virtual machine are faster or slower by what its neighbours do, by half within minutes. Prices that were
//! found at one time hold at another in proportion, so both times are measured with the same yard: reads of eight rows
//! that are always in memory, 64 at once.

use std::time::Duration;

use scenarios::client::{TableSpec, Target};
use scenarios::generate::Keys;
use scenarios::{Arrival, Consistency, Mix, Row, Workload};

use crate::load::{LoadError, LoaderConfig, Loaders, create_schema};

const KEYSPACE: &str = "yardstick";
const ROWS: u64 = 8;
const CONNECTIONS: u32 = 8;
/// Long enough for some 50,000 reads.
const TIME: Duration = Duration::from_millis(500);
/// Speeds before and after what was measured that are further apart make it doubtful.
pub const DRIFT_MAX: f64 = 0.1;

/// A table of its own on running nodes.
pub struct Yardstick {
    target: Target,
    client: LoaderConfig,
}

impl Yardstick {
    /// `client` is the loaders' place; its number of loaders does not matter.
    pub fn new(target: &Target, client: &LoaderConfig) -> Result<Self, LoadError> {
        let row = Row { columns: 1, column_bytes: 100, rows: 1 };
        let target =
            Target { table: TableSpec::new(KEYSPACE, 1, row), connections_per_host: CONNECTIONS, ..target.clone() };
        create_schema(&target)?;
        let yardstick = Self { target, client: LoaderConfig { loaders: 1, shards: 1, ..client.clone() } };
        let keys = Keys::Sequence { from: 1, to: ROWS };
        yardstick.drive(Workload {
            mix: Mix::WRITE,
            keys,
            operations: Some(ROWS),
            duration_ns: None,
            ..yardstick.load()
        })?;
        Ok(yardstick)
    }

    /// Operations a second.
    pub fn measure(&self) -> Result<f64, LoadError> {
        let operations = self.drive(self.load())?;
        Ok(operations as f64 / TIME.as_secs_f64())
    }

    fn load(&self) -> Workload {
        Workload {
            mix: Mix::READ,
            keys: Keys::Uniform { from: 1, to: ROWS },
            arrival: Arrival::Closed { threads: 64 },
            consistency: Consistency::One,
            operations: None,
            duration_ns: Some(TIME.as_nanos() as u64),
            row: self.target.table.row,
            connections_per_host: CONNECTIONS,
        }
    }

    fn drive(&self, workload: Workload) -> Result<u64, LoadError> {
        let loaders = Loaders::connect(&self.client, &self.target)?;
        let operations = loaders.run_alone(workload, 0)?;
        loaders.stop()?;
        Ok(operations)
    }
}
