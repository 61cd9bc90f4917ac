//! Folders: creating them durably, and the mark of how many shards share the data.

use reactor::fs;

use crate::{Config, Error};

/// Creates a folder and those above it, durably.
pub(crate) async fn create(path: &str) -> Result<(), Error> {
    let mut made = String::new();
    for part in path.split_inclusive('/') {
        let parent = made.clone();
        made.push_str(part);
        let folder = made.trim_end_matches('/');
        if folder.is_empty() || folder == "." || folder == ".." || folder.ends_with("/..") {
            continue;
        }
        fs::create_dir(folder).await.map_err(Error::io(folder, "create folder"))?;
        let parent = match parent.trim_end_matches('/') {
            "" if path.starts_with('/') => "/",
            "" => ".",
            parent => parent,
        };
        fs::sync_dir(parent).await.map_err(Error::io(parent, "sync folder"))?;
    }
    Ok(())
}

/// The mark that a shard leaves in the data folder.
pub(crate) fn mark(shard: u32, shards: u32) -> String {
    format!("shard-{shard}-of-{shards}")
}

/// How many shards a mark names; `None` when it is something else.
pub(crate) fn mark_count(name: &str) -> Option<u32> {
    let (_, count) = name.strip_prefix("shard-")?.split_once("-of-")?;
    count.parse().ok()
}

/// Refuses data that was written with another number of shards: each partition's shard follows from that number.
pub(crate) async fn check_shards(config: &Config) -> Result<(), Error> {
    let dir = &config.data_dir;
    let names = fs::read_dir(dir).await.map_err(Error::io(dir, "list"))?;
    let own = mark(config.shard, config.shards);
    for name in &names {
        if let Some(found) = mark_count(name).filter(|found| *found != config.shards) {
            return Err(Error::ShardCount { path: dir.clone(), found, wanted: config.shards });
        }
    }
    if names.contains(&own) {
        return Ok(());
    }
    fs::replace(dir, &own, b"").await.map_err(Error::io(dir, "mark the number of shards"))
}
