//! A workload: what one loader does during one phase, whatever form the scenario wrote it in.

use std::fmt;

use hwprofiles::quantity::{Quantity, Rate};
use serde::{Deserialize, Serialize};

use crate::generate::Keys;

/// Default of cassandra-stress: `-mode native cql3 connectionsPerHost=8`.
pub const CONNECTIONS_PER_HOST: u32 = 8;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    pub mix: Mix,
    pub keys: Keys,
    pub arrival: Arrival,
    pub consistency: Consistency,
    /// The phase ends when this many operations are done or this much time has passed, whichever is first.
    pub operations: Option<u64>,
    pub duration_ns: Option<u64>,
    pub row: Row,
    pub connections_per_host: u32,
}

/// Relative numbers of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Of whole rows, whose number the keys give.
    #[serde(default)]
    pub write: u32,
    /// Of all rows of a partition.
    #[serde(default)]
    pub read: u32,
    /// Writes of one column.
    #[serde(default)]
    pub update: u32,
    /// Writes of rows that were not there, behind the range of keys.
    #[serde(default)]
    pub insert: u32,
    /// Reads of 1 to 100 partitions that follow one another.
    #[serde(default)]
    pub scan: u32,
    /// A read and then an update, which count as one.
    #[serde(default)]
    pub read_modify_write: u32,
}

/// One operation of a [`Mix`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    #[default]
    Write,
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Operation {
    pub fn is_write(self) -> bool {
        !matches!(self, Operation::Read | Operation::Scan)
    }
}

impl Mix {
    pub const WRITE: Mix = Mix { write: 1, ..Mix::NOTHING };
    pub const READ: Mix = Mix { read: 1, ..Mix::NOTHING };
    pub const NOTHING: Mix = Mix { write: 0, read: 0, update: 0, insert: 0, scan: 0, read_modify_write: 0 };

    pub fn parts(&self) -> [(Operation, u32); 6] {
        use Operation::*;
        [
            (Write, self.write),
            (Read, self.read),
            (Update, self.update),
            (Insert, self.insert),
            (Scan, self.scan),
            (ReadModifyWrite, self.read_modify_write),
        ]
    }

    pub fn total(&self) -> u64 {
        self.parts().iter().map(|(_, part)| u64::from(*part)).sum()
    }

    /// The operation at `place`, below [`Mix::total`].
    pub fn at(&self, mut place: u64) -> Operation {
        for (operation, part) in self.parts() {
            match place.checked_sub(u64::from(part)) {
                None => return operation,
                Some(rest) => place = rest,
            }
        }
        Operation::Read
    }

    /// Whether every operation is the same, and which.
    pub fn only(&self) -> Option<Operation> {
        let mut there = self.parts().into_iter().filter(|(_, part)| *part > 0);
        there.next().filter(|_| there.next().is_none()).map(|(operation, _)| operation)
    }

    /// Whether operations of both sides are there.
    pub fn has_sides(&self) -> [bool; 2] {
        let any = |write| self.parts().iter().any(|(operation, part)| *part > 0 && operation.is_write() == write);
        [any(true), any(false)]
    }
}

/// When the next operation begins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrival {
    /// `threads` clients that each begin the next operation when the last has ended.
    Closed { threads: u32 },
    /// The same, held below a rate all together: cassandra-stress's `limit=`. A late operation is not made up for.
    Throttled { threads: u32, rate: Quantity<Rate> },
    /// Operations are due at a fixed rate, whether or not earlier ones have ended; at most `threads` are in flight, and
    /// the wait for a free one is part of the latency: cassandra-stress's `fixed=`.
    Open { threads: u32, rate: Quantity<Rate> },
}

impl Arrival {
    pub fn threads(&self) -> u32 {
        match *self {
            Arrival::Closed { threads } | Arrival::Throttled { threads, .. } | Arrival::Open { threads, .. } => threads,
        }
    }

    pub fn rate(&self) -> Option<f64> {
        match self {
            Arrival::Closed { .. } => None,
            Arrival::Throttled { rate, .. } | Arrival::Open { rate, .. } => Some(rate.f64()),
        }
    }

    pub fn is_open(&self) -> bool {
        matches!(self, Arrival::Open { .. })
    }

    /// The part of one of `shards` equal drivers: threads dealt out one by one, rates divided by threads.
    pub fn share(&self, shard: u32, shards: u32) -> Arrival {
        let threads = self.threads() / shards + u32::from(shard < self.threads() % shards);
        let part =
            |rate: Quantity<Rate>| Quantity::new(rate.f64() * f64::from(threads) / f64::from(self.threads().max(1)));
        match *self {
            Arrival::Closed { .. } => Arrival::Closed { threads },
            Arrival::Throttled { rate, .. } => Arrival::Throttled { threads, rate: part(rate) },
            Arrival::Open { rate, .. } => Arrival::Open { threads, rate: part(rate) },
        }
    }
}

/// Shape of the rows written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub columns: u32,
    pub column_bytes: u32,
    /// Rows of a partition; with more than one they have a clustering key, and keys are numbers of rows where one is
    /// written, of partitions where they are read.
    #[serde(default = "one")]
    pub rows: u32,
}

