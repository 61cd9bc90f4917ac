//! What the servers themselves count of a phase: latencies at replica and coordinator, SSTables a read, bytes on disk.

use std::collections::BTreeMap;
use std::rc::Rc;

use scenarios::{Metric, Resource};
use storage::{Histogram, TableStats};

use crate::{HostId, World};

/// Of one table, all shards of all servers together.
#[derive(Default)]
pub(super) struct Measures {
    table: TableStats,
    /// Of reads, at the coordinator.
    coordinated_us: Histogram,
}

impl Measures {
    pub fn take(world: &Rc<World>, servers: &[HostId], shards: usize, keyspace: &str) -> Self {
        let (mut all, mut coordinated_us) = (TableStats::default(), Histogram::default());
        for &host in servers {
            for shard in 0..shards {
                let reads = world.on_shard(host, shard, |_| server::read_latencies()).flatten();
                coordinated_us.merge(&reads.unwrap_or_default());
                let stats = world.on_shard(host, shard, |_| server::table_stats(keyspace, "standard1")).flatten();
                let Some(stats) = stats else { continue };
                all.read_us.merge(&stats.read_us);
                all.write_us.merge(&stats.write_us);
                all.sstables_per_read.iter_mut().zip(stats.sstables_per_read).for_each(|(sum, n)| *sum += n);
                all.disk_bytes += stats.disk_bytes;
            }
        }
        Self { table: all, coordinated_us }
    }

    pub fn disk_bytes(&self) -> u64 {
        self.table.disk_bytes
    }

    /// What was counted between `before` and now.
    pub fn since(&self, before: &Measures) -> BTreeMap<Metric, f64> {
        use Metric::*;
        let (reads, writes) =
            (self.table.read_us.since(&before.table.read_us), self.table.write_us.since(&before.table.write_us));
        let mut further = BTreeMap::new();
        if writes.count() > 0 {
            let at = [
                (LocalWriteLatencyP50, 0.5),
                (LocalWriteLatencyP75, 0.75),
                (LocalWriteLatencyP95, 0.95),
                (LocalWriteLatencyP98, 0.98),
                (LocalWriteLatencyP99, 0.99),
            ];
            further.extend(at.map(|(metric, part)| (metric, writes.percentile(part) as f64)));
        }
        if reads.count() == 0 {
            return further;
        }
        let at = [
            (LocalReadLatencyP50, 0.5),
            (LocalReadLatencyP75, 0.75),
            (LocalReadLatencyP95, 0.95),
            (LocalReadLatencyP98, 0.98),
            (LocalReadLatencyP99, 0.99),
        ];
        further.extend(at.map(|(metric, part)| (metric, reads.percentile(part) as f64)));
        let coordinated_us = self.coordinated_us.since(&before.coordinated_us);
        further.insert(ServerLatencyP99, coordinated_us.percentile(0.99) as f64 / 1e3);
        let mut sstables = TableStats::default();
        let counts = self.table.sstables_per_read.iter().zip(before.table.sstables_per_read);
        sstables.sstables_per_read.iter_mut().zip(counts).for_each(|(n, (now, before))| *n = now - before);
        let at = [
            (SstablesPerReadP50, 0.5),
            (SstablesPerReadP75, 0.75),
            (SstablesPerReadP95, 0.95),
            (SstablesPerReadP98, 0.98),
            (SstablesPerReadP99, 0.99),
            (SstablesPerReadMax, 1.0),
        ];
        further.extend(at.map(|(metric, part)| (metric, sstables.sstables_per_read_percentile(part) as f64)));
        further
    }
}

/// What follows from how much was used of the servers' resources.
pub(super) fn of_resources(resources: &[Resource]) -> impl Iterator<Item = (Metric, f64)> {
    let mean = |name: &str| resources.iter().find(|r| r.name == name).map(|r| r.utilisation_mean);
    let storage = mean("data disk IOPS").into_iter().chain(mean("data disk bandwidth")).reduce(f64::max);
    [(Metric::Cpu, mean("server CPU")), (Metric::StorageUsed, storage)]
        .into_iter()
        .filter_map(|(metric, value)| Some((metric, value?)))
}
