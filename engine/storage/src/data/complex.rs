//! Columns of several cells: collections and user types that are not frozen.
//!
//! Each element is a cell of its own, named by its path, so that writers of different elements do not disturb each
//! other; a deletion of the whole column shadows the elements at or below its timestamp. As `ComplexColumnData` of
//! Apache Cassandra. Cells stand in the order of their paths, which the column's type gives
//! ([`CqlType::path_type`]).
//!
//! A write is built in three ways: elements set or removed one by one; the column deleted; or replaced, which deletes
//! what is older than the write (one microsecond below it, so that it does not shadow itself) and sets elements.

use std::cmp::Ordering;

use types::{CqlType, collection, multi_cell};

use super::{Bytes, Cell, DeletionTime, Purge, Stamp};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComplexColumn {
    /// As in `Row::cells`.
    pub column: u16,
    /// Deletes every element at or below its timestamp.
    pub deletion: Option<DeletionTime>,
    /// Path and cell, sorted by path, each path once.
    pub cells: Vec<(Bytes, Cell)>,
}

impl ComplexColumn {
    pub fn new(column: u16) -> Self {
        Self { column, ..Self::default() }
    }

    /// Whether nothing is left of it.
    pub fn is_empty(&self) -> bool {
        self.deletion.is_none() && self.cells.is_empty()
    }

    pub fn is_live(&self, now_s: u32) -> bool {
        self.cells.iter().any(|(_, cell)| cell.is_live(now_s))
    }

    /// Paths and cells that a reader sees, in order.
    pub fn live_cells(&self, now_s: u32) -> impl DoubleEndedIterator<Item = (&[u8], &Cell)> {
        self.cells.iter().filter(move |(_, cell)| cell.is_live(now_s)).map(|(path, cell)| (&**path, cell))
    }

    /// The cell of one element.
    pub fn cell(&self, path: &[u8], ty: &CqlType) -> Option<&Cell> {
        let path_type = ty.path_type()?;
        let at = self.cells.binary_search_by(|(other, _)| path_type.compare(other, path)).ok()?;
        Some(&self.cells[at].1)
    }

    /// The value that a reader sees, as the frozen type would have it; `None` when no element is left.
    pub fn value(&self, ty: &CqlType, now_s: u32) -> Option<Vec<u8>> {
        ty.assemble(self.live_cells(now_s).map(|(path, cell)| (path, cell.value.as_deref().unwrap_or(&[]))))
    }

    /// `DELETE column`: every element up to and with the write's own timestamp.
    pub fn delete(&mut self, stamp: Stamp) {
        let deletion = DeletionTime { timestamp: stamp.timestamp, local_s: stamp.now_s };
        self.deletion = DeletionTime::latest(self.deletion, Some(deletion));
    }

    /// `SET column = ..`, before its elements: every element older than the write.
    pub fn replace(&mut self, stamp: Stamp) {
        self.delete(Stamp { timestamp: stamp.timestamp.saturating_sub(1), ..stamp });
    }

    /// Sets one element, in any order: [`ComplexColumn::sort`] brings them into theirs. A set's elements have the empty
    /// value, a list's paths come from [`ListPaths`](super::ListPaths).
    pub fn set(&mut self, path: impl Into<Bytes>, value: impl Into<Bytes>, stamp: Stamp) {
        self.cells.push((path.into(), stamp.cell(value)));
    }

    /// Removes one element.
    pub fn remove(&mut self, path: impl Into<Bytes>, stamp: Stamp) {
        self.cells.push((path.into(), stamp.tombstone()));
    }

