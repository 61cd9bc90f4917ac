//! The statements of a workload: cassandra-stress's default table, its schema and its one write and one read.

use crate::workload::Row;

/// Names the table of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    pub keyspace: String,
    pub replication_factor: u32,
    pub row: Row,
    /// A class such as `LeveledCompactionStrategy`; the server's default if absent.
    pub compaction: Option<String>,
    /// A class such as `LZ4Compressor`; none if absent.
    pub compression: Option<String>,
    /// Whether anything but whole rows and partitions is written and read.
    pub has_parts: bool,
}

/// Places of the statements in [`TableSpec::statements`].
pub(super) const WRITE: usize = 0;
pub(super) const READ: usize = 1;
pub(super) const UPDATE: usize = 2;
pub(super) const SCAN: usize = 3;

impl TableSpec {
    pub fn new(keyspace: &str, replication_factor: u32, row: Row) -> Self {
        Self {
            keyspace: keyspace.into(),
            replication_factor,
            row,
            compaction: None,
            compression: None,
            has_parts: false,
        }
    }

    fn columns(&self) -> Vec<String> {
        (0..self.row.columns).map(|i| format!("\"C{i}\"")).collect()
    }

    pub fn create_keyspace(&self) -> String {
        format!(
            "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': '{}'}}",
            self.keyspace, self.replication_factor
        )
    }

    /// As cassandra-stress creates it, without compression unless told otherwise; its COMPACT STORAGE no longer exists in current servers.
    pub fn create_table(&self) -> String {
        let columns: Vec<String> = self.columns().iter().map(|name| format!("{name} blob")).collect();
        let keys = match self.is_wide() {
            true => ("key blob, place int", ", PRIMARY KEY (key, place)"),
            false => ("key blob PRIMARY KEY", ""),
        };
        let compaction = self.compaction.as_ref().map(|class| format!(" AND compaction = {{'class': '{class}'}}"));
        let compression = match &self.compression {
            Some(class) => format!("'sstable_compression': '{class}'"),
            None => "'enabled': 'false'".to_string(),
        };
        format!(
            "CREATE TABLE IF NOT EXISTS {}.standard1 ({}, {}{}) WITH compression = {{{compression}}}{}",
            self.keyspace,
            keys.0,
            columns.join(", "),
            keys.1,
            compaction.unwrap_or_default()
        )
    }

    /// Whether partitions have several rows.
    pub fn is_wide(&self) -> bool {
        self.row.rows > 1
    }

    /// What the workload's operations need, each at its place.
    pub(super) fn statements(&self) -> Vec<String> {
        let mut statements = vec![self.write(), self.read()];
        if self.has_parts {
            statements.extend([self.update(), self.scan()]);
        }
        statements
    }

    pub fn write(&self) -> String {
        let columns = self.columns();
        let (keys, count) = if self.is_wide() { ("key, place", 2) } else { ("key", 1) };
        let marks = vec!["?"; columns.len() + count].join(", ");
        format!("INSERT INTO {}.standard1 ({keys}, {}) VALUES ({marks})", self.keyspace, columns.join(", "))
    }

    /// One column of a row.
    fn update(&self) -> String {
        let place = if self.is_wide() { " AND place = ?" } else { "" };
        format!("UPDATE {}.standard1 SET \"C0\" = ? WHERE key = ?{place}", self.keyspace)
    }

    /// Rows that follow one another on the ring, as YCSB's bindings scan.
    fn scan(&self) -> String {
        let columns = self.columns().join(", ");
        format!("SELECT {columns} FROM {}.standard1 WHERE token(key) >= token(?) LIMIT ?", self.keyspace)
    }

    pub fn read(&self) -> String {
        format!("SELECT {} FROM {}.standard1 WHERE key = ?", self.columns().join(", "), self.keyspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_table() {
        let row = Row { columns: 2, column_bytes: 34, rows: 1 };
        let mut table = TableSpec::new("keyspace1", 3, row);
        assert_eq!(table.write(), "INSERT INTO keyspace1.standard1 (key, \"C0\", \"C1\") VALUES (?, ?, ?)");
        assert_eq!(table.read(), "SELECT \"C0\", \"C1\" FROM keyspace1.standard1 WHERE key = ?");
        assert!(table.create_table().contains("(key blob PRIMARY KEY, \"C0\" blob, \"C1\" blob)"));
        assert!(table.create_keyspace().ends_with("'replication_factor': '3'}"));
        assert_eq!(table.statements().len(), 2);
        (table.row.rows, table.has_parts, table.compaction) = (16, true, Some("LeveledCompactionStrategy".into()));
        let made = table.create_table();
        assert!(made.contains("(key blob, place int, \"C0\" blob, \"C1\" blob, PRIMARY KEY (key, place))"), "{made}");
        assert!(made.ends_with(" AND compaction = {'class': 'LeveledCompactionStrategy'}"), "{made}");
        assert_eq!(table.statements()[UPDATE], "UPDATE keyspace1.standard1 SET \"C0\" = ? WHERE key = ? AND place = ?");
    }
}
