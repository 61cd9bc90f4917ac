//! The statements of a workload: cassandra-stress's default table, its schema and its one write and one read.

use crate::workload::Row;

/// Names the table of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    pub keyspace: String,
    pub replication_factor: u32,
    pub row: Row,
}

impl TableSpec {
    fn columns(&self) -> Vec<String> {
        (0..self.row.columns).map(|i| format!("\"C{i}\"")).collect()
    }

    pub fn create_keyspace(&self) -> String {
        format!(
            "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': '{}'}}",
            self.keyspace, self.replication_factor
        )
    }

    /// As cassandra-stress creates it, without compression; its COMPACT STORAGE no longer exists in current servers.
    pub fn create_table(&self) -> String {
        let columns: Vec<String> = self.columns().iter().map(|name| format!("{name} blob")).collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {}.standard1 (key blob PRIMARY KEY, {}) WITH compression = {{'enabled': 'false'}}",
            self.keyspace,
            columns.join(", ")
        )
    }

    pub fn write(&self) -> String {
        let columns = self.columns();
        let marks = vec!["?"; columns.len() + 1].join(", ");
        format!("INSERT INTO {}.standard1 (key, {}) VALUES ({marks})", self.keyspace, columns.join(", "))
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
        let row = Row { columns: 2, column_bytes: 34 };
        let table = TableSpec { keyspace: "keyspace1".into(), replication_factor: 3, row };
        assert_eq!(table.write(), "INSERT INTO keyspace1.standard1 (key, \"C0\", \"C1\") VALUES (?, ?, ?)");
        assert_eq!(table.read(), "SELECT \"C0\", \"C1\" FROM keyspace1.standard1 WHERE key = ?");
        assert!(table.create_table().contains("(key blob PRIMARY KEY, \"C0\" blob, \"C1\" blob)"));
        assert!(table.create_keyspace().ends_with("'replication_factor': '3'}"));
    }
}
