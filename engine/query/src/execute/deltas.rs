//! Counters in one batch: what several statements add to one cell adds up, where merging would keep one of them.

use storage::{Cell, Partition, Row};
use types::TableDef;

/// Takes in what another statement does to the same partition of counters.
pub(super) fn take(known: &mut Partition, mut other: Partition, table: &TableDef) {
    if let (Some(ours), Some(theirs)) = (&mut known.static_row, &mut other.static_row) {
        add(ours, theirs);
    }
    for theirs in &mut other.rows {
        if let Some(ours) = known.rows.iter_mut().find(|ours| ours.clustering == theirs.clustering) {
            add(ours, theirs);
        }
    }
    known.merge(other, table);
}

/// Moves what `theirs` adds into cells of `ours` that add something too.
fn add(ours: &mut Row, theirs: &mut Row) {
    theirs.cells.retain(|(index, cell)| {
        let same = ours.cells.iter_mut().find(|(other, _)| other == index);
        let Some((_, mine)) = same else { return true };
        let (Some(a), Some(b)) = (delta(mine), delta(cell)) else { return true };
        *mine = Cell::live(mine.timestamp, &a.wrapping_add(b).to_be_bytes());
        false
    });
}

fn delta(cell: &Cell) -> Option<i64> {
    Some(i64::from_be_bytes(cell.value.as_deref()?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use storage::Clustering;
    use types::CqlType;

    use super::*;

    fn counted(clustering: &[u8], deltas: &[(u16, i64)]) -> Partition {
        let mut row = Row::new(Clustering::new([clustering]));
        row.cells = deltas.iter().map(|(index, delta)| (*index, Cell::live(7, &delta.to_be_bytes()))).collect();
        let mut partition = Partition::new(b"k".to_vec());
        partition.rows.push(row);
        partition
    }

    #[test]
    fn deltas_of_one_cell_add_up() {
        let table = TableDef::builder("ks", "t")
            .partition_key("k", CqlType::Blob)
            .clustering_ordered("c", CqlType::Blob, false)
            .regular("a", CqlType::Counter)
            .regular("b", CqlType::Counter)
            .build();
        let mut known = counted(b"x", &[(0, 1)]);
        for other in [counted(b"x", &[(0, -5), (1, 2)]), counted(b"x", &[(1, 2)]), counted(b"y", &[(0, 9)])] {
            take(&mut known, other, &table);
        }
        let mut expected = counted(b"x", &[(0, -4), (1, 4)]);
        expected.rows.extend(counted(b"y", &[(0, 9)]).rows);
        assert_eq!(known, expected);
    }
}
