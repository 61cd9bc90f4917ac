//! One table's newest writes, in memory, in token order.
//!
//! A partition is kept as the bytes it came in (one allocation) until more than a few rows of it have come together;
//! then each row is kept as its own bytes in a sorted list of lists. Reading decodes, and the values read share the
//! memtable's allocations. Every byte is accounted for: payload, allocation headers and a share of the tree.

mod rows;
mod tokens;
mod wide;

use std::sync::Arc;

use types::{TableDef, Token};

use self::tokens::TokenMap;
use self::wide::Wide;
use crate::commitlog::Position;
use crate::data::codec::{Checked, Reader, replaces};
use crate::sstable::EncodingStats;
use crate::{Bytes, Malformed, Partition, Slice};

/// A partition with more rows, or more bytes, is kept row by row: merging into the packed form rewrites all of it.
const PACKED_ROWS_MAX: usize = 4;
const PACKED_BYTES_MAX: usize = 4096;

/// An entry (token, slot: 32 bytes) in leaves that are about 2/3 full, with the tree above and allocator rounding.
const PARTITION_OVERHEAD: usize = 64;
/// Reference counts in front of shared bytes, and the allocator's own header.
const ALLOCATION_OVERHEAD: usize = 24;

pub(crate) struct Memtable {
    pub def: Arc<TableDef>,
    partitions: TokenMap<Slot>,
    count: usize,
    bytes: usize,
    stats: EncodingStats,
    /// Segment of the first record that is in here.
    pub first_segment: Option<u64>,
    /// When it is to be flushed whatever its size.
    pub flush_due_ns: Option<u64>,
    /// Of `bytes`, what a flush has written already.
    pub written_bytes: std::cell::Cell<usize>,
    /// Set when it is frozen: every record of the table up to here is in here or in older memtables.
    pub upto: Position,
}

/// The partitions with one token: one, save for hash collisions. Sorted by key.
enum Slot {
    One(Stored),
    Many(Vec<Stored>),
}

pub(crate) enum Stored {
    /// An encoded partition.
    Packed(Arc<[u8]>),
    Wide(Box<Wide>),
}

/// Rows of one read, and whether more lie behind them (before them when reversed).
pub(crate) struct Part {
    pub partition: Partition,
    /// The last row's clustering, when there may be more.
    pub more_after: Option<crate::Clustering>,
}

/// A partition as it was in a memtable.
pub(crate) enum Shared {
    /// For [`Partition::decode_shared`].
    Packed(Bytes),
    Decoded(Partition),
}

