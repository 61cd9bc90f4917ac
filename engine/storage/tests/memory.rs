//! What memtables say they take, against what was asked of the allocator; and that they keep to their limit.

#![allow(clippy::unwrap_used)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell as Flag;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{PERIODIC, config, encode, read_all, row, table, update};
use storage::{Config, Partition, Storage};
use types::{CqlType, TableDef};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything to the system's allocator and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Of the second test while the first one counts.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn memtables_take_what_they_say() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for (what, rows_each) in [("small partitions", 1), ("packed rows", 3), ("wide partitions", 200)] {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { memtable_limit_bytes: 1 << 30, ..config(dir.path(), PERIODIC) };
        let (said, taken) = reactor::uring::block_on(async move {
            let def = table();
            let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
            // What the log's writer and the tasks need is there from here on.
            for n in 0..20_000 {
                storage.apply(&update(&def, "warm", n % 7, 1, &"x".repeat(60))).await.unwrap();
            }
            storage.flush(None).await.unwrap();
            storage.sync().await.unwrap();
            let before = (storage.stats().memtable_bytes, LIVE.load(Ordering::Relaxed));
            for n in 0..240_000u64 {
                let value = "v".repeat(50 + n as usize % 40);
                let key = format!("key-{}", n / rows_each);
                storage.apply(&update(&def, &key, (n % rows_each) as i32, 1, &value)).await.unwrap();
                if n % 64 == 0 {
                    reactor::time::yield_now().await;
                }
            }
            storage.sync().await.unwrap();
            let after = (storage.stats().memtable_bytes, LIVE.load(Ordering::Relaxed));
            storage.close().await.unwrap();
            (after.0 - before.0, after.1 - before.1)
        })
        .unwrap();
        let ratio = said as f64 / taken as f64;
        // The allocator's own header and rounding come on top of what was asked of it; the commit log's buffers, which
        // come and go, are part of what was taken.
        assert!((0.93..1.25).contains(&ratio), "{what}: said {said}, taken {taken}: {ratio:.3}");
    }
}

/// Several tables, small memory: flushes go on beside each other, writes wait in turn, nothing is lost.
#[test]
fn writers_keep_within_the_limit_while_tables_are_flushed() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let limit = 2 << 20;
    let config = Config { memtable_limit_bytes: limit, ..config(dir.path(), PERIODIC) };
    reactor::uring::block_on(async move {
        let def_of = |name: &str| {
            let def = TableDef::builder("ks", name).partition_key("p", CqlType::Text).clustering("c", CqlType::Int);
            Arc::new(
                def.static_column("s", CqlType::Text).regular("v", CqlType::Text).regular("w", CqlType::Text).build(),
            )
        };
        let defs = [def_of("a"), def_of("b"), def_of("c")];
        let storage = Storage::open(config.clone(), defs.to_vec()).await.unwrap();
        let most = Rc::new(Flag::new(0));
        let writers: Vec<_> = (0..30)
            .map(|writer| {
                let (storage, def, most) = (storage.clone(), defs[writer % 3].clone(), most.clone());
                reactor::spawn(reactor::Group::Statement, "write", async move {
                    for n in 0..400 {
                        let row = row(n, 1, &"x".repeat(600));
                        let partition =
                            Partition { rows: vec![row], ..Partition::new(format!("{writer}-{n}").as_str()) };
                        storage.apply(&encode(&def, partition)).await.unwrap();
                        most.set(storage.stats().memtable_bytes.max(most.get()));
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await;
        }
        assert!(most.get() <= limit + (limit / 50), "{} bytes with a limit of {limit}", most.get());
        let stats = storage.stats();
        assert!(stats.writes_blocked > 0, "the limit was never felt");
        assert!(stats.tables.values().all(|table| table.flushes > 0), "{:?}", stats.tables);
        for def in &defs {
            assert_eq!(read_all(&storage, def).await.len(), 4000);
        }
        storage.close().await.unwrap();
    })
    .unwrap();
}

#[test]
fn memtables_come_of_age() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), PERIODIC);
    reactor::uring::block_on(async move {
        let mut def = (*table()).clone();
        def.options.other.insert("memtable_flush_period_in_ms".into(), "10".into());
        let def = Arc::new(def);
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        storage.apply(&update(&def, "k", 1, 1, "v")).await.unwrap();
        while storage.stats().tables[&def.id].flushes == 0 {
            reactor::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(storage.stats().tables[&def.id].memtable_partitions, 0);
        storage.close().await.unwrap();
    })
    .unwrap();
}
