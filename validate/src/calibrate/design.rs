//! Which mixes are run: unlike enough in what they do that each kind of work shows in a way of its own.
//!
//! Rows of 60 bytes to 8 KiB tell what is paid by the byte, of 1 to 24 columns what is paid by the cell, partitions of
//! several rows what is paid by the row, few and many of them what is paid for finding one; few and many requests in
//! flight, over few and many connections, what is paid for a send or a turn from what is paid for a request; reads from
//! the cache, from SSTables, and from compressed ones, what storage costs; memory for memtables that is soon full,
//! flushes. Compaction is asked for: the little that comes with flushes is lost in them.

use scenarios::generate::Keys;
use scenarios::{Arrival, Consistency, Mix, Row, Workload};

/// Everything done on one fresh node.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub name: String,
    pub row: Row,
    /// A class, such as `LZ4Compressor`; none if absent.
    pub compression: Option<&'static str>,
    pub memtable_mib: u64,
    pub cache_mib: u64,
    /// Writes are acknowledged when the commit log is durable.
    pub durable: bool,
    /// Rows written before the first mix.
    pub rows: u64,
    /// Memtables are written out, and compaction is awaited, before the first mix.
    pub settled: bool,
    pub steps: Vec<Step>,
}

/// One mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub name: String,
    pub mix: Mix,
    pub arrival: Arrival,
    pub connections: u32,
    /// All that is on disk is compacted beside it.
    pub compacts: bool,
}

impl Group {
    pub fn workload(&self, mix: Mix, arrival: Arrival, connections: u32, duration_ns: u64) -> Workload {
        Workload {
            mix,
            // Reads are of whole partitions.
            keys: Keys::Uniform { from: 1, to: self.rows / u64::from(self.row.rows) },
            arrival,
            consistency: Consistency::One,
            operations: None,
            duration_ns: Some(duration_ns),
            row: self.row,
            connections_per_host: connections,
        }
    }

    /// Writes every row once.
    pub fn fill(&self) -> Workload {
        Workload {
            keys: Keys::Sequence { from: 1, to: self.rows },
            operations: Some(self.rows),
            duration_ns: None,
            ..self.workload(Mix::WRITE, Arrival::Closed { threads: 64 }, 8, 0)
        }
    }
}

const BOTH: Mix = Mix { write: 1, read: 1, ..Mix::NOTHING };
const MOSTLY_READ: Mix = Mix { write: 1, read: 4, ..Mix::NOTHING };

fn step(name: &str, mix: Mix, threads: u32, connections: u32) -> Step {
    Step { name: name.into(), mix, arrival: Arrival::Closed { threads }, connections, compacts: false }
}

fn paced(name: &str, mix: Mix, rate: f64) -> Step {
    let rate = hwprofiles::quantity::Quantity::new(rate);
    Step { name: name.into(), mix, arrival: Arrival::Open { threads: 256, rate }, connections: 8, compacts: false }
}

/// Reads take little then.
fn compaction() -> Step {
    Step { compacts: true, ..paced("compaction beside reads at 1,000/s", Mix::READ, 1e3) }
}

fn row(columns: u32, column_bytes: u32) -> Row {
    Row { columns, column_bytes, rows: 1 }
}

