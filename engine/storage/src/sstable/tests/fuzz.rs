//! Damaged and hostile files: every reader of foreign bytes, on files of real Cassandra and on our own, changed at
//! random. What comes is an answer or an error: never a panic, and where checksums guard it, never another answer.
//!
//! The suite has a few hundred cases; `ORRERY_FUZZ_CASES` says how many for a long run.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use proptest::prelude::*;
use types::{TableDef, Token};

use super::*;
use crate::cache::BlockCache;
use crate::{Bound, Clustering, Error, Partition, Slice};

/// One change to a file.
#[derive(Clone, Debug)]
enum Change {
    Flip {
        at: f64,
        bit: u8,
    },
    /// Numbers that lengths and counts are likely to choke on.
    Number {
        at: f64,
        value: u32,
    },
    Cut {
        at: f64,
    },
    Remove {
        at: f64,
        len: usize,
    },
    Insert {
        at: f64,
        bytes: Vec<u8>,
    },
    /// A part of the file over another part.
    Copy {
        from: f64,
        to: f64,
        len: usize,
    },
    Delete,
}

fn change() -> impl Strategy<Value = Change> {
    let at = 0.0..1.0f64;
    let value = prop_oneof![
        Just(0u32),
        Just(1),
        Just(u32::MAX),
        Just(i32::MAX as u32),
        Just(0x8000_0000),
        Just(0x00FF_FFFF),
        any::<u32>()
    ];
    prop_oneof![
        8 => (at.clone(), 0..8u8).prop_map(|(at, bit)| Change::Flip { at, bit }),
        4 => (at.clone(), value).prop_map(|(at, value)| Change::Number { at, value }),
        2 => at.clone().prop_map(|at| Change::Cut { at }),
        1 => (at.clone(), 1..64usize).prop_map(|(at, len)| Change::Remove { at, len }),
        1 => (at.clone(), proptest::collection::vec(any::<u8>(), 1..64)).prop_map(|(at, bytes)| Change::Insert { at, bytes }),
        2 => (at.clone(), at, 1..64usize).prop_map(|(from, to, len)| Change::Copy { from, to, len }),
        1 => Just(Change::Delete),
    ]
}

impl Change {
    /// `false` when the file is to go.
    fn apply(&self, bytes: &mut Vec<u8>) -> bool {
        let len = bytes.len();
        let place = |at: f64| ((at * len as f64) as usize).min(len.saturating_sub(1));
        if bytes.is_empty() {
            return true;
        }
        match self {
            Change::Flip { at, bit } => bytes[place(*at)] ^= 1 << bit,
            Change::Number { at, value } => {
                let at = place(*at);
                let end = (at + 4).min(len);
                bytes[at..end].copy_from_slice(&value.to_be_bytes()[..end - at]);
            }
            Change::Cut { at } => bytes.truncate(place(*at)),
            Change::Remove { at, len: n } => drop(bytes.drain(place(*at)..(place(*at) + n).min(len))),
            Change::Insert { at, bytes: more } => drop(bytes.splice(place(*at)..place(*at), more.iter().copied())),
            Change::Copy { from, to, len: n } => {
                let n = (*n).min(len - place(*from)).min(len - place(*to));
                bytes.copy_within(place(*from)..place(*from) + n, place(*to));
            }
            Change::Delete => return false,
        }
        true
    }
}

/// Reads all that there is in every way that there is.
async fn read(folder: &str, data: &str, def: Arc<TableDef>, keys: &[Vec<u8>]) -> Result<Vec<Partition>, Error> {
    let sstable = Sstable::open_foreign(folder, data, def, &Rc::new(BlockCache::new(1 << 20, 0.5))).await?;
    let middle = |c: i32| Clustering::new([c.to_be_bytes()]);
    let slices = [
        Slice { start: Bound::inclusive(middle(900)), end: Bound::exclusive(middle(700)) },
        Slice { start: Bound::exclusive(middle(20)), end: Bound::inclusive(middle(3)) },
    ];
    let mut first_error = None;
    for key in keys {
        for (slices, reverse) in [(&[][..], false), (&slices[..], false), (&slices[..], true), (&[][..], true)] {
            let one = async {
                let Some(place) = sstable.find(Token::of_key(key), key).await? else { return Ok(()) };
                let mut cursor = PartitionCursor::new(sstable.clone(), key.as_slice().into(), place);
                while cursor.next_part(slices, reverse, 50).await?.more_after.is_some() {}
                Ok(())
            };
            if let Err(error) = one.await {
                first_error.get_or_insert(error);
            }
        }
    }
    let mut cursor = IndexCursor::seek(sstable.clone(), Token(i64::MIN), None).await?;
    while cursor.head().is_some() {
        cursor.advance().await?;
    }
    let mut all = Vec::new();
    let mut sequential = Sequential::new(sstable);
    while let Some((_, partition)) = sequential.next().await? {
        all.push(partition);
    }
    match first_error {
        Some(error) => Err(error),
        None => Ok(all),
    }
}

/// The table's files, but for what is changed.
fn copy(from: &str, to: &Path, component: usize, changes: &[Change]) {
    let mut names: Vec<_> = std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let changed = component % names.len();
    for (at, path) in names.iter().enumerate() {
        let mut bytes = std::fs::read(path).unwrap();
        if at != changed || changes.iter().all(|change| change.apply(&mut bytes)) {
            std::fs::write(to.join(path.file_name().unwrap()), bytes).unwrap();
        }
    }
}

fn cases(short: u32) -> ProptestConfig {
    let cases = std::env::var("ORRERY_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(short);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn changed_files_of_cassandra(
        table in 0..golden::TABLES.len(),
        component in 0..8usize,
        changes in proptest::collection::vec(change(), 1..4),
    ) {
        let (version, table) = golden::TABLES[table];
        let (folder, data) = golden::find(version, table);
        let changed = tempfile::tempdir().unwrap();
        copy(&folder, changed.path(), component, &changes);
        let path = changed.path().to_str().unwrap().to_string();
        let keys: Vec<_> = (0..12i32).map(|p| p.to_be_bytes().to_vec()).collect();
        reactor::uring::block_on(async move {
            let _ = read(&path, &data, golden::definition(), &keys).await;
        }).unwrap();
    }

    /// Every component of ours has a checksum: a change is seen, or changes nothing.
    #[test]
    fn changed_files_of_ours(
        compressed in any::<bool>(),
        component in 0..9usize,
        changes in proptest::collection::vec(change(), 1..4),
    ) {
        let lz4 = [("class", "LZ4Compressor"), ("chunk_length_in_kb", "1")];
        let def = tests::table(if compressed { &lz4 } else { &[] }, true);
        let (whole, changed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let text = |folder: &tempfile::TempDir| folder.path().to_str().unwrap().to_string();
        let (from, to) = (text(&whole), text(&changed));
        let to_path = changed.path().to_path_buf();
        reactor::uring::block_on(async move {
            let partitions = tests::some_partitions(&def);
            drop(tests::write(&from, &def, 200, &partitions).await);
            copy(&from, &to_path, component, &changes);
            let keys: Vec<_> = partitions.iter().map(|partition| partition.key.to_vec()).collect();
            let mut expect = partitions;
            expect.sort_by_key(|partition| (Token::of_key(&partition.key), partition.key.clone()));
            if let Ok(read) = read(&to, "me-1-big-Data.db", def, &keys).await {
                assert_eq!(read, expect);
            }
        }).unwrap();
    }
}
