//! Changing the number of shards: the SSTables of the old ones are split between the new ones, before any opens.
//!
//! 1. Each old shard's storage is opened with the old number, which replays its commit log, flushed and closed. From
//!    then on everything is in SSTables that the old manifests name.
//! 2. Each of these is read once and written into one SSTable for each new shard that owns something of it, under
//!    generations that were never used; then come the new shards' manifests, whose names have their number.
//! 3. The file `resharded-to-<n>` in the data folder is the decision. Before it the old layout holds, and what was
//!    written is a leftover; after it the new one does.
//! 4. The old commit logs, manifests, SSTables and marks are removed, the new marks made, the decision removed last.
//!
//! A crash anywhere leaves either layout whole: steps 1 to 3 start again, step 4 goes on. It needs the disk space of all
//! SSTables once more.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use reactor::fs;
use types::{TableDef, Token};

use crate::cache::BlockCache;
use crate::commitlog;
use crate::manifest::Manifest;
use crate::sstable::{Sequential, Sstable, Standing, Writer, parse_name, remove_files};
use crate::storage::Storage;
use crate::table::Table;
use crate::{Config, Error, folders};

const DECISION: &str = "resharded-to-";

/// What the data folder says of its layout.
#[derive(Debug, Default, PartialEq, Eq)]
struct Layout {
    /// Of the marks.
    shards: Option<u32>,
    /// A change to that many was decided and is not finished.
    decided: Option<u32>,
}

fn layout_of(names: &[String]) -> Layout {
    let mut layout = Layout::default();
    for name in names {
        if let Some(count) = name.strip_prefix(DECISION).and_then(|count| count.parse().ok()) {
            layout.decided = Some(count);
        } else if let Some(count) = folders::mark_count(name) {
            layout.shards = Some(count);
        }
    }
    layout
}

async fn layout(config: &Config) -> Result<Layout, Error> {
    let dir = &config.data_dir;
    Ok(layout_of(&fs::read_dir(dir).await.map_err(Error::io(dir, "list"))?))
}

/// Makes the data fit `config.shards`; for one shard, before [`Storage::open`] of any. `owner` says which of so many
/// shards a token belongs to. Says whether there was anything to do.
pub async fn reshard(
    config: &Config,
    tables: &[Arc<TableDef>],
    owner: impl Fn(Token, u32) -> u32,
) -> Result<bool, Error> {
    folders::create(&config.data_dir).await?;
    folders::create(&config.commitlog_dir).await?;
    let mut found = layout(config).await?;
    if let Some(decided) = found.decided {
        finish(config, decided).await?;
        found = layout(config).await?;
    }
    let Some(old) = found.shards.filter(|old| *old != config.shards) else { return Ok(found.decided.is_some()) };
    tracing::info!(from = old, to = config.shards, "splitting the data between another number of shards");
    for shard in 0..old {
        let config = Config { shard, shards: old, auto_compaction: false, ..config.clone() };
        let storage = Storage::open(config, tables.to_vec()).await?;
        storage.flush(None).await?;
        storage.close().await?;
    }
    for def in tables {
        split_table(config, def, old, &owner).await?;
    }
    let decision = format!("{DECISION}{}", config.shards);
    let dir = &config.data_dir;
    fs::replace(dir, &decision, b"").await.map_err(Error::io(dir, "decide on the number of shards"))?;
    finish(config, config.shards).await?;
    Ok(true)
}

/// Resolves when the data fits `config.shards`: for the shards that do not call [`reshard`].
pub async fn wait_for_layout(config: &Config) -> Result<(), Error> {
    /// Short against any change, long against the look.
    const LOOK: Duration = Duration::from_millis(20);
    folders::create(&config.data_dir).await?;
    loop {
        let found = layout(config).await?;
        if found.decided.is_none() && found.shards.is_none_or(|shards| shards == config.shards) {
            return Ok(());
        }
        reactor::time::sleep(LOOK).await;
    }
}

/// Steps 2: one table.
async fn split_table(
    config: &Config,
    def: &Arc<TableDef>,
    old: u32,
    owner: &impl Fn(Token, u32) -> u32,
) -> Result<(), Error> {
    let folder = Table::folder_of(def, &config.data_dir);
    let shards = config.shards;
    // Of an attempt that a crash has ended; its SSTables are gone as leftovers.
    for shard in 0..shards {
        Manifest::remove(&folder, shard, shards).await?;
    }
    let names = fs::read_dir(&folder).await.map_err(Error::io(&folder, "list"))?;
    let used = names.iter().filter_map(|name| parse_name(name)).max().unwrap_or(0);
    let mut manifests: Vec<Manifest> = (0..shards).map(|_| Manifest::default()).collect();
    manifests.iter_mut().for_each(|manifest| manifest.next = used / u64::from(shards) + 1);
    let cache = Rc::new(BlockCache::new(1 << 20, 1.0));
    for shard in 0..old {
        for (generation, standing) in Manifest::load(&folder, shard, old).await?.sstables {
            let sstable = Sstable::open(&folder, generation, def.clone(), &cache).await?.standing(standing);
            split(sstable, &folder, def, shards, owner, &mut manifests).await?;
        }
    }
    for (shard, manifest) in (0..).zip(&manifests) {
        manifest.store(&folder, shard, shards).await?;
    }
    Ok(())
}