    /// Sets the elements of a whole value of type `ty`; `list_path` gives the paths of a list's. A null field of a user
    /// type is removed.
    pub fn set_all(
        &mut self,
        ty: &CqlType,
        value: &[u8],
        stamp: Stamp,
        mut list_path: impl FnMut() -> [u8; 16],
    ) -> Result<(), types::Error> {
        match ty {
            CqlType::Map(..) => {
                for (key, value) in collection::entries(value)? {
                    self.set(key.unwrap_or_default(), value.unwrap_or_default(), stamp);
                }
            }
            CqlType::Udt(udt) => {
                for (index, field) in (0..).zip(collection::fields(value, udt.fields.len())?) {
                    let path = &multi_cell::path_of_field(index);
                    match field {
                        Some(field) => self.set(path, field, stamp),
                        None => self.remove(path, stamp),
                    }
                }
            }
            CqlType::Set(_) => {
                for element in collection::elements(value)? {
                    self.set(element.unwrap_or_default(), &[], stamp);
                }
            }
            _ => {
                for element in collection::elements(value)? {
                    self.set(&list_path(), element.unwrap_or_default(), stamp);
                }
            }
        }
        self.sort(ty);
        Ok(())
    }

    /// Brings the cells into order; of several with one path, the one that wins stays.
    pub fn sort(&mut self, ty: &CqlType) {
        let Some(path_type) = ty.path_type() else { return };
        self.cells.sort_by(|(a, _), (b, _)| path_type.compare(a, b));
        self.cells.dedup_by(|later, first| {
            let same = path_type.compare(&later.0, &first.0).is_eq();
            if same && later.1.wins_over(&first.1) {
                std::mem::swap(first, later);
            }
            same
        });
    }

    /// Takes in another version of the same column, element by element.
    pub(super) fn merge(&mut self, other: ComplexColumn, ty: Option<&CqlType>) {
        self.deletion = DeletionTime::latest(self.deletion, other.deletion);
        if self.cells.is_empty() {
            self.cells = other.cells;
        } else if !other.cells.is_empty() {
            // A column that the table does not have any more: any order will do, if it is one.
            let path_type = ty.and_then(CqlType::path_type).unwrap_or(&CqlType::Blob);
            self.cells = merge_cells(std::mem::take(&mut self.cells), other.cells, path_type);
        }
        if let Some(deletion) = self.deletion {
            self.cells.retain(|(_, cell)| !deletion.deletes(cell.timestamp));
        }
    }

    /// Drops what `deletion` (of the row, a range or the partition) shadows: also the column's own when it says less.
    pub(super) fn apply_deletion(&mut self, deletion: DeletionTime) {
        if self.deletion.is_some_and(|own| !own.supersedes(&deletion)) {
            self.deletion = None;
        }
        self.cells.retain(|(_, cell)| !deletion.deletes(cell.timestamp));
    }

    /// Drops what the column's own deletion shadows.
    pub(super) fn purge_shadowed(&mut self) {
        if let Some(deletion) = self.deletion {
            self.cells.retain(|(_, cell)| !deletion.deletes(cell.timestamp));
        }
    }

    pub(super) fn purge_tombstones(&mut self, purge: &Purge) {
        self.deletion.take_if(|deletion| purge.drops(deletion.timestamp, deletion.local_s));
        self.cells.retain_mut(|(_, cell)| purge.keeps_cell(cell));
    }

    /// Every timestamp in it.
    pub(super) fn timestamps(&self) -> impl Iterator<Item = i64> {
        let deletion = self.deletion.iter().map(|deletion| deletion.timestamp);
        deletion.chain(self.cells.iter().map(|(_, cell)| cell.timestamp))
    }

    /// Memory behind its own fields.
    pub(crate) fn heap_bytes(&self) -> usize {
        let values =
            self.cells.iter().map(|(path, cell)| path.len() + cell.value.as_ref().map_or(0, |value| value.len()));
        self.cells.len() * size_of::<(Bytes, Cell)>() + values.sum::<usize>()
    }
}

