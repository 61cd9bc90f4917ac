//! Large rows, cells and collections, of tables `WITH large_data_guardrails_enabled = true`: under Scylla's names, one
//! write over a `large_.._fail_threshold` is refused, and one over the threshold from which on storage tells of what is
//! large is warned of. What a write deletes is never too large.

use std::collections::BTreeSet;
use std::fmt::Write;

use storage::{LargeThresholds, Partition, Row};
use types::{ColumnDef, TableDef};

use crate::error::{QueryError, invalid};
use crate::journal;
use crate::node::Node;
use crate::settings::Settings;

/// The table's option.
pub(crate) const OPTION: &str = "large_data_guardrails_enabled";

/// Whether writes to the table are looked at.
pub(crate) fn guards(table: &TableDef) -> bool {
    table.options.other.get(OPTION).is_some_and(|value| value == "true")
}

/// From what size on writes are refused; `u64::MAX`: never.
fn limits(settings: &Settings) -> LargeThresholds {
    let number = |name: &str, unit: f64| match settings.number(name) {
        set if set > 0.0 => (set * unit) as u64,
        _ => u64::MAX,
    };
    const MIB: f64 = 1048576.0;
    LargeThresholds {
        row_bytes: number("large_row_fail_threshold_mb", MIB),
        cell_bytes: number("large_cell_fail_threshold_mb", MIB),
        collection_elements: number("large_collection_elements_fail_threshold", 1.0),
        ..LargeThresholds::NEVER
    }
}

/// Something that is written, with its size.
struct Part<'a> {
    what: &'static str,
    unit: &'static str,
    size: u64,
    column: Option<&'a ColumnDef>,
    warns_at: u64,
    refuses_at: u64,
}

impl Part<'_> {
    fn tell(&self, table: &TableDef, limit: &str, threshold: u64) -> String {
        let mut text = format!(
            "Large data guardrail: {} of {} {} exceeds {limit} limit of {threshold} (keyspace={}, table={}",
            self.what, self.size, self.unit, table.keyspace, table.name
        );
        if let Some(column) = self.column {
            let _ = write!(text, ", column={}", column.name);
        }
        text + ")"
    }
}

/// The row, and what of it has a limit of its own.
fn parts<'a>(row: &Row, table: &'a TableDef, soft: &LargeThresholds, hard: &LargeThresholds) -> Vec<Part<'a>> {
    let is_static = row.clustering.as_bytes().is_empty() && !table.clustering.is_empty();
    let columns = if is_static { &table.statics } else { &table.regulars };
    let mut parts = Vec::new();
    let mut row_bytes = row.clustering.as_bytes().len();
    for (at, cell) in &row.cells {
        let bytes = cell.value.as_ref().map_or(0, |value| value.len());
        row_bytes += bytes;
        parts.push(Part {
            what: if is_static { "static cell size" } else { "cell size" },
            unit: "bytes",
            size: bytes as u64,
            column: columns.get(usize::from(*at)),
            warns_at: soft.cell_bytes,
            refuses_at: hard.cell_bytes,
        });
    }
    for complex in row.complex.iter() {
        let live = complex.cells.iter().filter(|(_, cell)| cell.value.is_some());
        let (mut elements, mut bytes) = (0, 0);
        for (path, cell) in live {
            elements += 1;
            bytes += path.len() + cell.value.as_ref().map_or(0, |value| value.len());
        }
        row_bytes += bytes;
        let column = columns.get(usize::from(complex.column));
        let size = |what, unit, size, warns_at, refuses_at| Part { what, unit, size, column, warns_at, refuses_at };
        parts.push(size("cell size", "bytes", bytes as u64, soft.cell_bytes, hard.cell_bytes));
        let (warns_at, refuses_at) = (soft.collection_elements, hard.collection_elements);
        parts.push(size("collection size", "elements", elements, warns_at, refuses_at));
    }
    parts.push(Part {
        what: if is_static { "static row size" } else { "row size" },
        unit: "bytes",
        size: row_bytes as u64,
        column: None,
        warns_at: soft.row_bytes,
        refuses_at: hard.row_bytes,
    });
    parts
}

