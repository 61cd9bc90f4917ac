//! ALTER TABLE: a definition to the next one.
//!
//! Rows in SSTables stay as they are. They name their columns, so that those that the table has no more are passed
//! over; for a name that comes again, the definition remembers when it was dropped, and what was written before that
//! stays hidden.

use cql::ast::TableChange;
use types::{ColumnDef, ColumnKind, DroppedColumn, TableDef};

use super::{column_type, options, row_ttl};
use crate::error::{QueryError, invalid};

pub(super) fn alter(known: &TableDef, change: &TableChange, now_us: i64) -> Result<TableDef, QueryError> {
    let mut def = known.clone();
    match change {
        TableChange::Properties(properties) => {
            options::apply_to_table(&mut def.options, properties)?;
        }
        TableChange::Add { columns, if_not_exists } => {
            for column in columns {
                if def.column(&column.name).is_some() {
                    if *if_not_exists {
                        continue;
                    }
                    return Err(invalid!("Column with name '{}' already exists", column.name));
                }
                let kind = if column.is_static { ColumnKind::Static } else { ColumnKind::Regular };
                let added = ColumnDef { name: column.name.clone(), ty: column.ty.clone(), kind, descending: false };
                check_again(&def, &added)?;
                if column.is_static && def.clustering.is_empty() {
                    return Err(invalid!(
                        "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
                    ));
                }
                let list = if column.is_static { &mut def.statics } else { &mut def.regulars };
                list.push(added);
                list.sort_by(|a, b| a.name.cmp(&b.name));
                if let Some(mask) = &column.mask {
                    def.masks.insert(column.name.clone(), mask.clone());
                }
                if column.is_ttl {
                    row_ttl::set(&mut def, &column.name)?;
                }
            }
        }
        TableChange::Drop { columns, if_exists, timestamp } => {
            for name in columns {
                if def.column(name).is_none() && *if_exists {
                    continue;
                }
                drop(&mut def, name, timestamp.unwrap_or(now_us))?;
            }
        }
        TableChange::Rename { columns, if_exists } => {
            for (from, to) in columns {
                if def.column(from).is_none() && *if_exists {
                    continue;
                }
                rename(&mut def, from, to)?;
            }
        }
        TableChange::Mask { column, mask, if_exists } => {
            if def.column(column).is_none() {
                return if *if_exists { Ok(def) } else { Err(undefined(&def, column)) };
            }
            def.masks.remove(column);
            def.masks.extend(mask.clone().map(|mask| (column.clone(), mask)));
        }
        TableChange::Ttl(Some(column)) => row_ttl::set(&mut def, column)?,
        TableChange::Ttl(None) => row_ttl::unset(&mut def)?,
        TableChange::AlterType { .. } => return Err(invalid!("Altering column types is no longer supported")),
    }
    check_added_counters(&def)?;
    Ok(def)
}

/// Counters keep to tables of counters, which the table was or was not before.
fn check_added_counters(def: &TableDef) -> Result<(), QueryError> {
    if column_type::check_counters(def).is_ok() {
        return Ok(());
    }
    let refuse = |what, name: &str, of| {
        QueryError::config(format!(
            "{}.{}: Cannot have a {what} column (\"{name}\") in a {of} table",
            def.keyspace, def.name
        ))
    };
    let mut values = def.statics.iter().chain(&def.regulars);
    let first_is_counter = values.clone().next().is_some_and(|column| column.ty.is_counter());
    match values.find(|column| column.ty.is_counter() != first_is_counter) {
        Some(other) if first_is_counter => Err(refuse("non counter", &other.name, "counter")),
        Some(other) => Err(refuse("counter", &other.name, "non counter")),
        None => Ok(()),
    }
}

/// A column of a name that was dropped must be as the dropped one was: its rows may still be in SSTables.
fn check_again(def: &TableDef, added: &ColumnDef) -> Result<(), QueryError> {
    let Some(dropped) = def.dropped.get(&added.name) else { return Ok(()) };
    let (name, ty, was) = (&added.name, added.ty.to_string(), &dropped.ty);
    if ty != *was {
        return Err(invalid!(
            "Cannot re-add previously dropped column '{name}' of type {ty}, incompatible with previous type {was}"
        ));
    }
    let kind = |is_static| if is_static { "STATIC" } else { "REGULAR" };
    let is_static = added.kind == ColumnKind::Static;
    if is_static != dropped.is_static {
        return Err(invalid!(
            "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with previous kind {}",
            kind(is_static),
            kind(dropped.is_static)
        ));
    }
    if added.ty.is_counter() {
        return Err(invalid!("Cannot re-add previously dropped counter column {name}"));
    }
    Ok(())
}

fn undefined(def: &TableDef, name: &str) -> QueryError {
    invalid!("Column {name} was not found in table '{}.{}'", def.keyspace, def.name)
}

fn drop(def: &mut TableDef, name: &str, at_us: i64) -> Result<(), QueryError> {
    let column = def.column(name).ok_or_else(|| undefined(def, name))?.clone();
    if column.is_primary_key() {
        return Err(invalid!("Cannot drop PRIMARY KEY column {name}"));
    }
    let is_static = column.kind == ColumnKind::Static;
    let list = if is_static { &mut def.statics } else { &mut def.regulars };
    list.retain(|other| other.name != name);
    def.options.row_ttl.take_if(|column| column == name);
    def.masks.remove(name);
    let dropped = DroppedColumn { ty: column.ty.to_string(), is_static, dropped_us: at_us };
    def.dropped.insert(name.to_string(), dropped);
    Ok(())
}

/// Columns of the key alone: no SSTable names them.
fn rename(def: &mut TableDef, from: &str, to: &str) -> Result<(), QueryError> {
    let column = def.column(from).ok_or_else(|| undefined(def, from))?;
    if !column.is_primary_key() {
        return Err(invalid!("Cannot rename non PRIMARY KEY column {from}"));
    }
    if def.column(to).is_some() {
        return Err(invalid!(
            "Cannot rename column {from} to {to} in table '{}.{}'; another column with that name already exists",
            def.keyspace,
            def.name
        ));
    }
    if let Some(mask) = def.masks.remove(from) {
        def.masks.insert(to.to_string(), mask);
    }
    for column in def.partition_key.iter_mut().chain(&mut def.clustering) {
        if column.name == from {
            column.name = to.to_string();
        }
    }
    Ok(())
}