fn merge_cells(ours: Vec<(Bytes, Cell)>, theirs: Vec<(Bytes, Cell)>, path_type: &CqlType) -> Vec<(Bytes, Cell)> {
    let mut merged = Vec::with_capacity(ours.len() + theirs.len());
    let (mut ours, mut theirs) = (ours.into_iter().peekable(), theirs.into_iter().peekable());
    loop {
        let order = match (ours.peek(), theirs.peek()) {
            (Some((a, _)), Some((b, _))) => path_type.compare(a, b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return merged,
        };
        match order {
            Ordering::Less => merged.extend(ours.next()),
            Ordering::Greater => merged.extend(theirs.next()),
            Ordering::Equal => {
                if let (Some(a), Some(b)) = (ours.next(), theirs.next()) {
                    merged.push(if a.1.wins_over(&b.1) { a } else { b });
                }
            }
        }
    }
}

/// The columns of several cells of one row, sorted by column. One word when there are none: in most rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComplexColumns(
    #[allow(clippy::box_collection, reason = "a third of a vector's size in every row")]
    Option<Box<Vec<ComplexColumn>>>,
);

impl ComplexColumns {
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, ComplexColumn> {
        self.0.as_deref_mut().map_or(&mut [][..], |list| list).iter_mut()
    }

    pub fn get(&self, column: u16) -> Option<&ComplexColumn> {
        self.binary_search_by_key(&column, |known| known.column).ok().map(|at| &self[at])
    }

    /// The column, empty if it was not there: it must not stay so.
    pub fn get_or_insert(&mut self, column: u16) -> &mut ComplexColumn {
        let list = self.0.get_or_insert_default();
        let at = match list.binary_search_by_key(&column, |known| known.column) {
            Ok(at) => at,
            Err(at) => {
                list.insert(at, ComplexColumn::new(column));
                at
            }
        };
        &mut list[at]
    }

    /// Adds a column behind the others. Nothing happens when it is empty.
    pub fn push(&mut self, column: ComplexColumn) {
        if !column.is_empty() {
            self.0.get_or_insert_default().push(column);
        }
    }

    pub(super) fn retain_mut(&mut self, keep: impl FnMut(&mut ComplexColumn) -> bool) {
        if let Some(list) = &mut self.0 {
            list.retain_mut(keep);
            if list.is_empty() {
                self.0 = None;
            }
        }
    }

    pub(super) fn merge(&mut self, other: ComplexColumns, columns: &[types::ColumnDef]) {
        for theirs in other.0.into_iter().flat_map(|list| *list) {
            let ty = columns.get(usize::from(theirs.column)).map(|column| &column.ty);
            self.get_or_insert(theirs.column).merge(theirs, ty);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.iter().map(|column| size_of::<ComplexColumn>() + column.heap_bytes()).sum()
    }
}

impl std::ops::Deref for ComplexColumns {
    type Target = [ComplexColumn];
    #[inline]
    fn deref(&self) -> &[ComplexColumn] {
        self.0.as_deref().map_or(&[], |list| list)
    }
}

impl FromIterator<ComplexColumn> for ComplexColumns {
    /// Columns in order.
    fn from_iter<T: IntoIterator<Item = ComplexColumn>>(columns: T) -> Self {
        let mut all = Self::default();
        columns.into_iter().for_each(|column| all.push(column));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ListPaths, NEVER_S};
    use super::*;

    fn int(n: i32) -> [u8; 4] {
        n.to_be_bytes()
    }

    fn at(timestamp: i64) -> Stamp {
        Stamp { timestamp, ttl_s: 0, now_s: 100 }
    }

    fn shown(column: &ComplexColumn, ty: &CqlType) -> String {
        column.value(ty, 0).map_or("null".into(), |value| ty.to_cql_literal(&value).unwrap())
    }

