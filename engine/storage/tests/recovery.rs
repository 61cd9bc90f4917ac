//! What was acknowledged is there after a restart, over io_uring and real files.

#![allow(clippy::unwrap_used)]

mod common;

use common::{config, read_all, table, update};
use std::path::{Path, PathBuf};
use std::time::Duration;

use storage::{Config, Error, Storage, SyncMode};

#[test]
fn acknowledged_writes_are_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), SyncMode::Batch);
    reactor::uring::block_on(async move {
        let def = table();
        for round in 0..3 {
            let storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
            let before = read_all(&storage, &def).await;
            assert_eq!(before.len(), round * 100, "round {round}");
            for n in 0..100 {
                let key = format!("key-{round}-{n}");
                storage.apply(&update(&def, &key, n, 1, &key)).await.unwrap();
            }
            // No close: as after a kill, save for what the kernel still does.
            if round == 1 {
                storage.close().await.unwrap();
            }
        }
    })
    .unwrap();
}

#[test]
fn concurrent_batch_writes_share_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), SyncMode::Batch);
    reactor::uring::block_on(async move {
        let def = table();
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        let tasks: Vec<_> = (0..500)
            .map(|n| {
                let (storage, def) = (storage.clone(), def.clone());
                reactor::spawn(reactor::Group::Statement, "write", async move {
                    storage.apply(&update(&def, &format!("k{n}"), 0, 1, "v")).await.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        let stats = storage.stats();
        assert_eq!(stats.commitlog.appended_records, 500);
        assert!(stats.commitlog.syncs <= 20, "{} syncs", stats.commitlog.syncs);
        assert_eq!(read_all(&storage, &def).await.len(), 500);
        storage.close().await.unwrap();
    })
    .unwrap();
}

/// Each write alone in a chunk of its own, then no close.
async fn write_one_by_one(config: Config, writes: i32) {
    let def = table();
    let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
    for n in 0..writes {
        storage.apply(&update(&def, &format!("key-{n}"), n, 1, "value")).await.unwrap();
    }
}

/// The first segment: the one that was written to.
fn segment(dir: &Path) -> PathBuf {
    let names = std::fs::read_dir(dir.join("commitlog")).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|ending| ending == "log")).min().unwrap()
}

fn damage(path: &Path, offset: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

async fn keys_after_opening(config: Config) -> Result<usize, Error> {
    let def = table();
    let storage = Storage::open(config, vec![def.clone()]).await?;
    let keys = read_all(&storage, &def).await.len();
    storage.close().await?;
    Ok(keys)
}

#[test]
fn damage_to_what_was_acknowledged_is_an_error_and_a_torn_end_is_none() {
    // Chunks lie 4 KiB apart here; each that follows says that those before were durable.
    for (chunk, byte) in [(0, 0), (3, 30), (3, 60), (7, 10)] {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path(), SyncMode::Batch);
        let folder = dir.path().to_path_buf();
        reactor::uring::block_on(async move {
            write_one_by_one(config.clone(), 10).await;
            let path = segment(&folder);
            damage(&path, chunk * 4096 + byte);
            match keys_after_opening(config.clone()).await {
                Err(Error::Corrupt { path: at, offset, .. }) => {
                    assert_eq!((Path::new(&at), offset), (path.as_path(), chunk as u64 * 4096));
                }
                other => panic!("chunk {chunk}: {other:?}"),
            }
            let ignoring = Config { ignore_commitlog_damage: true, ..config };
            assert_eq!(keys_after_opening(ignoring).await.unwrap(), chunk);
        })
        .unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), SyncMode::Batch);
    let folder = dir.path().to_path_buf();
    reactor::uring::block_on(async move {
        write_one_by_one(config.clone(), 10).await;
        damage(&segment(&folder), 9 * 4096 + 50);
        assert_eq!(keys_after_opening(config.clone()).await.unwrap(), 9, "nothing says that the last one was durable");
        // A later run's records do not make the old end a damage.
        write_one_by_one(config.clone(), 10).await;
        assert_eq!(keys_after_opening(config).await.unwrap(), 10);
    })
    .unwrap();
}

#[test]
fn a_damaged_end_of_a_segment_is_known_from_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { commitlog_segment_bytes: 64 << 10, ..config(dir.path(), SyncMode::Batch) };
    let folder = dir.path().to_path_buf();
    reactor::uring::block_on(async move {
        write_one_by_one(config.clone(), 20).await;
        damage(&segment(&folder), 15 * 4096);
        let opened = keys_after_opening(config).await;
        assert!(matches!(opened, Err(Error::Corrupt { offset: 61_440, .. })), "{opened:?}");
    })
    .unwrap();
}

#[test]
fn writes_of_a_window_share_a_sync() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), SyncMode::Group { window: Duration::from_millis(20) });
    reactor::uring::block_on(async move {
        let def = table();
        let storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
        let tasks: Vec<_> = (0..40)
            .map(|n| {
                let (storage, def) = (storage.clone(), def.clone());
                reactor::spawn(reactor::Group::Statement, "write", async move {
                    // Spread over some milliseconds: in batch mode nearly each would have a sync of its own.
                    reactor::time::sleep(Duration::from_micros(n * 100)).await;
                    storage.apply(&update(&def, &format!("k{n}"), 0, 1, "v")).await.unwrap();
                    storage.stats().commitlog.syncs
                })
            })
            .collect();
        for task in tasks {
            assert!(task.await > 0, "acknowledged before any sync");
        }
        assert!(storage.stats().commitlog.syncs <= 20, "{} syncs", storage.stats().commitlog.syncs);
        // No close: what was acknowledged is in the files.
        drop(storage);
        assert_eq!(keys_after_opening(config).await.unwrap(), 40);
    })
    .unwrap();
}
