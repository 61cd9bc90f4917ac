//! From a base row to the rows of a view that stand for it, and from two versions of a base row to the view's update.

use storage::{Cell, Clustering, ComplexColumn, DeletionTime, Liveness, Row};
use types::{ColumnKind, CqlType, IndexPart, TableDef, Token, collection, serialize_partition_key};

use super::{Indexed, Maintained, Origin};

/// The TTL of markers that take rows out of a strict view: longer than any that a client may ask for, so that it wins
/// over a marker of the same age, and expired from the beginning. As Cassandra's `LivenessInfo.EXPIRED_LIVENESS_TTL`.
const GONE_TTL_S: u32 = i32::MAX as u32;

/// One version of a base row: of the static row, or of one with a clustering.
#[derive(Clone, Copy)]
pub(super) struct Version<'a> {
    /// `None`: there is nothing.
    pub row: Option<&'a Row>,
    /// The latest of the deletions of the partition, a range and the row.
    pub deletion: Option<DeletionTime>,
}

/// A row of a view that a version of a base row stands for.
struct Entry {
    key: Vec<u8>,
    clustering: Clustering,
    marker: Option<Liveness>,
}

/// What one of a key's columns is taken from.
struct Element<'a> {
    value: &'a [u8],
    path: &'a [u8],
    liveness: Liveness,
}

pub(super) struct Base<'a> {
    pub table: &'a TableDef,
    pub key: &'a [u8],
    pub components: &'a [&'a [u8]],
    pub now_s: u32,
}

/// What a view is to be told when a base row goes from `old` to `new`, by the keys of its partitions.
pub(super) fn updates(
    view: &Maintained,
    base: &Base<'_>,
    clustering: &Clustering,
    old: Version<'_>,
    new: Version<'_>,
) -> Vec<(Vec<u8>, Row)> {
    let mut before = entries(view, base, clustering, old);
    let after = entries(view, base, clustering, new);
    let mut told = Vec::new();
    for entry in after {
        let same = |known: &Entry| known.key == entry.key && known.clustering == entry.clustering;
        let known = before.iter().position(same).map(|at| before.swap_remove(at));
        let since = if known.is_some() { old } else { Version { row: None, deletion: None } };
        let mut row = difference(view, base, since, new);
        row.clustering = entry.clustering;
        row.marker = entry.marker.filter(|marker| known.is_none_or(|known| known.marker != Some(*marker)));
        if !row.is_empty() {
            told.push((entry.key, row));
        }
    }
    for entry in before {
        let mut row = match view.table.is_strict() {
            true => Row { deletion: new.deletion.filter(|now| old.deletion != Some(*now)), ..Row::default() },
            false => difference(view, base, old, new),
        };
        row.clustering = entry.clustering;
        if let Some(marker) = entry.marker
            && !row.deletion.is_some_and(|deletion| deletion.deletes(marker.timestamp))
            && view.table.is_strict()
        {
            row.marker = Some(gone(marker, base.now_s));
        }
        if !row.is_empty() {
            told.push((entry.key, row));
        }
    }
    told
}

/// What takes a row with this marker out of a strict view.
pub(super) fn gone(marker: Liveness, now_s: u32) -> Liveness {
    Liveness { timestamp: marker.timestamp, ttl_s: GONE_TTL_S, local_deletion_s: now_s }
}

/// Whether one of the rows that a version of a base row has in the view has these keys.
pub(super) fn stands_for(
    view: &Maintained,
    base: &Base<'_>,
    clustering: &Clustering,
    version: Version<'_>,
    view_key: &[u8],
    view_clustering: &Clustering,
) -> bool {
    let entries = entries(view, base, clustering, version);
    entries.iter().any(|entry| entry.key == view_key && entry.clustering == *view_clustering)
}

/// The cells and the deletion that `new` has and `old` has not.
fn difference(view: &Maintained, base: &Base<'_>, old: Version<'_>, new: Version<'_>) -> Row {
    let mut row = Row { deletion: new.deletion.filter(|now| old.deletion != Some(*now)), ..Row::default() };
    let Some(now) = new.row else { return row };
    for (to, from) in &view.cells {
        if let Some(cell) = now.cell(*from)
            && old.row.and_then(|old| old.cell(*from)) != Some(cell)
        {
            row.set_cell(*to, cell.clone());
        }
        if let Some(column) = now.complex_column(*from)
            && let Some(ty) = base.table.regulars.get(usize::from(*from)).map(|column| &column.ty)
        {
            let known = old.row.and_then(|old| old.complex_column(*from));
            let mut told = ComplexColumn::new(*to);
            told.deletion = column.deletion.filter(|now| known.and_then(|known| known.deletion) != Some(*now));
            let is_new =
                |(path, cell): &&(storage::Bytes, Cell)| known.and_then(|known| known.cell(path, ty)) != Some(cell);
            told.cells = column.cells.iter().filter(is_new).cloned().collect();
            if !told.is_empty() {
                row.complex.push(told);
            }
        }
    }
    for (to, from) in &view.hidden {
        let cell = life(now, *from, base.now_s);
        if cell != old.row.and_then(|old| life(old, *from, base.now_s))
            && let Some(cell) = cell
        {
            row.set_cell(*to, cell);
        }
    }
    row
}

