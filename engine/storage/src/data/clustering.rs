//! Clustering keys, bounds and slices, and their order within a partition.
//!
//! A bound is a position between rows: a prefix of a clustering and a side of it. An inclusive start and an exclusive
//! end stand before every row with that prefix, an exclusive start and an inclusive end behind. The empty prefix is
//! the partition's beginning or end.

use std::cmp::Ordering;

use types::{TableDef, vint};

use super::Bytes;

/// The clustering key of a row, or a prefix of one: `(unsigned vint length, bytes)` for each component. Empty for
/// static rows and for tables without clustering columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Clustering(pub(crate) Bytes);

impl Clustering {
    pub fn new<T: AsRef<[u8]>>(components: impl IntoIterator<Item = T>) -> Self {
        let mut out = Vec::new();
        for component in components {
            write_component(component.as_ref(), &mut out);
        }
        Self(out.into())
    }

    /// From the encoded form, which must be whole.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, super::Malformed> {
        let mut components = Components(bytes);
        while components.next().is_some() {}
        if !components.0.is_empty() {
            return Err(super::Malformed { what: "clustering" });
        }
        Ok(Self(bytes.into()))
    }

    pub fn empty() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of components.
    pub fn len(&self) -> usize {
        self.components().count()
    }

    pub fn components(&self) -> Components<'_> {
        Components(&self.0)
    }

    pub fn component(&self, position: usize) -> Option<&[u8]> {
        self.components().nth(position)
    }

    /// The encoded form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Order of two full clusterings of `table`.
    pub fn compare(&self, other: &Clustering, table: &TableDef) -> Ordering {
        compare_positions(table, Position { prefix: &self.0, side: 0 }, Position { prefix: &other.0, side: 0 })
    }
}

pub(crate) fn write_component(component: &[u8], out: &mut Vec<u8>) {
    vint::write_unsigned(component.len() as u64, out);
    out.extend_from_slice(component);
}

/// The components of an encoded clustering. Ends early on malformed bytes, which decoding has refused before.
pub struct Components<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Components<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        // Lengths below 128 take one byte: nearly all of them.
        let len = match *self.0.first()? {
            short @ 0..=127 => {
                self.0 = &self.0[1..];
                usize::from(short)
            }
            _ => usize::try_from(vint::read_unsigned(&mut self.0)?).ok()?,
        };
        let (component, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(component)
    }
}

/// One end of a slice or of a range tombstone: whether it starts or ends there comes from where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bound {
    pub prefix: Clustering,
    pub inclusive: bool,
}

impl Bound {
    pub fn inclusive(prefix: Clustering) -> Self {
        Self { prefix, inclusive: true }
    }

    pub fn exclusive(prefix: Clustering) -> Self {
        Self { prefix, inclusive: false }
    }

    /// Before the first row as a start, behind the last one as an end.
    pub fn unbounded() -> Self {
        Self::inclusive(Clustering::empty())
    }

    /// Order of two bounds that both start something.
    pub fn compare_start(&self, other: &Bound, table: &TableDef) -> Ordering {
        compare_positions(table, self.as_start(), other.as_start())
    }

    /// The same position for something that ends there, of what starts there, and the other way around.
    pub(crate) fn turned(&self) -> Bound {
        Bound { prefix: self.prefix.clone(), inclusive: !self.inclusive }
    }

    pub(crate) fn as_start(&self) -> Position<'_> {
        Position { prefix: &self.prefix.0, side: if self.inclusive { -1 } else { 1 } }
    }

    pub(crate) fn as_end(&self) -> Position<'_> {
        Position { prefix: &self.prefix.0, side: if self.inclusive { 1 } else { -1 } }
    }
}

/// The rows between two bounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    pub start: Bound,
    pub end: Bound,
}

impl Slice {
    pub fn all() -> Self {
        Self { start: Bound::unbounded(), end: Bound::unbounded() }
    }

    /// The rows with this prefix; with a full clustering, the one row.
    pub fn prefix(prefix: Clustering) -> Self {
        Self { start: Bound::inclusive(prefix.clone()), end: Bound::inclusive(prefix) }
    }

    pub fn is_all(&self) -> bool {
        self.start.prefix.is_empty() && self.end.prefix.is_empty()
    }

    pub fn contains(&self, row: &Clustering, table: &TableDef) -> bool {
        let row = Position::row(&row.0);
        compare_positions(table, self.start.as_start(), row).is_lt()
            && compare_positions(table, row, self.end.as_end()).is_lt()
    }

