//! Operations on a table's SSTables, over io_uring and real files.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{PERIODIC, config, encode, read_all, row, scan_all, table, update};
use storage::{Config, DeletionTime, Error, Partition, ReadCommand, ScanCommand, Storage};
use types::{TableDef, Token};

fn manual(dir: &Path) -> Config {
    Config { auto_compaction: false, ..config(dir, PERIODIC) }
}

fn with_grace(gc_grace_seconds: u32) -> Arc<TableDef> {
    let mut def = (*table()).clone();
    def.options.gc_grace_seconds = gc_grace_seconds;
    Arc::new(def)
}

fn deletion(def: &TableDef, key: &str, timestamp: i64, local_s: u32) -> Vec<u8> {
    let deletion = Some(DeletionTime { timestamp, local_s });
    encode(def, Partition { deletion, ..Partition::new(key) })
}

async fn write(storage: &Storage, def: &TableDef, keys: std::ops::Range<i32>, timestamp: i64) {
    for n in keys {
        storage.apply(&update(def, &format!("k{n}"), n, timestamp, &"value".repeat(20))).await.unwrap();
    }
    storage.flush(Some(def.id)).await.unwrap();
}

/// Keys with something live, in token order.
async fn keys(storage: &Storage, def: &TableDef) -> Vec<String> {
    let mut keys = Vec::new();
    for mut partition in read_all(storage, def).await {
        partition.purge_shadowed(def);
        if partition.is_live(1) {
            keys.push(String::from_utf8(partition.key.to_vec()).unwrap());
        }
    }
    keys
}

fn folder_of(dir: &Path) -> PathBuf {
    std::fs::read_dir(dir.join("data/ks")).unwrap().next().unwrap().unwrap().path()
}

fn disk_bytes(storage: &Storage, def: &TableDef) -> u64 {
    storage.stats().tables[&def.id].disk_bytes
}

async fn sstables(storage: &Storage, def: &TableDef) -> u64 {
    storage.stats().tables[&def.id].sstables
}

#[test]
fn tombstones_go_when_nothing_elsewhere_needs_them() {
    let dir = tempfile::tempdir().unwrap();
    let config = manual(dir.path());
    reactor::uring::block_on(async move {
        let def = with_grace(0);
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        // Alone: the tombstone goes, and with it the SSTable.
        storage.apply(&deletion(&def, "a", 10, 1)).await.unwrap();
        storage.flush(None).await.unwrap();
        storage.compact(def.id).await.unwrap();
        assert_eq!(sstables(&storage, &def).await, 0);
        // Older data in a memtable: it stays, and shadows it after the flush.
        storage.apply(&deletion(&def, "a", 10, 1)).await.unwrap();
        storage.flush(None).await.unwrap();
        storage.apply(&update(&def, "a", 1, 5, "old")).await.unwrap();
        storage.compact(def.id).await.unwrap();
        assert_eq!(sstables(&storage, &def).await, 1);
        storage.flush(None).await.unwrap();
        assert_eq!(keys(&storage, &def).await, [] as [String; 0]);
        // Both together: both go.
        storage.compact(def.id).await.unwrap();
        assert_eq!(sstables(&storage, &def).await, 0);
        // Younger data in a memtable does not keep the tombstone.
        storage.apply(&deletion(&def, "a", 10, 1)).await.unwrap();
        storage.flush(None).await.unwrap();
        storage.apply(&update(&def, "a", 1, 50, "new")).await.unwrap();
        storage.compact(def.id).await.unwrap();
        assert_eq!(sstables(&storage, &def).await, 0);
        assert_eq!(keys(&storage, &def).await, ["a"]);
        storage.close().await.unwrap();
    })
    .unwrap();
}

