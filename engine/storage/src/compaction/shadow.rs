//! What other SSTables delete of a partition: for dropping it from one that is rewritten alone.

use std::rc::Rc;

use types::{TableDef, Token};

use crate::data::normalise;
use crate::sstable::{KeyHash, PartitionCursor, Sstable};
use crate::{Bound, Bytes, DeletionTime, Error, Partition, RangeTombstone, Row};

/// The deletions of one partition, of all of `others` together: those of rows as ranges of one row. Cells that others
/// overwrite stay: to see those, all of them would have to be held.
pub(crate) struct Shadow {
    deletion: Option<DeletionTime>,
    ranges: Vec<RangeTombstone>,
}

impl Shadow {
    pub async fn of(others: &[Rc<Sstable>], token: Token, key: &Bytes, def: &TableDef) -> Result<Self, Error> {
        /// Rows read at once.
        const ROWS: usize = 256;
        let mut shadow = Self { deletion: None, ranges: Vec::new() };
        let hash = KeyHash::of(key);
        for other in others.iter().filter(|other| other.may_contain(token, hash)) {
            let Some(place) = other.find(token, key).await? else { continue };
            let mut cursor = PartitionCursor::new(other.clone(), key.clone(), place);
            loop {
                let part = cursor.next_part(&[], false, ROWS).await?;
                shadow.deletion = DeletionTime::latest(shadow.deletion, part.partition.deletion);
                shadow.ranges.extend(part.partition.range_tombstones);
                shadow.ranges.extend(part.partition.rows.iter().filter_map(row_deletion));
                if part.more_after.is_none() {
                    break;
                }
            }
        }
        normalise(&mut shadow.ranges, def);
        Ok(shadow)
    }

    /// Drops what is deleted elsewhere. The partition's own deletions stay as they are.
    pub fn cast(&self, partition: &mut Partition, def: &TableDef) {
        let mut shadowed = Partition {
            deletion: self.deletion,
            range_tombstones: self.ranges.clone(),
            rows: std::mem::take(&mut partition.rows),
            static_row: partition.static_row.take(),
            key: partition.key.clone(),
        };
        shadowed.purge_shadowed(def);
        partition.rows = shadowed.rows;
        partition.static_row = shadowed.static_row;
    }
}

fn row_deletion(row: &Row) -> Option<RangeTombstone> {
    let deletion = row.deletion?;
    let here = Bound::inclusive(row.clustering.clone());
    Some(RangeTombstone { start: here.clone(), end: here, deletion })
}
