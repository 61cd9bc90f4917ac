//! Another number of shards: all that was acknowledged is there, each partition with its new owner, wherever a crash
//! cut the change.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{PERIODIC, config, read_all, table, update};
use storage::{Config, Storage};
use types::{TableDef, Token, shard_of};

fn owner(token: Token, shards: u32) -> u32 {
    shard_of(token, shards, 12)
}

fn of_shard(dir: &Path, shard: u32, shards: u32) -> Config {
    Config { shard, shards, auto_compaction: false, ..config(dir, PERIODIC) }
}

/// Rows of 300 keys: some in SSTables, some in the commit logs only.
async fn fill(dir: &Path, def: &std::sync::Arc<TableDef>, shards: u32) {
    for shard in 0..shards {
        let storage = Storage::open(of_shard(dir, shard, shards), vec![def.clone()]).await.unwrap();
        for round in 0..3 {
            for n in 0..300 {
                let key = format!("k{n}");
                if owner(Token::of_key(key.as_bytes()), shards) == shard {
                    storage.apply(&update(def, &key, round, 1, &key)).await.unwrap();
                }
            }
            if round < 2 {
                storage.flush(None).await.unwrap();
            }
        }
        storage.close().await.unwrap();
    }
}

/// What all shards have; each only what it owns.
async fn check(dir: &Path, def: &std::sync::Arc<TableDef>, shards: u32) {
    let mut keys = BTreeSet::new();
    for shard in 0..shards {
        let config = of_shard(dir, shard, shards);
        storage::wait_for_layout(&config).await.unwrap();
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        for partition in read_all(&storage, def).await {
            assert_eq!(owner(Token::of_key(&partition.key), shards), shard);
            assert_eq!(partition.rows.len(), 3);
            assert!(keys.insert(partition.key.to_vec()));
        }
        storage.verify(def.id).await.unwrap();
        storage.close().await.unwrap();
    }
    assert_eq!(keys.len(), 300);
}

/// Over what is there.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn the_number_of_shards_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_path_buf();
    reactor::uring::block_on(async move {
        let def = table();
        fill(&path, &def, 3).await;
        check(&path, &def, 3).await;
        assert!(!storage::reshard(&of_shard(&path, 0, 3), std::slice::from_ref(&def), owner).await.unwrap());
        for shards in [2, 5, 1] {
            let refused = Storage::open(of_shard(&path, 0, shards), vec![def.clone()]).await;
            assert!(matches!(refused, Err(storage::Error::ShardCount { .. })));
            assert!(storage::reshard(&of_shard(&path, 0, shards), std::slice::from_ref(&def), owner).await.unwrap());
            check(&path, &def, shards).await;
        }
    })
    .unwrap();
}

#[test]
fn a_change_that_was_cut_off_begins_again_or_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_path_buf();
    reactor::uring::block_on(async move {
        let def = table();
        let (before, after) = (path.join("before"), path.join("after"));
        fill(&before, &def, 3).await;
        copy(&before, &after);
        storage::reshard(&of_shard(&after, 0, 2), std::slice::from_ref(&def), owner).await.unwrap();

        // All was written, and not decided: the new files are leftovers.
        let undecided = path.join("undecided");
        copy(&before, &undecided);
        copy(&after.join("data/ks"), &undecided.join("data/ks"));
        check(&undecided, &def, 3).await;
        let again = path.join("again");
        copy(&before, &again);
        copy(&after.join("data/ks"), &again.join("data/ks"));
        storage::reshard(&of_shard(&again, 0, 2), std::slice::from_ref(&def), owner).await.unwrap();
        check(&again, &def, 2).await;

        // Decided, and nothing of the old removed yet.
        let decided = path.join("decided");
        copy(&before, &decided);
        copy(&after.join("data/ks"), &decided.join("data/ks"));
        std::fs::write(decided.join("data/resharded-to-2"), "").unwrap();
        storage::reshard(&of_shard(&decided, 0, 2), std::slice::from_ref(&def), owner).await.unwrap();
        check(&decided, &def, 2).await;
        // Decided, and everything done but the end of it; meanwhile another number is wanted.
        std::fs::write(decided.join("data/resharded-to-2"), "").unwrap();
        std::fs::remove_file(decided.join("data/shard-1-of-2")).unwrap();
        storage::reshard(&of_shard(&decided, 0, 4), std::slice::from_ref(&def), owner).await.unwrap();
        check(&decided, &def, 4).await;
    })
    .unwrap();
}