    #[test]
    fn elements_merge_one_by_one_in_the_order_of_their_type() {
        let ty = CqlType::map(CqlType::Int, CqlType::Text);
        let mut map = ComplexColumn::new(0);
        map.set(&int(5), "five", at(10));
        map.set(&int(-1), "minus", at(10));
        map.sort(&ty);
        let mut other = ComplexColumn::new(0);
        other.set(&int(5), "FIVE", at(11));
        other.remove(&int(-1), at(10));
        other.set(&int(0), "zero", at(1));
        other.sort(&ty);
        map.merge(other, Some(&ty));
        assert_eq!(shown(&map, &ty), "{0: 'zero', 5: 'FIVE'}");
        assert_eq!(map.cell(&int(-1), &ty).map(Cell::is_tombstone), Some(true));
        assert!(map.cell(&int(7), &ty).is_none());
    }

    #[test]
    fn replacing_shadows_what_is_older_and_not_itself() {
        let ty = CqlType::set(CqlType::Int);
        let mut set = ComplexColumn::new(0);
        set.set(&int(1), &[], at(9));
        set.set(&int(2), &[], at(11));
        let mut new = ComplexColumn::new(0);
        new.replace(at(10));
        let value = collection::write_collection(2, [&int(7)[..], &int(-7)]);
        new.set_all(&ty, &value, at(10), || [0; 16]).unwrap();
        set.merge(new, Some(&ty));
        assert_eq!(shown(&set, &ty), "{-7, 2, 7}");
        let mut gone = ComplexColumn::new(0);
        gone.delete(at(10));
        set.merge(gone, Some(&ty));
        assert_eq!(shown(&set, &ty), "{2}");
        assert_eq!(set.deletion, Some(DeletionTime { timestamp: 10, local_s: 100 }));
    }

    #[test]
    fn lists_grow_at_both_ends() {
        let ty = CqlType::list(CqlType::Int);
        let mut paths = ListPaths::new(7);
        let mut list = ComplexColumn::new(0);
        let now_us = 1_700_000_000_000_000;
        for n in [1, 2] {
            list.set(&paths.append(now_us), &int(n), at(1));
        }
        let before = paths.prepend(now_us, 12);
        for (n, path) in (-12..0).zip(before) {
            list.set(&path, &int(n), at(2));
        }
        list.set(&paths.append(now_us), &int(3), at(1));
        let before = paths.prepend(now_us + 1, 1);
        list.set(&before[0], &int(-13), at(2));
        list.sort(&ty);
        let numbers: Vec<String> = (-13..4).filter(|n| *n != 0).map(|n| n.to_string()).collect();
        assert_eq!(shown(&list, &ty), format!("[{}]", numbers.join(", ")));
    }

    #[test]
    fn fields_of_a_user_type() {
        let fields = vec![("a".to_string(), CqlType::Int), ("b".to_string(), CqlType::Text)];
        let ty = CqlType::Udt(std::sync::Arc::new(types::UserType { keyspace: "k".into(), name: "u".into(), fields }));
        let mut column = ComplexColumn::new(3);
        column.replace(at(5));
        column.set_all(&ty, &collection::write_tuple([None, Some(&b"x"[..])]), at(5), || [0; 16]).unwrap();
        assert_eq!(shown(&column, &ty), "{a: null, b: 'x'}");
        assert_eq!(column.cells[0].1, Cell::tombstone(5, 100));
        assert_eq!(column.cells[1].1.local_deletion_s, NEVER_S);
    }

    #[test]
    fn rows_without_any_pay_a_word() {
        assert_eq!(size_of::<ComplexColumns>(), size_of::<usize>());
        let mut columns = ComplexColumns::default();
        columns.push(ComplexColumn::new(1));
        assert_eq!(columns, ComplexColumns::default());
        columns.get_or_insert(4).delete(at(1));
        columns.get_or_insert(2).delete(at(1));
        assert_eq!(columns.iter().map(|c| c.column).collect::<Vec<_>>(), [2, 4]);
        columns.retain_mut(|_| false);
        assert_eq!(columns, ComplexColumns::default());
    }
}
