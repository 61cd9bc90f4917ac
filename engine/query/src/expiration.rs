//! Rows whose table has a TTL column, and whose time has come: deleted in the background, as ScyllaDB's per-row TTL.
//!
//! Every shard scans what it has of such tables each `alternator_ttl_period_in_seconds`. Of a partition's replicas the
//! first that is alive deletes. A deletion has the newest timestamp that was seen in the row: what is written meanwhile
//! is newer, and stays.

use std::rc::Rc;
use std::time::Duration;

use cql::Consistency;
use cql::response::WriteType;
use reactor::{Group, time};
use storage::{Clustering, DeletionTime, Mutation, Partition, Row, ScanCommand};
use types::{CqlType, TableDef, Token};

use crate::node::Node;

/// Rows that are read at once.
const PAGE_ROWS: usize = 500;
/// A shorter period would keep a shard busy.
const PERIOD_MIN: Duration = Duration::from_millis(100);

/// Scans from now on, if there is anything to scan.
pub(crate) fn start(node: &Rc<Node>) {
    if node.expires_rows.get() || !has_tables(node) {
        return;
    }
    node.expires_rows.set(true);
    let node = Rc::downgrade(node);
    drop(reactor::spawn(Group::Maintenance, "row-expiration", async move {
        loop {
            let Some(period) = node.upgrade().map(|node| period(&node)) else { return };
            time::sleep(period).await;
            let Some(node) = node.upgrade() else { return };
            if !has_tables(&node) {
                return node.expires_rows.set(false);
            }
            if let Err(cause) = pass(&node).await {
                tracing::warn!(%cause, "rows that have expired could not be deleted; it is tried again");
            }
        }
    }));
}

fn period(node: &Node) -> Duration {
    let seconds = node.settings.number("alternator_ttl_period_in_seconds");
    Duration::try_from_secs_f64(seconds).unwrap_or(PERIOD_MIN).max(PERIOD_MIN)
}

fn has_tables(node: &Node) -> bool {
    node.schema().tables().any(|table| table.options.row_ttl.is_some())
}

async fn pass(node: &Rc<Node>) -> Result<(), String> {
    let schema = node.schema();
    for table in schema.tables() {
        let column = table.options.row_ttl.as_ref().and_then(|name| table.regular_index(name));
        if let Some(column) = column {
            expire(node, table, column as u16).await?;
            node.counts.note("expiration_scan_table");
        }
    }
    node.counts.note("expiration_scan_passes");
    Ok(())
}

/// When a row expires, in milliseconds since 1970: a timestamp has these, other numbers are seconds.
fn expires_ms(ty: &CqlType, value: &[u8]) -> Option<i64> {
    match ty {
        CqlType::Timestamp => Some(i64::from_be_bytes(value.try_into().ok()?)),
        CqlType::BigInt => Some(i64::from_be_bytes(value.try_into().ok()?).saturating_mul(1000)),
        _ => Some(i64::from(i32::from_be_bytes(value.try_into().ok()?)) * 1000),
    }
}

/// The newest timestamp of anything that is in the row.
fn newest(row: &Row) -> i64 {
    let cells = row.cells.iter().map(|(_, cell)| cell.timestamp);
    let elements = row.complex.iter().flat_map(|column| column.cells.iter().map(|(_, cell)| cell.timestamp));
    let marker = row.marker.map(|marker| marker.timestamp);
    cells.chain(elements).chain(marker).max().unwrap_or(i64::MIN)
}

async fn expire(node: &Rc<Node>, table: &TableDef, column: u16) -> Result<(), String> {
    let Some(def) = table.regulars.get(usize::from(column)) else { return Ok(()) };
    let mut after = None;
    loop {
        let now_ms = (reactor::wall_us() / 1000) as i64;
        let now_s = (now_ms / 1000) as u32;
        let command = ScanCommand { after: after.take(), limit_rows: PAGE_ROWS, ..ScanCommand::all(table.id, now_s) };
        let (partitions, more) = node.storage.scan(command).await.map_err(|error| error.to_string())?;
        let last = partitions.last().map(|last| {
            let row = last.rows.last().filter(|_| !table.clustering.is_empty());
            (last.key.clone(), row.map(|row| row.clustering.clone()))
        });
        for partition in &partitions {
            let is_due = |row: &&Row| {
                let value = row.cell(column).and_then(|cell| cell.value.as_deref());
                value.and_then(|value| expires_ms(&def.ty, value)).is_some_and(|at_ms| at_ms <= now_ms)
            };
            let due: Vec<&Row> = partition.live_rows(now_s).filter(is_due).collect();
            let token = Token::of_key(&partition.key);
            if due.is_empty() || !is_ours(node, table, token)? {
                continue;
            }
            for row in due {
                delete(node, table, partition, row, now_s).await?;
                node.counts.note("expiration_items_deleted");
            }
        }
        match last {
            Some(last) if more => after = Some(last),
            _ => return Ok(()),
        }
    }
}

/// Whether this node is the one of a token's replicas that deletes.
fn is_ours(node: &Node, table: &TableDef, token: Token) -> Result<bool, String> {
    let replicas = node.replicas(&table.keyspace, token).map_err(|error| error.message)?;
    Ok(replicas.nodes().iter().find(|&&replica| node.is_alive(replica)) == Some(&node.me()))
}

async fn delete(node: &Rc<Node>, table: &TableDef, of: &Partition, row: &Row, local_s: u32) -> Result<(), String> {
    let mut partition = Partition::new(of.key.clone());
    let deletion = Some(DeletionTime { timestamp: newest(row), local_s });
    match table.clustering.is_empty() {
        true => partition.deletion = deletion,
        false => {
            let clustering: Clustering = row.clustering.clone();
            partition.rows.push(Row { deletion, ..Row::new(clustering) });
        }
    }
    let token = Token::of_key(&partition.key);
    let bytes = Mutation::bytes(table, partition);
    let (level, kind) = (Consistency::LocalQuorum, WriteType::Simple);
    node.write(&table.keyspace, token, bytes, level, kind, None).await.map_err(|error| error.message)
}

#[cfg(test)]
mod tests {
    use storage::{Cell, Liveness};

    use super::*;

    #[test]
    fn numbers_are_seconds_and_timestamps_milliseconds() {
        assert_eq!(expires_ms(&CqlType::Timestamp, &5000i64.to_be_bytes()), Some(5000));
        assert_eq!(expires_ms(&CqlType::BigInt, &5i64.to_be_bytes()), Some(5000));
        assert_eq!(expires_ms(&CqlType::BigInt, &i64::MAX.to_be_bytes()), Some(i64::MAX));
        assert_eq!(expires_ms(&CqlType::Int, &(-5i32).to_be_bytes()), Some(-5000));
        assert_eq!(expires_ms(&CqlType::Int, b""), None);
    }

    #[test]
    fn a_row_is_as_new_as_the_newest_in_it() {
        let mut row = Row::new(Clustering::empty());
        assert_eq!(newest(&row), i64::MIN);
        row.marker = Some(Liveness::live(3));
        row.cells.push((0, Cell::live(2, b"v".to_vec())));
        assert_eq!(newest(&row), 3);
        row.complex.get_or_insert(1).cells.push((b"e".to_vec().into(), Cell::live(9, Vec::new())));
        assert_eq!(newest(&row), 9);
    }
}