impl Memtable {
    pub fn new(def: Arc<TableDef>) -> Self {
        Self {
            def,
            partitions: TokenMap::new(),
            count: 0,
            bytes: 0,
            stats: EncodingStats::NONE,
            first_segment: None,
            flush_due_ns: None,
            written_bytes: std::cell::Cell::new(0),
            upto: Position::default(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn partitions(&self) -> usize {
        self.count
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// At or below every timestamp in here; `i64::MAX` when empty.
    pub fn min_timestamp(&self) -> i64 {
        self.stats.min_timestamp
    }

    /// At or below everything in here.
    pub fn encoding_stats(&self) -> EncodingStats {
        self.stats
    }

    /// Merges an encoded partition that `codec::check` has passed with this memtable's definition.
    pub fn insert(&mut self, token: Token, encoded: &[u8], checked: &Checked<'_>) -> Result<(), Malformed> {
        self.stats.merge(&checked.stats);
        let packs = checked.rows <= PACKED_ROWS_MAX && encoded.len() <= PACKED_BYTES_MAX;
        let fresh = || -> Result<Stored, Malformed> {
            if packs {
                return Ok(Stored::Packed(Arc::from(encoded)));
            }
            let mut wide = Wide::new(checked.key.into());
            wide.merge(Partition::decode(encoded)?, &self.def)?;
            Ok(Stored::Wide(Box::new(wide)))
        };
        let Some(slot) = self.partitions.get_mut(token) else {
            let stored = fresh()?;
            self.bytes += stored.bytes();
            self.count += 1;
            self.partitions.insert(token, Slot::One(stored));
            return Ok(());
        };
        if let Some(stored) = slot.find_mut(checked.key) {
            let before = stored.bytes();
            stored.merge(encoded, checked, &self.def)?;
            self.bytes = self.bytes + stored.bytes() - before;
        } else {
            let stored = fresh()?;
            self.bytes += stored.bytes();
            self.count += 1;
            slot.insert(stored);
        }
        Ok(())
    }

    /// Lets go of some partitions, from the front; whether any are left. For one that nobody reads any more: to let go
    /// of all at once takes as long as a disk's whole latency budget.
    pub fn drop_some(&mut self) -> bool {
        self.partitions.pop_first()
    }

    pub fn get(&self, token: Token, key: &[u8]) -> Option<&Stored> {
        self.partitions.get(token)?.find(key)
    }

    /// Partitions in token order, then key order, behind `(token, key)`; `None` as the key is behind the whole token,
    /// but before the ring's first one: the empty key, which views have, is there.
    pub fn range_after<'a>(
        &'a self,
        token: Token,
        key: Option<&'a [u8]>,
    ) -> impl Iterator<Item = (Token, &'a Stored)> + 'a {
        let slots = self.partitions.range_from(token).flat_map(|(token, slot)| slot.list().iter().map(|s| (*token, s)));
        slots.skip_while(move |(at, stored)| *at == token && key.map_or(token != Token::MIN, |key| stored.key() <= key))
    }
}

impl Slot {
    fn list(&self) -> &[Stored] {
        match self {
            Slot::One(stored) => std::slice::from_ref(stored),
            Slot::Many(list) => list,
        }
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Option<&Stored> {
        self.list().iter().find(|stored| stored.key() == key)
    }

    #[inline]
    fn find_mut(&mut self, key: &[u8]) -> Option<&mut Stored> {
        let list = match self {
            Slot::One(stored) => std::slice::from_mut(stored),
            Slot::Many(list) => list,
        };
        list.iter_mut().find(|stored| stored.key() == key)
    }

    fn insert(&mut self, stored: Stored) {
        let mut list = match std::mem::replace(self, Slot::Many(Vec::new())) {
            Slot::One(first) => vec![first],
            Slot::Many(list) => list,
        };
        let at = list.partition_point(|other| other.key() < stored.key());
        list.insert(at, stored);
        *self = Slot::Many(list);
    }
}

impl Stored {
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self {
            // What is stored has been checked.
            Stored::Packed(bytes) => Reader::new(bytes).head().map_or(&[], |head| head.key),
            Stored::Wide(wide) => &wide.key,
        }
    }

    /// Whether it is small enough to be kept in one piece.
    pub fn is_packed(&self) -> bool {
        matches!(self, Stored::Packed(_))
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        PARTITION_OVERHEAD
            + match self {
                Stored::Packed(bytes) => ALLOCATION_OVERHEAD + bytes.len(),
                Stored::Wide(wide) => wide.bytes(),
            }
    }

    /// Bytes that a read of all of it walks over.
    pub fn len_bytes(&self) -> usize {
        match self {
            Stored::Packed(bytes) => bytes.len(),
            Stored::Wide(wide) => wide.bytes(),
        }
    }

    fn merge(&mut self, encoded: &[u8], checked: &Checked<'_>, def: &TableDef) -> Result<(), Malformed> {
        match self {
            Stored::Wide(wide) => wide.merge(Partition::decode(encoded)?, def)?,
            Stored::Packed(bytes) if !checked.counts && replaces(encoded, bytes)? => match Arc::get_mut(bytes) {
                Some(kept) if kept.len() == encoded.len() => kept.copy_from_slice(encoded),
                _ => *bytes = Arc::from(encoded),
            },
            Stored::Packed(bytes) => {
                let mut partition = Partition::decode_shared(&Bytes::from(bytes.clone()))?;
                partition.merge(Partition::decode(encoded)?, def);
                let fits = bytes.len() + encoded.len() <= PACKED_BYTES_MAX;
                if partition.rows.len() <= PACKED_ROWS_MAX && fits {
                    let mut merged = Vec::with_capacity(bytes.len() + encoded.len());
                    partition.encode(&mut merged);
                    *self = Stored::Packed(Arc::from(merged));
                } else {
                    let mut wide = Wide::new(checked.key.into());
                    wide.merge(partition, def)?;
                    *self = Stored::Wide(Box::new(wide));
                }
            }
        }
        Ok(())
    }

    /// All of it.
    pub fn decode(&self) -> Result<Partition, Malformed> {
        match self {
            Stored::Packed(bytes) => Partition::decode_shared(&Bytes::from(bytes.clone())),
            Stored::Wide(wide) => wide.decode(),
        }
    }

    /// The key, and all of it, for who cannot keep the memtable borrowed.
    pub fn share(&self) -> Result<(Bytes, Shared), Malformed> {
        Ok(match self {
            Stored::Packed(bytes) => {
                let packed = Bytes::from(bytes.clone());
                (packed.part(self.key()), Shared::Packed(packed))
            }
            Stored::Wide(wide) => (wide.key.clone(), Shared::Decoded(wide.decode()?)),
        })
    }

    /// What lies inside `slices` (none: everything), at most about `max_rows` rows of it. Small partitions come whole.
    pub fn read(&self, slices: &[Slice], reverse: bool, max_rows: usize, def: &TableDef) -> Result<Part, Malformed> {
        match self {
            Stored::Packed(_) => Ok(Part { partition: self.decode()?, more_after: None }),
            Stored::Wide(wide) => wide.read(slices, reverse, max_rows, def),
        }
    }
}

#[cfg(test)]
mod tests {
    use types::CqlType;

    use super::*;
    use crate::data::check_partition;
    use crate::{Cell, Clustering, DeletionTime, Liveness, Row};

    fn table() -> Arc<TableDef> {
        let def = TableDef::builder("k", "t").partition_key("p", CqlType::Blob).clustering("c", CqlType::Int);
        Arc::new(def.regular("v", CqlType::Blob).build())
    }

    fn update(key: &[u8], clustering: i32, timestamp: i64, value: &[u8]) -> Partition {
        let row = Row {
            marker: Some(Liveness::live(timestamp)),
            cells: vec![(0, Cell::live(timestamp, value))],
            ..Row::new(Clustering::new([clustering.to_be_bytes()]))
        };
        Partition { rows: vec![row], ..Partition::new(key) }
    }

    fn insert(memtable: &mut Memtable, token: i64, partition: &Partition) {
        let mut bytes = Vec::new();
        partition.encode(&mut bytes);
        let def = memtable.def.clone();
        memtable.insert(Token(token), &bytes, &check_partition(&bytes, &def).unwrap()).unwrap();
    }

    fn all(memtable: &Memtable) -> impl Iterator<Item = (Token, &Stored)> {
        memtable.range_after(Token(i64::MIN), None)
    }

    #[test]
    fn rows_merge_and_partitions_widen() {
        let mut memtable = Memtable::new(table());
        let mut expect = Partition::new(b"a");
        for n in 0..300 {
            let row = update(b"a", n * 7 % 100, i64::from(n), &[n as u8; 9]);
            insert(&mut memtable, 1, &row);
            expect.merge(row, &memtable.def.clone());
            assert_eq!(memtable.get(Token(1), b"a").unwrap().decode().unwrap(), expect, "after {n}");
        }
        assert_eq!(expect.rows.len(), 100);
        assert_eq!(memtable.partitions(), 1);
        let sum: usize = all(&memtable).map(|(_, stored)| stored.bytes()).sum();
        assert_eq!(memtable.bytes(), sum);
    }

    #[test]
    fn what_replaces_all_of_a_partition_and_what_does_not() {
        let first = update(b"a", 1, 10, b"old");
        let newer = |value: &[u8]| update(b"a", 1, 11, value);
        let without_marker = |mut partition: Partition| {
            partition.rows[0].marker = None;
            partition
        };
        let deleted = Partition { deletion: Some(DeletionTime { timestamp: 10, local_s: 1 }), ..Partition::new(b"a") };
        let others = [
            newer(b"new"),
            newer(b"longer"),
            update(b"a", 1, 9, b"older"),
            update(b"a", 1, 10, b"tie"),
            update(b"a", 2, 11, b"another row"),
            without_marker(newer(b"cells alone")),
            deleted.clone(),
            Partition { deletion: deleted.deletion, ..newer(b"both") },
            Partition { rows: vec![Row { cells: Vec::new(), ..newer(b"").rows.remove(0) }], ..Partition::new(b"a") },
        ];
        for (a, b) in others.iter().flat_map(|other| [(&first, other), (other, &first), (other, &others[0])]) {
            let mut memtable = Memtable::new(table());
            insert(&mut memtable, 1, a);
            // A read that goes on meanwhile must not see the bytes change.
            let read = memtable.get(Token(1), b"a").unwrap().decode().unwrap();
            insert(&mut memtable, 1, b);
            let mut expect = a.clone();
            expect.merge(b.clone(), &memtable.def.clone());
            assert_eq!(memtable.get(Token(1), b"a").unwrap().decode().unwrap(), expect, "{a:?} then {b:?}");
            assert_eq!(read, *a);
            drop(read);
            insert(&mut memtable, 1, b);
            assert_eq!(memtable.get(Token(1), b"a").unwrap().decode().unwrap(), expect, "{b:?} once more");
            assert_eq!(memtable.bytes(), all(&memtable).map(|(_, stored)| stored.bytes()).sum::<usize>());
        }
    }

    #[test]
    fn tokens_may_collide() {
        let mut memtable = Memtable::new(table());
        for (token, key) in [(5, "b"), (5, "a"), (3, "z"), (5, "c")] {
            insert(&mut memtable, token, &update(key.as_bytes(), 0, 1, b"v"));
        }
        let keys = |iter: &mut dyn Iterator<Item = (Token, &Stored)>| {
            iter.map(|(_, stored)| String::from_utf8(stored.key().to_vec()).unwrap()).collect::<String>()
        };
        assert_eq!(keys(&mut all(&memtable)), "zabc");
        assert_eq!(keys(&mut memtable.range_after(Token(5), Some(b"a"))), "bc");
        assert_eq!(keys(&mut memtable.range_after(Token(5), None)), "");
        assert_eq!(keys(&mut memtable.range_after(Token(i64::MIN), None)), "zabc");
        assert_eq!(keys(&mut memtable.range_after(Token(3), None)), "abc");
        assert!(memtable.get(Token(5), b"x").is_none());
    }

    #[test]
    fn wide_reads_stop_early_on_both_sides() {
        let mut memtable = Memtable::new(table());
        for n in 0..1000 {
            insert(&mut memtable, 1, &update(b"a", n, 1, b"v"));
        }
        let stored = memtable.get(Token(1), b"a").unwrap();
        let number = |c: &Clustering| i32::from_be_bytes(c.component(0).unwrap().try_into().unwrap());
        let part = stored.read(&[], false, 10, &memtable.def).unwrap();
        assert_eq!((part.partition.rows.len(), part.more_after.map(|c| number(&c))), (10, Some(9)));
        let part = stored.read(&[], true, 10, &memtable.def).unwrap();
        assert_eq!((part.partition.rows.len(), part.more_after.map(|c| number(&c))), (10, Some(990)));
        let at = |n: i32| crate::Bound::inclusive(Clustering::new([n.to_be_bytes()]));
        let slices = [Slice { start: at(5), end: at(7) }, Slice { start: at(90), end: at(90) }];
        let part = stored.read(&slices, false, 10, &memtable.def).unwrap();
        assert_eq!(part.partition.rows.iter().map(|r| number(&r.clustering)).collect::<Vec<_>>(), [5, 6, 7, 90]);
        assert_eq!(part.more_after, None);
        let part = stored.read(&slices, true, 2, &memtable.def).unwrap();
        assert_eq!(part.partition.rows.iter().map(|r| number(&r.clustering)).collect::<Vec<_>>(), [7, 90]);
    }
}
