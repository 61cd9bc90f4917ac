//! Nodes small enough that memtables are flushed, tables compacted and segments used again, all within a run.

use std::net::Ipv4Addr;
use std::time::Duration;

use server::{NodeConfig, Timeouts};
use storage::SyncMode;

pub fn node(memtable_bytes: u64) -> NodeConfig {
    let mut config = NodeConfig::single(Ipv4Addr::LOCALHOST.into(), "/data");
    config.sync = SyncMode::Batch;
    config.commitlog_segment_bytes = 256 << 10;
    config.commitlog_bytes = 4 << 20;
    config.memtable_bytes = memtable_bytes;
    config.compaction_small_bytes = 16 << 10;
    config.cache_bytes = 256 << 10;
    let ms = Duration::from_millis;
    config.timeouts = Timeouts { read: ms(1000), write: ms(1000), schema: ms(2000), ..Timeouts::default() };
    config.nodes.iter_mut().for_each(|node| node.num_tokens = 16);
    config
}