/// How long a column of a row lives: a cell with an empty value that lives as long, or a tombstone.
fn life(row: &Row, column: u16, now_s: u32) -> Option<Cell> {
    if let Some(cell) = row.cell(column) {
        return Some(Cell { value: cell.value.as_ref().map(|_| storage::Bytes::default()), ..cell.clone() });
    }
    let complex = row.complex_column(column)?;
    let lasting = |cell: &&Cell| (cell.ttl_s == 0, cell.local_deletion_s, cell.timestamp);
    if let Some(cell) = complex.live_cells(now_s).map(|(_, cell)| cell).max_by_key(lasting) {
        return Some(Cell { value: Some(storage::Bytes::default()), ..cell.clone() });
    }
    let dead = complex.cells.iter().map(|(_, cell)| cell.timestamp);
    let timestamp = dead.chain(complex.deletion.map(|deletion| deletion.timestamp)).max()?;
    Some(Cell::tombstone(timestamp, now_s))
}

fn entries(view: &Maintained, base: &Base<'_>, clustering: &Clustering, version: Version<'_>) -> Vec<Entry> {
    let Some(row) = version.row.filter(|row| row.is_live(base.now_s)) else { return Vec::new() };
    let value_of = |index: u16| row.cell(index).filter(|cell| cell.is_live(base.now_s));
    let holds = view.conditions.iter().all(|condition| {
        condition.holds(base.components, |column| match column.kind {
            ColumnKind::Clustering(at) => clustering.component(usize::from(at)).map(<[u8]>::to_vec),
            _ => {
                let cell = base.table.regular_index(&column.name).and_then(|index| value_of(index as u16));
                cell.and_then(|cell| cell.value.as_deref()).map(<[u8]>::to_vec)
            }
        })
    });
    if !holds {
        return Vec::new();
    }
    let token = Token::of_key(base.key).0.to_be_bytes();
    let entry = |element: Option<&Element<'_>>, marker: Option<Liveness>| -> Option<Entry> {
        let part = |origin: &Origin| -> Option<&[u8]> {
            match origin {
                Origin::PartitionKey(at) => base.components.get(*at).copied(),
                Origin::Clustering(at) => clustering.component(*at),
                Origin::Regular(index) => value_of(*index)?.value.as_deref(),
                Origin::Value => element.map(|element| element.value),
                Origin::Element => element.map(|element| element.path),
                Origin::Token => Some(&token),
            }
        };
        let key = view.partition_key.iter().map(part).collect::<Option<Vec<&[u8]>>>()?;
        let clustering = view.clustering.iter().map(part).collect::<Option<Vec<&[u8]>>>()?;
        // What is too long for a key cannot be in the view: rows from before the view may have such values.
        let too_long = |part: &&[u8]| part.len() > usize::from(u16::MAX);
        if key.iter().chain(&clustering).any(too_long) {
            return None;
        }
        let key = serialize_partition_key(&key);
        if key.len() > usize::from(u16::MAX) {
            return None;
        }
        Some(Entry { key, clustering: Clustering::new(clustering), marker })
    };
    let Some(indexed) = &view.indexed else {
        let marker = match view.key_regular {
            Some(index) => value_of(index).map(liveness),
            None => row.marker.filter(|marker| marker.is_live(base.now_s)),
        };
        return entry(None, marker).into_iter().collect();
    };
    indexed_entries(indexed, base, clustering, row, &|element| {
        let marker = if view.table.is_strict() { Some(element.liveness) } else { row.marker };
        entry(Some(element), marker)
    })
}

fn indexed_entries(
    indexed: &Indexed,
    base: &Base<'_>,
    clustering: &Clustering,
    row: &Row,
    entry: &dyn Fn(&Element<'_>) -> Option<Entry>,
) -> Vec<Entry> {
    let key_part = |value: Option<&[u8]>| {
        let liveness = row.marker.unwrap_or(Liveness::live(i64::MIN));
        value.and_then(|value| entry(&Element { value, path: &[], liveness })).into_iter().collect()
    };
    let columns = match indexed.place {
        ColumnKind::PartitionKey(at) => return key_part(base.components.get(usize::from(at)).copied()),
        ColumnKind::Clustering(at) => return key_part(clustering.component(usize::from(at))),
        ColumnKind::Static => &base.table.statics,
        ColumnKind::Regular => &base.table.regulars,
    };
    if !indexed.part.is_collection_part() {
        let cell = row.cell(indexed.index).filter(|cell| cell.is_live(base.now_s));
        let Some((cell, value)) = cell.and_then(|cell| Some((cell, cell.value.as_deref()?))) else {
            return Vec::new();
        };
        return entry(&Element { value, path: &[], liveness: liveness(cell) }).into_iter().collect();
    }
    let (Some(complex), Some(column)) = (row.complex_column(indexed.index), columns.get(usize::from(indexed.index)))
    else {
        return Vec::new();
    };
    let is_set = matches!(column.ty.unfrozen(), CqlType::Set(_));
    let one = |(path, cell): (&[u8], &Cell)| {
        let stored = cell.value.as_deref().unwrap_or(&[]);
        let pair = collection::write_tuple([Some(path), Some(stored)]);
        let value = match indexed.part {
            IndexPart::Keys => path,
            IndexPart::Entries => &pair,
            _ if is_set => path,
            _ => stored,
        };
        entry(&Element { value, path, liveness: liveness(cell) })
    };
    complex.live_cells(base.now_s).filter_map(one).collect()
}

/// A marker as old as a cell, that lives as long.
fn liveness(cell: &Cell) -> Liveness {
    Liveness { timestamp: cell.timestamp, ttl_s: cell.ttl_s, local_deletion_s: cell.local_deletion_s }
}