#[test]
fn tombstones_stay_for_their_grace() {
    let dir = tempfile::tempdir().unwrap();
    let config = manual(dir.path());
    reactor::uring::block_on(async move {
        let def = with_grace(1000);
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        let now_s = (reactor::wall_us() / 1_000_000) as u32;
        storage.apply(&deletion(&def, "young", 10, now_s - 500)).await.unwrap();
        storage.apply(&deletion(&def, "old", 10, now_s - 5000)).await.unwrap();
        storage.flush(None).await.unwrap();
        storage.compact(def.id).await.unwrap();
        let left: Vec<_> = read_all(&storage, &def).await.into_iter().map(|p| p.key).collect();
        assert_eq!(left.len(), 1);
        assert_eq!(&*left[0], b"young");
        storage.close().await.unwrap();
    })
    .unwrap();
}

#[test]
fn snapshots_are_restored_by_the_shards_that_own_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_path_buf();
    let config = Config { auto_snapshot: true, ..manual(dir.path()) };
    reactor::uring::block_on(async move {
        let def = with_grace(0);
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        write(&storage, &def, 0..50, 1).await;
        for n in 50..100 {
            storage.apply(&update(&def, &format!("k{n}"), n, 1, "in the memtable")).await.unwrap();
        }
        let before = keys(&storage, &def).await;
        assert!(storage.snapshot(def.id, "../x").await.unwrap_err().to_string().contains("snapshot"));
        storage.snapshot(def.id, "one").await.unwrap();
        storage
            .describe_snapshot(def.id, "one", "CREATE TABLE ..", (1_700_000_000, Some(1_700_000_060)))
            .await
            .unwrap();
        assert!(matches!(storage.snapshot(def.id, "one").await, Err(Error::Io { .. })), "a tag is used once");
        storage.truncate(def.id).await.unwrap();
        assert_eq!(keys(&storage, &def).await, [] as [String; 0]);
        let tags: Vec<String> = storage.snapshots().await.unwrap().into_iter().map(|s| s.tag).collect();
        let one = storage.snapshots().await.unwrap().remove(0);
        assert_eq!((one.created_s, one.expires_s), (Some(1_700_000_000), Some(1_700_000_060)));
        assert!(one.live_bytes == one.total_bytes && one.total_bytes > 0, "the table has none of the files any more");
        assert!(tags.len() == 2 && tags[0] == "one" && tags[1].starts_with("truncated-"), "{tags:?}");

        let folder = folder_of(&path);
        let manifest = std::fs::read_to_string(folder.join("snapshots/one/manifest.json")).unwrap();
        assert!(
            manifest.starts_with("{\"files\":[\"me-")
                && manifest.contains("-big-Data.db\"],\"created_at\":\"2023-11-14T22:13:20"),
            "{manifest}"
        );
        std::fs::create_dir(folder.join("upload")).unwrap();
        for file in std::fs::read_dir(folder.join("snapshots/one")).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), folder.join("upload").join(file.file_name())).unwrap();
        }
        // One half of the ring, then the other.
        let report = storage.refresh(def.id, |token| token.0 < 0).await.unwrap();
        assert_eq!((report.sstables, report.partitions + report.foreign), (2, 100));
        assert!(keys(&storage, &def).await.iter().all(|key| Token::of_key(key.as_bytes()).0 < 0));
        storage.refresh(def.id, |token| token.0 >= 0).await.unwrap();
        assert_eq!(keys(&storage, &def).await, before);
        // Again: nothing changes.
        storage.refresh(def.id, |_| true).await.unwrap();
        storage.clear_upload(def.id).await.unwrap();
        assert_eq!(keys(&storage, &def).await, before);
        assert_eq!(storage.refresh(def.id, |_| true).await.unwrap().sstables, 0);

        assert_eq!(storage.clear_snapshots(def.id, Some("one")).await.unwrap(), 1);
        assert_eq!(storage.clear_snapshots(def.id, None).await.unwrap(), 1);
        assert!(!folder.join("snapshots").exists());
        storage.close().await.unwrap();
    })
    .unwrap();
}

