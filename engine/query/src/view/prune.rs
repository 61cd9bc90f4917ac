//! Rows of a view that no row of its table stands for: how to look one up, and how to delete it. Pure.

use storage::{Bytes, Clustering, DeletionTime, Liveness, Partition, ReadCommand, Row, Slice};
use types::{partition_key_components, serialize_partition_key};

use super::entry::{self, Base};
use super::update::version;
use super::{Maintained, Origin, Viewed};

/// A row of a view, by its keys.
pub(crate) struct ViewRow<'a> {
    pub key: &'a Bytes,
    pub row: &'a Row,
}

impl ViewRow<'_> {
    /// The one of the view's key columns that comes from `origin`.
    fn part(&self, view: &Maintained, origin: Origin) -> Result<Option<&[u8]>, String> {
        let key = partition_key_components(self.key, view.table.partition_key.len()).map_err(|e| e.to_string())?;
        if let Some(at) = view.partition_key.iter().position(|known| *known == origin) {
            return Ok(key.get(at).copied());
        }
        let at = view.clustering.iter().position(|known| *known == origin);
        Ok(at.and_then(|at| self.row.clustering.component(at)))
    }
}

/// What to read of the base: the row that `row` was made of.
pub(crate) fn lookup(viewed: &Viewed, view: &Maintained, row: &ViewRow<'_>, now_s: u32) -> Result<ReadCommand, String> {
    let base = &*viewed.base;
    let part = |origin| row.part(view, origin)?.ok_or_else(|| "the view has lost a key of its table".to_string());
    let key = (0..base.partition_key.len()).map(|at| part(Origin::PartitionKey(at))).collect::<Result<Vec<_>, _>>()?;
    let command = ReadCommand::partition(base.id, serialize_partition_key(&key), now_s);
    if view.is_static() {
        let nowhere = || storage::Bound::exclusive(Clustering::empty());
        return Ok(ReadCommand { slices: vec![Slice { start: nowhere(), end: nowhere() }], ..command });
    }
    let clustering =
        (0..base.clustering.len()).map(|at| part(Origin::Clustering(at))).collect::<Result<Vec<_>, _>>()?;
    Ok(ReadCommand { slices: vec![Slice::prefix(Clustering::new(clustering))], ..command })
}

/// Whether what [`lookup`] found stands for the row.
pub(crate) fn is_backed(
    viewed: &Viewed,
    view: &Maintained,
    row: &ViewRow<'_>,
    lookup: &ReadCommand,
    found: Option<&Partition>,
) -> Result<bool, String> {
    let Some(found) = found else { return Ok(false) };
    let table = &*viewed.base;
    let components = partition_key_components(&found.key, table.partition_key.len()).map_err(|e| e.to_string())?;
    let base = Base { table, key: &found.key, components: &components, now_s: lookup.now_s };
    let (clustering, version) = match (view.is_static(), lookup.slices.first()) {
        (false, Some(slice)) => {
            let clustering = slice.start.prefix.clone();
            let version = version(found, &clustering, table);
            (clustering, version)
        }
        _ => {
            let version = entry::Version { row: found.static_row.as_ref(), deletion: found.deletion };
            (Clustering::empty(), version)
        }
    };
    Ok(entry::stands_for(view, &base, &clustering, version, row.key, &row.row.clustering))
}

/// Deletes what is there of a row, and nothing that a later write of the base brings. Where rows live by their markers,
/// the marker alone expires: cells keep their ages and come back with a younger marker.
pub(crate) fn deletion(view: &Maintained, row: &Row, now_s: u32) -> Row {
    let gone = Row::new(row.clustering.clone());
    if view.table.is_strict() {
        return Row { marker: row.marker.map(|marker| entry::gone(marker, now_s)), ..gone };
    }
    let cells = row.cells.iter().map(|(_, cell)| cell.timestamp);
    let elements = row.complex.iter().flat_map(|column| column.cells.iter().map(|(_, cell)| cell.timestamp));
    let marker = row.marker.as_ref().map(|marker: &Liveness| marker.timestamp);
    let latest = cells.chain(elements).chain(marker).max();
    Row { deletion: latest.map(|timestamp| DeletionTime { timestamp, local_s: now_s }), ..gone }
}