    /// Leaves what comes after `done`, in reading order.
    pub(crate) fn advance(&mut self, done: &Slice, reverse: bool) {
        if reverse {
            self.end = done.start.turned();
        } else {
            self.start = done.end.turned();
        }
    }

    /// The part of it that comes after `row`, in reading order; `None` when there is none.
    pub fn behind(&self, row: &Clustering, reverse: bool, table: &TableDef) -> Option<Slice> {
        let at = Position::row(&row.0);
        let edge = Bound::exclusive(row.clone());
        if reverse {
            if compare_positions(table, at, self.start.as_start()).is_le() {
                return None;
            }
            let cut = compare_positions(table, at, self.end.as_end()).is_lt();
            return Some(Slice { start: self.start.clone(), end: if cut { edge } else { self.end.clone() } });
        }
        if compare_positions(table, at, self.end.as_end()).is_ge() {
            return None;
        }
        let cut = compare_positions(table, at, self.start.as_start()).is_gt();
        Some(Slice { start: if cut { edge } else { self.start.clone() }, end: self.end.clone() })
    }
}

/// A row (side 0) or a place before (-1) or behind (1) all rows with a prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position<'a> {
    pub prefix: &'a [u8],
    pub side: i8,
}

impl<'a> Position<'a> {
    pub fn row(clustering: &'a [u8]) -> Self {
        Self { prefix: clustering, side: 0 }
    }

    pub fn to_start(self) -> Bound {
        Bound { prefix: Clustering(self.prefix.into()), inclusive: self.side < 0 }
    }

    pub fn to_end(self) -> Bound {
        Bound { prefix: Clustering(self.prefix.into()), inclusive: self.side > 0 }
    }
}

/// Component by component; where one is a prefix of the other, the shorter one's side decides.
pub(crate) fn compare_positions(table: &TableDef, a: Position<'_>, b: Position<'_>) -> Ordering {
    let (mut left, mut right) = (Components(a.prefix), Components(b.prefix));
    let mut position = 0;
    loop {
        match (left.next(), right.next()) {
            (Some(x), Some(y)) => {
                // A damaged row may have more components than the table; it is refused when decoded with its table.
                let order =
                    if position < table.clustering.len() { table.compare_clustering(position, x, y) } else { x.cmp(y) };
                if order != Ordering::Equal {
                    return order;
                }
                position += 1;
            }
            (None, None) => return a.side.cmp(&b.side),
            (None, Some(_)) => return if a.side <= 0 { Ordering::Less } else { Ordering::Greater },
            (Some(_), None) => return if b.side <= 0 { Ordering::Greater } else { Ordering::Less },
        }
    }
}

#[cfg(test)]
mod tests {
    use types::CqlType;

    use super::*;

    fn table() -> TableDef {
        TableDef::builder("k", "t")
            .partition_key("p", CqlType::Int)
            .clustering("a", CqlType::Text)
            .clustering_ordered("b", CqlType::Int, true)
            .build()
    }

    fn key(parts: &[&[u8]]) -> Clustering {
        Clustering::new(parts)
    }

    #[test]
    fn components_come_back() {
        let long = vec![7; 300];
        let clustering = key(&[b"a", b"", &long]);
        assert_eq!(clustering.components().collect::<Vec<_>>(), [&b"a"[..], b"", &long]);
        assert_eq!((clustering.len(), Clustering::empty().len()), (3, 0));
    }

    #[test]
    fn positions_around_prefixes() {
        let table = table();
        let one = 1i32.to_be_bytes();
        let two = 2i32.to_be_bytes();
        let ascending = [
            Bound::unbounded().as_start().to_start(),
            Bound::inclusive(key(&[b"a"])),
            Bound::inclusive(key(&[b"a", &two])),
            Bound::exclusive(key(&[b"a", &two])),
            Bound::inclusive(key(&[b"a", &one])),
            Bound::exclusive(key(&[b"a"])),
            Bound::inclusive(key(&[b"b"])),
        ];
        for pair in ascending.windows(2) {
            let (a, b) = (pair[0].as_start(), pair[1].as_start());
            assert_eq!(compare_positions(&table, a, b), Ordering::Less, "{pair:?}");
            assert_eq!(compare_positions(&table, b, a), Ordering::Greater, "{pair:?}");
        }
        let row = key(&[b"a", &two]);
        let row = Position::row(&row.0);
        assert_eq!(compare_positions(&table, row, Bound::inclusive(key(&[b"a"])).as_end()), Ordering::Less);
        assert_eq!(compare_positions(&table, row, Bound::exclusive(key(&[b"a"])).as_end()), Ordering::Greater);
        assert_eq!(compare_positions(&table, row, Bound::unbounded().as_end()), Ordering::Less);
    }
}