#[test]
fn scrubbing_saves_what_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_path_buf();
    let config = manual(dir.path());
    reactor::uring::block_on(async move {
        let def = with_grace(0);
        let storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
        write(&storage, &def, 0..1000, 1).await;
        write(&storage, &def, 1000..1100, 1).await;
        let report = storage.verify(def.id).await.unwrap();
        assert_eq!((report.sstables, report.partitions, report.problems.len()), (2, 1100, 0));
        assert_eq!(storage.scrub(def.id).await.unwrap().sound, 2);
        storage.close().await.unwrap();

        let folder = folder_of(&path);
        let data = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        let largest = data
            .filter(|path| path.to_str().unwrap().ends_with("-Data.db"))
            .max_by_key(|p| p.metadata().unwrap().len());
        let largest = largest.unwrap();
        let mut bytes = std::fs::read(&largest).unwrap();
        bytes[50_000] ^= 1;
        std::fs::write(&largest, bytes).unwrap();

        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        let report = storage.verify(def.id).await.unwrap();
        assert_eq!((report.partitions, report.problems.len()), (100, 1));
        assert!(report.problems[0].contains("-Data.db"), "{report:?}");
        let report = storage.scrub(def.id).await.unwrap();
        assert_eq!((report.sound, report.rewritten, report.kept + report.lost), (1, 1, 1000));
        // One block of 4 KiB holds some thirty of them.
        assert!((1..50).contains(&report.lost), "{report:?}");
        assert_eq!(keys(&storage, &def).await.len() as u64, 100 + report.kept);
        assert_eq!(storage.verify(def.id).await.unwrap().problems, [] as [String; 0]);
        assert_eq!(storage.snapshots().await.unwrap().len(), 1);
        storage.close().await.unwrap();
    })
    .unwrap();
}

