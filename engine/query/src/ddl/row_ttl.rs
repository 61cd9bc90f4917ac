//! The column of a table that says when its rows expire, in ScyllaDB's words. [`crate::expiration`] deletes them.

use cql::ast::ColumnDefinition;
use types::{ColumnKind, CqlType, TableDef};

use crate::error::{QueryError, invalid};

/// Of a new table: the column that was marked with TTL, if one was.
pub(super) fn create(def: &mut TableDef, columns: &[ColumnDefinition]) -> Result<(), QueryError> {
    let mut marked = columns.iter().filter(|column| column.is_ttl).map(|column| &column.name);
    let Some(name) = marked.next() else { return Ok(()) };
    if marked.next().is_some() {
        return Err(invalid!("Table {}.{} cannot have more than one TTL column", def.keyspace, def.name));
    }
    if def.column(name).is_some_and(|column| column.kind != ColumnKind::Regular) {
        return Err(invalid!("TTL column {name} must be a regular column: it cannot be static or of the primary key"));
    }
    set(def, name)
}

pub(super) fn set(def: &mut TableDef, name: &str) -> Result<(), QueryError> {
    let table = format!("{}.{}", def.keyspace, def.name);
    if let Some(known) = &def.options.row_ttl {
        return Err(invalid!("Table {table} already has a TTL column: {known}"));
    }
    let column = def.column(name).ok_or_else(|| invalid!("TTL column {name} does not exist in table {table}"))?;
    match column.kind {
        ColumnKind::Regular => {}
        ColumnKind::Static => return Err(invalid!("Cannot use a static column as the TTL column: {name}")),
        _ => return Err(invalid!("Cannot use a primary key column as the TTL column: {name}")),
    }
    if !matches!(column.ty, CqlType::Timestamp | CqlType::BigInt | CqlType::Int) {
        return Err(invalid!(
            "TTL column {name} must be of type timestamp, bigint or int, but is of type {}",
            column.ty
        ));
    }
    def.options.row_ttl = Some(name.to_string());
    Ok(())
}

pub(super) fn unset(def: &mut TableDef) -> Result<(), QueryError> {
    match def.options.row_ttl.take() {
        Some(_) => Ok(()),
        None => Err(invalid!("Table {}.{} does not have a TTL column", def.keyspace, def.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_table;
    use super::*;
    use crate::schema::describe;

    fn table(columns: &str) -> Result<TableDef, String> {
        read_table(&format!("CREATE TABLE ks.t ({columns})"), &Default::default()).map_err(|error| error.message)
    }

    #[test]
    fn one_regular_column_of_a_time() {
        let def = table("p int PRIMARY KEY, \"E\" timestamp TTL").unwrap();
        assert_eq!(def.options.row_ttl.as_deref(), Some("E"));
        let text = describe::table(&def);
        assert!(text.contains("\"E\" timestamp TTL,\n"), "{text}");
        assert_eq!(read_table(&text, &Default::default()).unwrap().options, def.options);
        for (columns, told) in [
            ("p int PRIMARY KEY, a int TTL, b int TTL", "more than one"),
            ("p int PRIMARY KEY, a text TTL", "must be of type"),
            ("p int TTL PRIMARY KEY", "TTL column p must be a regular column"),
            ("p int, c int, s int TTL STATIC, PRIMARY KEY (p, c)", "TTL column s must be a regular column"),
        ] {
            let error = table(columns).unwrap_err();
            assert!(error.contains(told), "{columns}: {error}");
        }
    }

    #[test]
    fn it_is_set_and_unset_once() {
        let mut def = table("p int PRIMARY KEY, a bigint, b int").unwrap();
        assert!(unset(&mut def).is_err() && set(&mut def, "p").is_err() && set(&mut def, "x").is_err());
        set(&mut def, "a").unwrap();
        assert!(set(&mut def, "b").unwrap_err().message.contains("already has a TTL column"));
        unset(&mut def).unwrap();
        set(&mut def, "b").unwrap();
    }
}
