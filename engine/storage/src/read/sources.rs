//! Where the parts of a partition are: memtables, the row cache, and those SSTables that have it.

use std::rc::Rc;

use reactor::Work;

use super::complete::hides;
use super::{CacheCursor, PartitionRead, Source, together};
use crate::row_cache::{self, PARTITION_MAX_BYTES};
use crate::sstable::{KeyHash, PartitionCursor, Place, Sstable};
use crate::table::{Table, add};
use crate::{Bytes, Error, Partition};

/// An SSTable that has the partition, and where.
pub(crate) type Found = (Rc<Sstable>, Place);

/// A table's SSTables at one time: what is flushed or compacted meanwhile stays readable in its old place.
pub(crate) struct Snapshot {
    pub list: Vec<Rc<Sstable>>,
    /// Of the table in the row cache.
    pub name: u32,
    version: u64,
}

impl Snapshot {
    pub fn of(table: &Table) -> Self {
        Self { list: table.sstables.borrow().clone(), name: table.rows_name.get(), version: table.version.get() }
    }

    /// Whether what is read from these may be put into the row cache.
    pub fn is_current(&self, table: &Table) -> bool {
        table.version.get() == self.version
    }
}

/// To look into the row cache and to go on with one piece is priced as a read of it, whether it was there or not.
fn in_one_piece(partition: Partition) -> Source {
    reactor::charge(Work::RowCacheRead, 0);
    Source::Files(partition)
}

impl PartitionRead<'_> {
    /// With a row cache a small partition is read from the files whole, and kept there; of a large one what is asked.
    pub async fn sources(&self, table: &Rc<Table>) -> Result<Vec<Source>, Error> {
        let mut sources: Vec<Source> = table.memtables().into_iter().map(Source::Memtable).collect();
        let files = Snapshot::of(table);
        if files.list.is_empty() {
            return Ok(sources);
        }
        let with_cache = !self.bypass_cache && table.rows.is_on();
        if with_cache {
            match table.rows.find(files.name, self.token, self.key) {
                row_cache::Found::Whole(bytes) => {
                    sources.push(in_one_piece(Partition::decode_shared(&Bytes::from(bytes))?));
                    return Ok(sources);
                }
                row_cache::Found::Wide => {
                    sources.push(Source::Cache(Box::new(CacheCursor::new(table.clone(), files, None))));
                    return Ok(sources);
                }
                row_cache::Found::Nothing => {}
            }
        }
        if self.may_end_early(table) {
            if let Some(partition) = self.read_newest_first(table, &files, with_cache).await? {
                sources.push(in_one_piece(partition));
            }
            return Ok(sources);
        }
        let places = self.find(table, &files).await?;
        let bytes: u64 = places.iter().map(|(sstable, place)| place.bytes_at_most(sstable)).sum();
        if !with_cache {
            sources.extend(places.into_iter().map(|place| self.open(place)));
        } else if bytes > PARTITION_MAX_BYTES {
            sources.push(Source::Cache(Box::new(CacheCursor::new(table.clone(), files, Some(places)))));
        } else if self.might_be_in(&files) {
            let partition = self.whole(places).await?.unwrap_or_else(|| Partition::new(self.key.clone()));
            self.keep(table, &files, &partition)?;
            sources.push(in_one_piece(partition));
        }
        Ok(sources)
    }

    /// The SSTables that have the partition, newest first; asks all that their filters let through at the same time.
    pub async fn find(&self, table: &Table, files: &Snapshot) -> Result<Vec<Found>, Error> {
        let candidates = self.candidates(table, files);
        table.counts.count_sstables(candidates.len());
        self.look_up(table, candidates).await
    }

    async fn look_up(&self, table: &Table, sstables: Vec<Rc<Sstable>>) -> Result<Vec<Found>, Error> {
        let found = together(sstables.iter().map(|sstable| sstable.find(self.token, self.key))).await;
        let mut places = Vec::with_capacity(found.len());
        for (place, sstable) in found.into_iter().zip(sstables) {
            match place? {
                Some(place) => places.push((sstable, place)),
                None => add(&table.counts.bloom_false_positives, 1),
            }
        }
        Ok(places)
    }

    fn candidates(&self, table: &Table, files: &Snapshot) -> Vec<Rc<Sstable>> {
        let hash = KeyHash::of(self.key);
        let may_have = |sstable: &&Rc<Sstable>| {
            reactor::charge(Work::BloomProbe, 1);
            let may = sstable.may_contain(self.token, hash);
            add(&table.counts.bloom_negatives, u64::from(!may));
            may
        };
        files.list.iter().rev().filter(may_have).cloned().collect()
    }

    /// Whether it takes more than the filters to know that the files do not have it.
    fn might_be_in(&self, files: &Snapshot) -> bool {
        let hash = KeyHash::of(self.key);
        files.list.iter().any(|sstable| sstable.may_contain(self.token, hash))
    }

    /// A single row of simple columns: the SSTable with the latest writes first, as it may make the others needless;
    /// if it does not, they are read together.
    async fn read_newest_first(
        &self,
        table: &Rc<Table>,
        files: &Snapshot,
        with_cache: bool,
    ) -> Result<Option<Partition>, Error> {
        let mut candidates = self.candidates(table, files);
        if candidates.is_empty() {
            table.counts.count_sstables(0);
            return Ok(None);
        }
        candidates.sort_by_key(|sstable| std::cmp::Reverse(sstable.figures.max_timestamp));
        let mut rest = candidates.split_off(1);
        let newest = self.look_up(table, candidates).await?;
        let mut merged = self.whole(newest).await?;
        if let Some(known) = &merged {
            rest.retain(|sstable| !hides(known, sstable.figures.max_timestamp, self.def));
        }
        table.counts.count_sstables(1 + rest.len());
        if !rest.is_empty() {
            let older = self.look_up(table, rest).await?;
            if let Some(older) = self.whole(older).await? {
                self.merge_into(&mut merged, older);
            }
        }
        let mut partition = merged.unwrap_or_else(|| Partition::new(self.key.clone()));
        partition.purge_shadowed(self.def);
        if with_cache {
            self.keep(table, files, &partition)?;
        }
        Ok(Some(partition))
    }

    fn open(&self, (sstable, place): Found) -> Source {
        let cursor = PartitionCursor::new(sstable, self.key.clone(), place);
        Source::Sstable(Box::new(cursor.without_keeping_blocks()))
    }

    /// All that these have of it.
    async fn whole(&self, places: Vec<Found>) -> Result<Option<Partition>, Error> {
        if places.is_empty() {
            return Ok(None);
        }
        let sources = places.into_iter().map(|place| self.open(place)).collect();
        let all =
            PartitionRead { slices: &[], reverse: false, limit_rows: usize::MAX, limit_bytes: usize::MAX, ..*self };
        Ok(Box::pin(all.page(sources)).await?.partition)
    }

    fn keep(&self, table: &Table, files: &Snapshot, partition: &Partition) -> Result<(), Error> {
        if files.is_current(table) {
            table.rows.insert_whole(files.name, self.token, partition, self.def)?;
        }
        Ok(())
    }
}