#[test]
fn cleanup_and_garbage_collection() {
    let dir = tempfile::tempdir().unwrap();
    let config = manual(dir.path());
    reactor::uring::block_on(async move {
        let def = with_grace(0);
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        write(&storage, &def, 0..500, 1).await;
        write(&storage, &def, 500..600, 1).await;
        // In two steps around the ring's end.
        let owned = [(Token(i64::MAX / 2), Token(0)), (Token(0), Token(1000))];
        storage.cleanup(def.id, &owned).await.unwrap();
        let left = keys(&storage, &def).await;
        let mine = |key: &String| {
            let token = Token::of_key(key.as_bytes()).0;
            token > i64::MAX / 2 || token <= 1000
        };
        let expect = (0..600).map(|n| format!("k{n}")).filter(mine).count();
        assert_eq!(left.len(), expect);
        assert!(left.iter().all(mine));

        let before = disk_bytes(&storage, &def);
        for key in &left {
            storage.apply(&deletion(&def, key, 2, u32::MAX - 10)).await.unwrap();
        }
        storage.flush(None).await.unwrap();
        storage.garbage_collect(def.id).await.unwrap();
        assert_eq!(keys(&storage, &def).await, [] as [String; 0]);
        // The data went; the tombstones are too young to go.
        assert_eq!(sstables(&storage, &def).await, 1);
        assert!(disk_bytes(&storage, &def) < before / 2);
        let kinds: Vec<_> = storage.compaction_history().iter().map(|record| record.kind.name()).collect();
        assert_eq!(kinds, ["cleanup", "cleanup", "garbage-collection", "garbage-collection", "garbage-collection"]);
        storage.close().await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_compaction_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { compaction_mb_per_s: Some(0.5), ..manual(dir.path()) };
    reactor::uring::block_on(async move {
        let def = with_grace(0);
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        for round in 0..4 {
            for n in 0..1000 {
                let rows = vec![row(n, round, &"x".repeat(500))];
                storage
                    .apply(&encode(&def, Partition { rows, ..Partition::new(format!("k{n}").as_str()) }))
                    .await
                    .unwrap();
            }
            storage.flush(None).await.unwrap();
        }
        let (compacting, table) = (storage.clone(), def.id);
        let task = reactor::spawn(reactor::Group::Compaction, "major", async move { compacting.compact(table).await });
        while storage.compactions().is_empty() {
            reactor::time::yield_now().await;
        }
        let progress = storage.compactions();
        assert_eq!((progress.len(), progress[0].table, progress[0].kind.name()), (1, def.id, "major"));
        assert!(progress[0].bytes_total > 2_000_000);
        assert_eq!(storage.stop_compactions(Some(def.id)), 1);
        assert!(matches!(task.await, Err(Error::Cancelled)));
        assert_eq!((sstables(&storage, &def).await, storage.compactions().len()), (4, 0));
        assert_eq!(storage.stats().compaction_temporary_bytes, 0);
        assert_eq!(keys(&storage, &def).await.len(), 1000);
        storage.close().await.unwrap();
    })
    .unwrap();
}

#[test]
fn compaction_stays_within_the_space_it_may_take() {
    const LIMIT: u64 = 300_000;
    let dir = tempfile::tempdir().unwrap();
    let config = Config { compaction_space_bytes: Some(LIMIT), ..config(dir.path(), PERIODIC) };
    reactor::uring::block_on(async move {
        let def = with_grace(0);
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        for round in 0..12 {
            for n in 0..200 {
                let rows = vec![row(round, 1, &"x".repeat(500))];
                storage
                    .apply(&encode(&def, Partition { rows, ..Partition::new(format!("k{n}").as_str()) }))
                    .await
                    .unwrap();
            }
            storage.flush(None).await.unwrap();
            while !storage.compactions().is_empty() {
                reactor::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
        let stats = storage.stats();
        assert!(stats.tables[&def.id].compactions > 0 && stats.compactions_out_of_space > 0, "{stats:?}");
        // What is not data (index, filter, ..) is a small part of an SSTable.
        assert!((1..LIMIT * 11 / 10).contains(&stats.compaction_temporary_peak_bytes), "{stats:?}");
        assert_eq!(stats.compaction_temporary_bytes, 0);
        let rows: usize = read_all(&storage, &def).await.iter().map(|partition| partition.rows.len()).sum();
        assert_eq!(rows, 12 * 200);
        storage.close().await.unwrap();
    })
    .unwrap();
}

/// A view has the empty key where its base table's column is empty.
#[test]
fn the_empty_key_is_kept_and_found() {
    let dir = tempfile::tempdir().unwrap();
    let config = manual(dir.path());
    reactor::uring::block_on(async move {
        let def = table();
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        let expect = async |storage: &Storage, when: &str| {
            let found = keys(storage, &def).await;
            assert_eq!((found.len(), found.iter().filter(|key| key.is_empty()).count()), (4, 1), "{when}: {found:?}");
            // A page at a time, each going on behind the last one's key.
            let pages = scan_all(storage, &def, ScanCommand { limit_bytes: 1, ..ScanCommand::all(def.id, 1) }).await;
            assert_eq!(pages.iter().filter(|partition| partition.key.is_empty()).count(), 1, "{when}");
            let read = ReadCommand { bypass_cache: true, ..ReadCommand::partition(def.id, "", 1) };
            assert!(storage.read(read).await.unwrap().is_some(), "{when}");
        };
        storage.apply(&update(&def, "", 1, 1, "v")).await.unwrap();
        for n in 0..3 {
            storage.apply(&update(&def, &format!("k{n}"), n, 1, "v")).await.unwrap();
        }
        expect(&storage, "in the memtable").await;
        storage.flush(None).await.unwrap();
        expect(&storage, "flushed").await;
        storage.compact(def.id).await.unwrap();
        expect(&storage, "compacted").await;
        storage.close().await.unwrap();
    })
    .unwrap();
}
