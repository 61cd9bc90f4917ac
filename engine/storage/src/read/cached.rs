//! A large partition out of the row cache, with gaps filled from the SSTables as the read comes to them.

use std::rc::Rc;

use reactor::Work;
use types::TableDef;

use super::{Found, PartitionRead, Source};
use crate::data::compare_positions;
use crate::memtable::Part;
use crate::row_cache::{Piece, Stretch};
use crate::sstable::PartitionCursor;
use crate::table::Table;
use crate::{Bound, Bytes, Error, Partition, Slice};

/// Rows that are read of a gap at least: they are near to what is asked.
const ROWS_FILL: usize = 128;

pub(crate) struct CacheCursor {
    table: Rc<Table>,
    /// As they were when the read began.
    sstables: super::Snapshot,
    /// Where the partition is in them, once that was needed.
    places: Option<Vec<Found>>,
    /// What is still to be read, the next at the end; `None` before the first answer.
    rest: Option<Vec<Slice>>,
}

impl CacheCursor {
    pub fn new(table: Rc<Table>, sstables: super::Snapshot, places: Option<Vec<Found>>) -> Self {
        Self { table, sstables, places, rest: None }
    }

    pub async fn next_part(&mut self, read: &PartitionRead<'_>, rows_max: usize) -> Result<Part, Error> {
        let begins = self.rest.is_none();
        let mut rest = self.rest.take().unwrap_or_else(|| {
            let mut slices = if read.slices.is_empty() { vec![Slice::all()] } else { read.slices.to_vec() };
            // Who goes on behind a row may ask for what lies between a row and itself.
            slices.retain(|slice| !is_empty(slice, read.def));
            if !read.reverse {
                slices.reverse();
            }
            slices
        });
        let mut part = Partition::new(read.key.clone());
        let mut has_head = false;
        while let Some(slice) = rest.last()
            && part.rows.len() < rows_max
        {
            let name = (self.sstables.name, read.token, &**read.key);
            let take = |piece: Piece<'_>| {
                reactor::charge(Work::RowCachePiece, piece.rows.len() as u64);
                let mut rows = Partition::decode_shared(&Bytes::from(piece.rows.clone()))?;
                if piece.exceeds {
                    rows.restrict(std::slice::from_ref(slice), false, usize::MAX, 0, read.def);
                }
                part.merge(rows, read.def);
                if !std::mem::replace(&mut has_head, true) {
                    let head = Partition::decode_shared(&Bytes::from(piece.head.clone()))?;
                    part.merge(Partition { rows: Vec::new(), range_tombstones: Vec::new(), ..head }, read.def);
                }
                Ok::<_, Error>(part.rows.len() < rows_max)
            };
            let done = match self.table.rows.walk(name, slice, read.reverse, read.def, take)? {
                Stretch::Known(known) => known,
                Stretch::Gap(gap) => {
                    let (rows, covered) = self.fill(read, gap, (rows_max - part.rows.len()).max(ROWS_FILL)).await?;
                    part.merge(rows, read.def);
                    has_head = true;
                    covered
                }
            };
            advance(&mut rest, &done, read.reverse, read.def);
        }
        if begins
            && !has_head
            && let Some(nothing) = read.slices.first()
        {
            // No row is asked for; deletion and static row are all the same.
            part = self.fill(read, nothing.clone(), ROWS_FILL).await?.0;
        }
        let last = if read.reverse { part.rows.first() } else { part.rows.last() };
        let more_after = last.filter(|_| !rest.is_empty()).map(|row| row.clustering.clone());
        self.rest = Some(rest);
        Ok(Part { partition: part, more_after })
    }

    /// Reads the beginning of a gap, and keeps it. What was read, and how far it goes.
    async fn fill(
        &mut self,
        read: &PartitionRead<'_>,
        gap: Slice,
        rows_max: usize,
    ) -> Result<(Partition, Slice), Error> {
        let places = match &self.places {
            Some(places) => places,
            None => self.places.insert(read.find(&self.table, &self.sstables).await?),
        };
        let cursors = places.iter().map(|(sstable, place)| {
            Source::Sstable(Box::new(PartitionCursor::new(sstable.clone(), read.key.clone(), place.clone())))
        });
        let slices = [gap];
        let inner = PartitionRead { slices: &slices, limit_rows: rows_max, ..*read };
        let found = Box::pin(inner.page(cursors.collect())).await?;
        let partition = found.partition.unwrap_or_else(|| Partition::new(read.key.clone()));
        let [mut covered] = slices;
        if found.more {
            // Complete up to its last row in reading order.
            let last = if read.reverse { partition.rows.first() } else { partition.rows.last() };
            if let Some(last) = last {
                let edge = Bound::inclusive(last.clustering.clone());
                *(if read.reverse { &mut covered.start } else { &mut covered.end }) = edge;
            }
        }
        if self.sstables.is_current(&self.table) {
            self.table.rows.insert_piece(self.sstables.name, read.token, &covered, &partition, read.def)?;
        }
        Ok((partition, covered))
    }
}

/// Takes what was read off the front of the list (its end) of slices.
fn advance(rest: &mut Vec<Slice>, done: &Slice, reverse: bool, def: &TableDef) {
    let Some(slice) = rest.last_mut() else { return };
    slice.advance(done, reverse);
    if is_empty(slice, def) {
        rest.pop();
    }
}

fn is_empty(slice: &Slice, def: &TableDef) -> bool {
    compare_positions(def, slice.start.as_start(), slice.end.as_end()).is_ge()
}