/// `data` is how much of the full amount of rows there is.
pub fn groups(data: f64) -> Vec<Group> {
    let rows = |full: f64| ((full * data) as u64).max(1_000);
    let in_memory = |name: &str, row, full, steps| Group {
        name: name.into(),
        row,
        compression: None,
        memtable_mib: 2_048,
        cache_mib: 512,
        durable: false,
        rows: rows(full),
        settled: false,
        steps,
    };
    // The smallest cache that a node takes: next to nothing is found in it.
    let on_disk = |name: &str, row, compression, full, steps| Group {
        name: name.into(),
        row,
        compression,
        memtable_mib: 2_048,
        cache_mib: 1,
        durable: false,
        rows: rows(full),
        settled: true,
        steps,
    };
    let cached = |name: &str, row, full, steps| Group { cache_mib: 1_024, ..on_disk(name, row, None, full, steps) };
    let flushing = |name: &str, row, compression, full, steps| Group {
        name: name.into(),
        row,
        compression,
        memtable_mib: 24,
        cache_mib: 64,
        durable: false,
        rows: rows(full),
        settled: false,
        steps,
    };
    vec![
        in_memory(
            "memory, 5 x 34 B",
            Row::STRESS_DEFAULT,
            200e3,
            vec![
                step("write, 64 threads", Mix::WRITE, 64, 8),
                step("write, 8 threads", Mix::WRITE, 8, 8),
                step("write, 256 threads", Mix::WRITE, 256, 8),
                step("write, 64 threads on 1 connection", Mix::WRITE, 64, 1),
                step("write, 64 threads on 32 connections", Mix::WRITE, 64, 32),
                step("read, 64 threads", Mix::READ, 64, 8),
                step("read, 8 threads", Mix::READ, 8, 8),
                step("read, 256 threads", Mix::READ, 256, 8),
                step("read, 64 threads on 1 connection", Mix::READ, 64, 1),
                step("read, 64 threads on 32 connections", Mix::READ, 64, 32),
                step("both, 64 threads", BOTH, 64, 8),
                step("mostly read, 128 threads", MOSTLY_READ, 128, 16),
                paced("write at 10,000/s", Mix::WRITE, 10e3),
                paced("read at 10,000/s", Mix::READ, 10e3),
                paced("both at 40,000/s", BOTH, 40e3),
            ],
        ),
        // Among few, and among many.
        in_memory(
            "memory, 20,000 of 5 x 34 B",
            Row::STRESS_DEFAULT,
            20e3,
            vec![step("read, 64 threads", Mix::READ, 64, 8)],
        ),
        in_memory(
            "memory, 1.5 million of 5 x 34 B",
            Row::STRESS_DEFAULT,
            1.5e6,
            vec![step("write, 64 threads", Mix::WRITE, 64, 8), step("read, 64 threads", Mix::READ, 64, 8)],
        ),
        in_memory(
            "memory, 1 x 100 B",
            row(1, 100),
            200e3,
            vec![step("write, 64 threads", Mix::WRITE, 64, 8), step("read, 64 threads", Mix::READ, 64, 8)],
        ),
        in_memory(
            "memory, 24 x 16 B",
            row(24, 16),
            200e3,
            vec![step("write, 64 threads", Mix::WRITE, 64, 8), step("read, 64 threads", Mix::READ, 64, 8)],
        ),
        in_memory(
            "memory, 1 x 1 KiB",
            row(1, 1 << 10),
            100e3,
            vec![
                step("write, 64 threads", Mix::WRITE, 64, 8),
                step("read, 64 threads", Mix::READ, 64, 8),
                step("both, 32 threads", BOTH, 32, 8),
            ],
        ),
        in_memory(
            "memory, 1 x 8 KiB",
            row(1, 8 << 10),
            20e3,
            vec![step("write, 32 threads", Mix::WRITE, 32, 8), step("read, 64 threads", Mix::READ, 64, 8)],
        ),
        Group {
            durable: true,
            ..in_memory(
                "durable, 5 x 34 B",
                Row::STRESS_DEFAULT,
                50e3,
                vec![step("write, 64 threads", Mix::WRITE, 64, 8), step("write, 4 threads", Mix::WRITE, 4, 4)],
            )
        },
        cached("row cache, 5 x 34 B", Row::STRESS_DEFAULT, 50e3, vec![step("read, 64 threads", Mix::READ, 64, 8)]),
        cached("row cache, 1 x 100 B", row(1, 100), 1e6, vec![step("read, 64 threads", Mix::READ, 64, 8)]),
        // As large rows lie in memory: where no cache of the processor holds them.
        cached("row cache, 1 x 8 KiB", row(1, 8 << 10), 30e3, vec![step("read, 64 threads", Mix::READ, 64, 8)]),
        cached(
            "row cache, 4 rows of 1 x 2 KiB",
            Row { rows: 4, ..row(1, 2 << 10) },
            100e3,
            vec![step("read, 32 threads", Mix::READ, 32, 8)],
        ),
        cached(
            "row cache, 10 rows of 1 x 400 B",
            Row { rows: 10, ..row(1, 400) },
            400e3,
            vec![step("read, 16 threads", Mix::READ, 16, 8)],
        ),
        cached(
            "row cache, 40 rows of 1 x 600 B",
            Row { rows: 40, ..row(1, 600) },
            400e3,
            vec![step("read, 16 threads", Mix::READ, 16, 8)],
        ),
        // In pieces, as the one before, and in few rows.
        cached(
            "row cache, 6 rows of 1 x 3 KiB",
            Row { rows: 6, ..row(1, 3 << 10) },
            60e3,
            vec![step("read, 16 threads", Mix::READ, 16, 8)],
        ),
        on_disk(
            "SSTables, 5 x 34 B",
            Row::STRESS_DEFAULT,
            None,
            400e3,
            vec![
                step("read, 64 threads", Mix::READ, 64, 8),
                step("read, 16 threads", Mix::READ, 16, 8),
                step("mostly read, 64 threads", MOSTLY_READ, 64, 8),
                compaction(),
            ],
        ),
        on_disk(
            "SSTables of LZ4, 5 x 34 B",
            Row::STRESS_DEFAULT,
            Some("LZ4Compressor"),
            400e3,
            vec![step("read, 64 threads", Mix::READ, 64, 8), step("read, 16 threads", Mix::READ, 16, 8)],
        ),
        on_disk(
            "SSTables of LZ4, 1 x 4 KiB",
            row(1, 4 << 10),
            Some("LZ4Compressor"),
            50e3,
            vec![step("read, 64 threads", Mix::READ, 64, 8), compaction()],
        ),
        on_disk(
            "SSTables, 1 x 8 KiB",
            row(1, 8 << 10),
            None,
            40e3,
            vec![step("read, 16 threads", Mix::READ, 16, 8), compaction()],
        ),
        on_disk(
            "SSTables, 5 x 1 KiB",
            row(5, 1 << 10),
            None,
            60e3,
            vec![step("read, 12 threads", Mix::READ, 12, 8), compaction()],
        ),
        flushing(
            "flushes, 5 x 34 B",
            Row::STRESS_DEFAULT,
            None,
            300e3,
            vec![step("write, 64 threads", Mix::WRITE, 64, 8), step("both, 64 threads", BOTH, 64, 8), compaction()],
        ),
        flushing(
            "flushes, 1 x 60 B",
            row(1, 60),
            None,
            400e3,
            vec![step("write, 64 threads", Mix::WRITE, 64, 8), compaction()],
        ),
        flushing("flushes, 1 x 8 KiB", row(1, 8 << 10), None, 10e3, vec![step("write, 32 threads", Mix::WRITE, 32, 8)]),
        flushing(
            "flushes of LZ4, 1 x 1 KiB",
            row(1, 1 << 10),
            Some("LZ4Compressor"),
            100e3,
            vec![step("write, 64 threads", Mix::WRITE, 64, 8), step("both, 64 threads", BOTH, 64, 8), compaction()],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixes_are_unlike() {
        let groups = groups(1.0);
        let steps: usize = groups.iter().map(|group| group.steps.len()).sum();
        assert!((25..60).contains(&steps), "{steps}");
        let sizes: Vec<u32> = groups.iter().map(|group| group.row.columns * group.row.column_bytes).collect();
        assert!(sizes.iter().min() <= Some(&170) && sizes.iter().max() >= Some(&8_000), "{sizes:?}");
        assert!(groups.iter().any(|g| g.compression.is_some()) && groups.iter().any(|g| g.memtable_mib < 100));
        assert!(groups.iter().flat_map(|group| &group.steps).filter(|step| step.compacts).count() >= 5);
    }
}
