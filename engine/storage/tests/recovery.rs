//! What was acknowledged is there after a restart, over io_uring and real files.

#![allow(clippy::unwrap_used)]

mod common;

use common::{config, read_all, table, update};
use storage::{Storage, SyncMode};

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