async fn split(
    sstable: Rc<Sstable>,
    folder: &str,
    def: &Arc<TableDef>,
    shards: u32,
    owner: &impl Fn(Token, u32) -> u32,
    manifests: &mut [Manifest],
) -> Result<(), Error> {
    let (stats, standing) = (sstable.encoding_stats(), sstable.standing);
    let keys = sstable.figures.partitions / u64::from(shards) + 1;
    let mut reader = Sequential::remaining(sstable).await?;
    let mut writers: Vec<Option<(Writer, u64)>> = (0..shards).map(|_| None).collect();
    while let Some((token, key)) = reader.next_key().await? {
        let shard = owner(token, shards) as usize;
        if writers[shard].is_none() {
            let generation = manifests[shard].next * u64::from(shards) + shard as u64;
            manifests[shard].next += 1;
            let writer = Writer::create(folder, generation, def.clone(), stats, keys).await?.level(standing.level);
            writers[shard] = Some((writer, generation));
        }
        let Some((writer, _)) = &mut writers[shard] else { continue };
        reader.copy_partition(token, &key, writer).await?;
        reactor::time::yield_now().await;
    }
    for (writer, manifest) in writers.into_iter().zip(manifests) {
        let Some((writer, generation)) = writer else { continue };
        writer.finish().await?;
        manifest.sstables.insert(generation, Standing { run: generation, from: None, ..standing });
    }
    Ok(())
}

/// Step 4. Everything in it may have been done before.
async fn finish(config: &Config, shards: u32) -> Result<(), Error> {
    let dir = &config.data_dir;
    let names = fs::read_dir(dir).await.map_err(Error::io(dir, "list"))?;
    commitlog::remove_all(&config.commitlog_dir).await?;
    for keyspace in names.iter().filter(|name| !name.contains('.') && folders::mark_count(name).is_none()) {
        let keyspace = format!("{dir}/{keyspace}");
        // Not a folder: none of ours.
        let Ok(tables) = fs::read_dir(&keyspace).await else { continue };
        for table in tables {
            let folder = format!("{keyspace}/{table}");
            if let Ok(files) = fs::read_dir(&folder).await {
                forget_old(&folder, &files, shards).await?;
            }
        }
    }
    for name in names.iter().filter(|name| folders::mark_count(name).is_some_and(|count| count != shards)) {
        let path = format!("{dir}/{name}");
        fs::remove(&path).await.map_err(Error::io(&path, "remove"))?;
    }
    for shard in 0..shards {
        let mark = folders::mark(shard, shards);
        fs::replace(dir, &mark, b"").await.map_err(Error::io(dir, "mark the number of shards"))?;
    }
    let path = format!("{dir}/{DECISION}{shards}");
    fs::remove(&path).await.map_err(Error::io(&path, "remove"))?;
    fs::sync_dir(dir).await.map_err(Error::io(dir, "sync folder"))
}

/// Removes, of one table, what the new shards' manifests do not name, and the old shards' manifests.
async fn forget_old(folder: &str, files: &[String], shards: u32) -> Result<(), Error> {
    let is_new = |name: &&String| Manifest::is_named(name, shards);
    if !files.iter().any(|name| is_new(&name)) {
        // A table that was dropped meanwhile, or something else.
        return Ok(());
    }
    let mut live = std::collections::BTreeSet::new();
    for shard in 0..shards {
        live.extend(Manifest::load(folder, shard, shards).await?.sstables.into_keys());
    }
    let mut generations: Vec<u64> = files.iter().filter_map(|name| parse_name(name)).collect();
    generations.sort_unstable();
    generations.dedup();
    for generation in generations.into_iter().filter(|generation| !live.contains(generation)) {
        remove_files(folder, generation).await?;
    }
    for name in files.iter().filter(|name| name.ends_with(".manifest") && !is_new(name)) {
        let path = format!("{folder}/{name}");
        fs::remove(&path).await.map_err(Error::io(&path, "remove"))?;
    }
    fs::sync_dir(folder).await.map_err(Error::io(folder, "sync folder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts() {
        let of = |names: &[&str]| layout_of(&names.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        assert_eq!(of(&["ks", "schema"]), Layout::default());
        assert_eq!(of(&["ks", "shard-1-of-4"]), Layout { shards: Some(4), decided: None });
        assert_eq!(of(&["resharded-to-2", "shard-1-of-4"]), Layout { shards: Some(4), decided: Some(2) });
    }
}