/// Refuses what is over a hard limit; names what is over a soft one.
fn check(
    table: &TableDef,
    partitions: &[Partition],
    soft: &LargeThresholds,
    hard: &LargeThresholds,
) -> Result<BTreeSet<&'static str>, QueryError> {
    let mut over = BTreeSet::new();
    for partition in partitions {
        for row in partition.static_row.iter().chain(&partition.rows) {
            for part in parts(row, table, soft, hard) {
                if part.size > part.refuses_at {
                    let told = part.tell(table, "hard", part.refuses_at);
                    return Err(invalid!("{told}: split it, or raise the limit in the configuration"));
                }
                if part.size > part.warns_at {
                    tracing::warn!(target: "large_data", "{}", part.tell(table, "soft", part.warns_at));
                    over.insert(part.what);
                }
            }
        }
    }
    Ok(over)
}

impl Node {
    /// Of a table that [`guards`]: what the client is warned of.
    pub(crate) fn guard_large(&self, table: &TableDef, partitions: &[Partition]) -> Result<Option<String>, QueryError> {
        let soft = journal::storage::thresholds(&self.settings);
        let over = check(table, partitions, &soft, &limits(&self.settings))?;
        if over.is_empty() || !self.settings.flag("large_data_cql_warnings") {
            return Ok(None);
        }
        let over = over.into_iter().collect::<Vec<_>>().join(", ");
        let (keyspace, name) = (&table.keyspace, &table.name);
        Ok(Some(format!("Large data guardrail: soft limit violation of {over} (keyspace={keyspace}, table={name})")))
    }
}

#[cfg(test)]
mod tests {
    use storage::{Cell, Clustering};
    use types::CqlType;

    use super::*;

    const LIMITS: LargeThresholds =
        LargeThresholds { row_bytes: 100, cell_bytes: 50, collection_elements: 2, ..LargeThresholds::NEVER };

    fn partition(cells: Vec<(u16, Cell)>, elements: &[&str]) -> Partition {
        let mut row = Row::new(Clustering::empty());
        row.cells = cells;
        for element in elements {
            let set = row.complex.get_or_insert(1);
            set.cells.push((element.as_bytes().into(), Cell::live(1, Vec::new())));
        }
        let mut partition = Partition::new(b"k".to_vec());
        partition.rows.push(row);
        partition
    }

    #[test]
    fn sizes_are_held_against_both_limits() {
        let table = TableDef::builder("ks", "t")
            .partition_key("p", CqlType::Int)
            .regular("a", CqlType::Blob)
            .regular("b", CqlType::set(CqlType::Text))
            .build();
        let cell = |bytes: usize| vec![(0, Cell::live(1, vec![0; bytes]))];
        let soft = |partition: Partition| check(&table, &[partition], &LIMITS, &LargeThresholds::NEVER).unwrap();
        let hard = |partition: Partition| {
            check(&table, &[partition], &LargeThresholds::NEVER, &LIMITS).map_err(|error| error.message)
        };
        assert!(soft(partition(cell(50), &["x", "y"])).is_empty());
        assert_eq!(soft(partition(cell(51), &[])).into_iter().collect::<Vec<_>>(), ["cell size"]);
        assert_eq!(soft(partition(cell(101), &[])).into_iter().collect::<Vec<_>>(), ["cell size", "row size"]);
        assert_eq!(soft(partition(vec![], &["x", "y", "z"])).into_iter().collect::<Vec<_>>(), ["collection size"]);
        assert!(hard(partition(cell(50), &[])).is_ok());
        let refused = hard(partition(cell(51), &[])).unwrap_err();
        let told = "cell size of 51 bytes exceeds hard limit of 50 (keyspace=ks, table=t, column=a)";
        assert!(refused.contains(told), "{refused}");
    }

    #[test]
    fn a_limit_of_zero_is_none() {
        assert_eq!(limits(&Settings::new(&[]).unwrap()), LargeThresholds::NEVER);
        let given = [("large_cell_fail_threshold_mb".to_string(), "2".to_string())];
        assert_eq!(limits(&Settings::new(&given).unwrap()).cell_bytes, 2 << 20);
    }
}
