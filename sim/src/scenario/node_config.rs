//! How a run's servers are configured, and what its scale leaves of their memtables.

use std::time::Duration;

use hwprofiles::CommitlogSync;
use scenarios::model::Quiesce;
use scenarios::{Arrival, PhasePlan, Row, Run, Workload};
use server::NodeConfig;

use crate::cluster::{self, address};

/// What all nodes have in common, real ones too; the cluster gives addresses and folders.
pub fn node_config(run: &Run) -> NodeConfig {
    let memory = run.memory();
    let mut config = NodeConfig::single(address(0), cluster::DATA_DIR);
    config.cluster_name = run.scenario.clone();
    if let Some(flush_at) = run.system.memory.as_ref().and_then(|memory| memory.flush_at.as_ref()) {
        config.memtable_cleanup_threshold = flush_at.f64();
    }
    let memtables = memory.memtable.max(1);
    config.memtable_bytes = memtables + if run.scale.is_full() { 0 } else { in_flight_bytes(run) };
    config.memtable_cleanup_threshold *= memtables as f64 / config.memtable_bytes as f64;
    config.cache_bytes = memory.row_cache;
    if let Some(system) = &run.system.memory {
        config.index_cache_fraction = run.index_cache_fraction();
        // What rows have is told in the engine's bytes; what they are held against is not.
        config.backlog_memory_bytes = system.overhead.as_ref().map(|_| memory.engine);
    }
    config.compaction_static_shares = run.system.shares.compaction.as_ref().map(|shares| shares.u64() as u32);
    config.flush_static_shares = run.system.shares.flush.as_ref().map(|shares| shares.u64() as u32);
    config.reads_every_place = run.system.reads_every_place;
    config.read_repair_chance = run.system.read_repair_chance.as_ref().map_or(0.0, |chance| chance.f64());
    // Half of all that memtables may have, as what is being flushed may be as much again.
    config.flush_dirty_bytes = run.system.flush_follows_dirty.then_some(memtables / 2);
    config.backlog_counts_all = run.system.backlog_counts_all;
    config.backlog_every = config.backlog_every.mul_f64(run.scale.data.f64()).max(BACKLOG_EVERY_MIN);
    config.ignore_msb = run.scale.ignore_msb(config.ignore_msb);
    if run.replication_factor == run.nodes {
        // Every node has all the data: fewer tokens leave it as even as it is, and scans visit as few nodes as at full size.
        config.nodes[0].num_tokens = run.scale.amount(u64::from(config.nodes[0].num_tokens)).max(8) as u32;
    }
    config.compaction_small_bytes = run.scale.amount(config.compaction_small_bytes);
    if let Some(commitlog) = &run.system.commitlog {
        config.sync = match &commitlog.sync {
            CommitlogSync::Batch => storage::SyncMode::Batch,
            CommitlogSync::Periodic(every) => storage::SyncMode::Periodic { every: Duration::from_nanos(every.u64()) },
        };
        config.commitlog_segment_bytes = run.scale.amount(commitlog.segment.u64()).max(SEGMENT_MIN_BYTES);
        config.commitlog_bytes =
            run.scale.amount(commitlog.total.u64()).max(4 * SEGMENT_MIN_BYTES * u64::from(run.shards().0));
    }
    let throttle = run.system.throttles.compaction.as_ref();
    let window = run.system.coalescing_window.as_ref();
    config.coalescing_window = window.map(|window| Duration::from_nanos(window.u64()));
    config.compaction_mb_per_s = throttle.map(|limit| limit.f64() / 1e6);
    config
}

/// Floors of what is scaled. A new segment takes a number of disk operations whatever its size, at latencies that are
/// not scaled: below this size a scaled run would wait for those alone.
const SEGMENT_MIN_BYTES: u64 = 1 << 20;
/// Often enough: flushes of a shard are some ten times as far apart in the smallest runs.
const BACKLOG_EVERY_MIN: Duration = Duration::from_millis(5);

/// What clients have under way is not scaled, and next to nothing of a full-size memtable. Scaled ones are flushed at
/// their scaled size, and have room for it besides.
fn in_flight_bytes(run: &Run) -> u64 {
    let most = run.phases.iter().map(|phase| threads(phase, |_| true)).max().unwrap_or(0);
    bytes_of_each_node(run, most)
}

/// Of all loaders, in workloads that `count`.
fn threads(phase: &PhasePlan, count: impl Fn(&Workload) -> bool) -> u64 {
    let counted = phase.workloads.iter().filter(|load| count(load));
    counted.map(|load| u64::from(load.arrival.threads())).sum()
}