fn one() -> u32 {
    1
}

impl Row {
    /// `keyspace1.standard1`: key of 10 bytes, C0 to C4 of 34 bytes.
    pub const STRESS_DEFAULT: Row = Row { columns: 5, column_bytes: 34, rows: 1 };
    pub const KEY_BYTES: usize = 10;

    /// Bytes of one row on disk, near enough to check capacities: the reports count about 300 for the default.
    pub fn stored_bytes(&self) -> u64 {
        let cell_overhead = 20;
        let partition_overhead = 30;
        Self::KEY_BYTES as u64
            + partition_overhead
            + u64::from(self.columns) * (u64::from(self.column_bytes) + cell_overhead)
    }

    /// Bytes of a partition in this engine's memory, within a tenth: a cached one of the default has 297.
    pub fn memory_bytes(&self) -> u64 {
        let (partition_overhead, cell_overhead) = (60, 12);
        let row = u64::from(self.columns) * (u64::from(self.column_bytes) + cell_overhead);
        Self::KEY_BYTES as u64 + partition_overhead + u64::from(self.rows.max(1)) * row
    }

    /// The partition and the place in it of row `number`, both from 1 and 0.
    pub fn place(&self, number: u64) -> (u64, u32) {
        let rows = u64::from(self.rows.max(1));
        ((number - 1) / rows + 1, ((number - 1) % rows) as u32)
    }
}

/// Consistency levels by CQL's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Consistency {
    Any,
    One,
    Two,
    Three,
    Quorum,
    All,
    LocalQuorum,
    EachQuorum,
    LocalOne,
}

impl Consistency {
    pub const ALL: [(&'static str, Consistency, u16); 9] = [
        ("ANY", Consistency::Any, 0x0000),
        ("ONE", Consistency::One, 0x0001),
        ("TWO", Consistency::Two, 0x0002),
        ("THREE", Consistency::Three, 0x0003),
        ("QUORUM", Consistency::Quorum, 0x0004),
        ("ALL", Consistency::All, 0x0005),
        ("LOCAL_QUORUM", Consistency::LocalQuorum, 0x0006),
        ("EACH_QUORUM", Consistency::EachQuorum, 0x0007),
        ("LOCAL_ONE", Consistency::LocalOne, 0x000A),
    ];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, ..)| name.eq_ignore_ascii_case(text)).map(|(_, level, _)| *level)
    }

    fn entry(self) -> &'static (&'static str, Consistency, u16) {
        Self::ALL.iter().find(|(_, level, _)| *level == self).expect("ALL lists every level")
    }

    /// The protocol's number (native_protocol_v4.spec, section 3, `[consistency]`).
    pub fn code(self) -> u16 {
        self.entry().2
    }

    /// Replicas that have to answer in one data centre of replication factor `rf`.
    pub fn replicas(self, rf: u32) -> u32 {
        match self {
            Consistency::Any | Consistency::One | Consistency::LocalOne => 1,
            Consistency::Two => 2,
            Consistency::Three => 3,
            Consistency::Quorum | Consistency::LocalQuorum | Consistency::EachQuorum => rf / 2 + 1,
            Consistency::All => rf,
        }
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        let arrival = Arrival::Throttled { threads: 10, rate: Quantity::new(1000.0) };
        let shares: Vec<Arrival> = (0..4).map(|i| arrival.share(i, 4)).collect();
        assert_eq!(shares.iter().map(Arrival::threads).collect::<Vec<_>>(), [3, 3, 2, 2]);
        assert!((shares.iter().filter_map(Arrival::rate).sum::<f64>() - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn the_default_row_is_about_300_bytes() {
        assert_eq!(Row::STRESS_DEFAULT.stored_bytes(), 310);
        assert_eq!(Row::STRESS_DEFAULT.memory_bytes(), 300);
    }

    #[test]
    fn a_mix_gives_each_its_part() {
        let mix = Mix { read: 2, scan: 3, ..Mix::NOTHING };
        let all: Vec<Operation> = (0..mix.total()).map(|place| mix.at(place)).collect();
        use Operation::*;
        assert_eq!(all, [Read, Read, Scan, Scan, Scan]);
        assert_eq!((mix.only(), Mix::WRITE.only()), (None, Some(Write)));
        assert_eq!((mix.has_sides(), Mix { update: 1, ..mix }.has_sides()), ([false, true], [true, true]));
    }

    #[test]
    fn rows_of_a_partition_follow_one_another() {
        let row = Row { columns: 1, column_bytes: 1000, rows: 16 };
        assert_eq!([row.place(1), row.place(16), row.place(17)], [(1, 0), (1, 15), (2, 0)]);
        assert_eq!(Row::STRESS_DEFAULT.place(7), (7, 0));
    }

    #[test]
    fn levels_have_their_codes() {
        assert_eq!(Consistency::parse("local_quorum").map(Consistency::code), Some(6));
        assert_eq!(Consistency::Quorum.replicas(3), 2);
        assert_eq!(Consistency::parse("MOST"), None);
    }
}