/// Whether all of its threads have a write under way, or most of them.
fn writes_at_a_time(load: &Workload) -> bool {
    matches!(load.arrival, Arrival::Closed { .. }) && load.mix.has_sides()[0]
}

fn bytes_of_each_node(run: &Run, rows: u64) -> u64 {
    let row = Row { rows: 1, ..run.table().row };
    rows * u64::from(run.replication_factor) * row.memory_bytes() / u64::from(run.nodes)
}

/// What at this scale is not as at full size, and which scale would do: a sentence for each.
pub fn scale_notes(run: &Run) -> Vec<String> {
    if run.scale.is_full() {
        return Vec::new();
    }
    let notes = small_memtables(run).into_iter().chain(long_phases(run));
    notes.map(|note| format!("{} on {}: {note}", run.scenario, run.system.name)).collect()
}

/// Where memtables hold no more than what clients write at a time.
fn small_memtables(run: &Run) -> Option<String> {
    let writers = |phase: &PhasePlan| threads(phase, writes_at_a_time);
    let phase = run.phases.iter().max_by_key(|phase| writers(phase))?;
    let config = node_config(run);
    let memtable = config.memtable_bytes as f64 * config.memtable_cleanup_threshold;
    let under_way = bytes_of_each_node(run, writers(phase)) as f64;
    (under_way > memtable).then(|| {
        let divisor = (memtable / under_way / run.scale.data.f64()).max(1.0) as u64;
        format!(
            "in {} a node's clients write {:.1} MB at a time, and memtables are flushed at {:.1} MB: its latencies are not \
             those of full size. --scale 1/{divisor} or larger keeps them apart",
            phase.name,
            under_way / 1e6,
            memtable / 1e6,
        )
    })
}

/// By so much more than its scale says a phase may last: what is compacted within it is then much the same.
const LONGER_MAX: f64 = 1.2;

/// Where the floors of a phase's duration let more be written or compacted in it than its scale says.
fn long_phases(run: &Run) -> Option<String> {
    let writes =
        |phase: &PhasePlan| phase.workloads.iter().chain(&phase.background).any(|load| load.mix.has_sides()[0]);
    // What goes on meanwhile ends its phase.
    let compacts =
        |phase: &&PhasePlan| phase.meanwhile.is_none() && (writes(phase) || phase.quiesce != Quiesce::Before);
    let timed = run.phases.iter().filter(compacts).filter_map(|phase| Some((phase, phase.time_part?)));
    let (phase, part) = timed.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let longer = part / run.scale.data.f64();
    (longer > LONGER_MAX).then(|| {
        format!(
            "{} lasts {longer:.1} times as long as its scale says, as its `window` and `warmup` want: what is written and \
             compacted in it is not as at full size. --scale 1/{} or larger keeps it so",
            phase.name,
            (1.0 / part) as u64,
        )
    })
}

#[cfg(test)]
mod tests {
    use hwprofiles::{Profiles, quantity::Quantity};
    use scenarios::load;

    use super::*;

    fn notes(scenario: &str, system: &str, data: &str) -> Vec<String> {
        let data = Quantity::parse(data).unwrap();
        let rescale = |scale: &mut scenarios::Scale| (scale.data, scale.least) = (data, None);
        let document = load::find(scenario).unwrap();
        let runs = load::read_at(&document, &Profiles::embedded(), rescale).unwrap().runs;
        scale_notes(runs.iter().find(|run| run.system.name == system).unwrap())
    }

    #[test]
    fn memtables_smaller_than_what_clients_write_at_a_time_are_noted() {
        let notes = |system, data| notes("lowend/read-small", system, data);
        let none = Vec::<String>::new();
        assert_eq!(notes("scylla-1.6.1", "1/400"), none);
        assert_eq!(notes("cassandra-3.0.9", "1/100"), none);
        assert_eq!(notes("cassandra-3.0.9", "1"), none);
        for (system, data) in [("scylla-1.6.1", "1/4000"), ("cassandra-3.0.9", "1/1000")] {
            let [note] = &notes(system, data)[..] else { panic!("one note") };
            assert!(note.contains("in populate a node's clients write") && note.contains("--scale 1/"), "{note}");
        }
    }

    #[test]
    fn phases_that_a_floor_lets_write_more_are_noted() {
        let notes = |data| notes("lowend/writes-scylla", "scylla-1.6.1", data);
        assert_eq!(notes("1/200"), Vec::<String>::new());
        let note = notes("1/5000").pop().unwrap();
        assert!(note.contains("write-30k lasts 2.4 times as long") && note.contains("--scale 1/2093 or"), "{note}");
    }
}
