//! Which types a column may have, and what names of user types in them mean.
//!
//! Words and rules are Cassandra's `CQL3Type.Raw` and `CreateTableStatement`: what is not frozen is stored as several
//! cells, and cells have no cells of their own, so that everything inside of it must be frozen.

use std::collections::BTreeMap;
use std::sync::Arc;

use cql::ast::{ColumnDefinition, TableChange};
use types::{CqlType, TableDef, UserType};

use crate::error::{QueryError, invalid};

/// The user types of one keyspace.
pub(crate) type UserTypesByName = BTreeMap<String, Arc<UserType>>;

/// Looks up the user types in a type that stands in a statement about `keyspace`.
pub(crate) fn lookup(ty: &CqlType, keyspace: &str, known: &UserTypesByName) -> Result<CqlType, QueryError> {
    let foreign = std::cell::RefCell::new(None);
    let find = |written: Option<&str>, name: &str| {
        if let Some(written) = written.filter(|written| *written != keyspace) {
            foreign.replace(Some(written.to_string()));
        }
        known.get(name).cloned()
    };
    let found = ty.with_user_types(&find);
    if let Some(foreign) = foreign.take() {
        return Err(invalid!(
            "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {foreign}; user types can only be \
             used in the keyspace they are defined in"
        ));
    }
    found.map_err(|error| match error {
        types::Error::TypeName(message) => {
            invalid!("{}", message.replace("Unknown type ", &format!("Unknown type {keyspace}.")))
        }
        other => invalid!("{other}"),
    })
}

/// The columns with their types looked up and found fit for a column.
pub(super) fn resolve_columns(
    columns: &[ColumnDefinition],
    keyspace: &str,
    known: &UserTypesByName,
) -> Result<Vec<ColumnDefinition>, QueryError> {
    let resolve = |column: &ColumnDefinition| {
        let ty = lookup(&column.ty, keyspace, known)?;
        check(&ty)?;
        Ok(ColumnDefinition { ty, ..column.clone() })
    };
    columns.iter().map(resolve).collect()
}

/// A change with the types of the columns that it adds looked up.
pub(super) fn resolve_change(
    change: &TableChange,
    keyspace: &str,
    known: &UserTypesByName,
) -> Result<TableChange, QueryError> {
    Ok(match change {
        TableChange::Add { columns, if_not_exists } => {
            TableChange::Add { columns: resolve_columns(columns, keyspace, known)?, if_not_exists: *if_not_exists }
        }
        other => other.clone(),
    })
}

/// Whether a column may have the type.
pub(super) fn check(ty: &CqlType) -> Result<(), QueryError> {
    check_inside(ty)?;
    let inside: Vec<&CqlType> = match ty {
        CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) => ty.parts(),
        CqlType::Udt(udt) => {
            if let Some((_, field)) = udt.fields.iter().find(|(_, field)| field.is_multi_cell()) {
                return Err(match field {
                    CqlType::Udt(_) => {
                        invalid!("Non-frozen user types with nested non-frozen user types are not supported")
                    }
                    _ => invalid!("Non-frozen user types with nested non-frozen collections are not supported"),
                });
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    match inside.into_iter().find(|part| part.is_multi_cell()) {
        Some(CqlType::Udt(_)) => Err(invalid!("Non-frozen UDTs are not allowed inside collections: {ty}")),
        Some(_) => Err(invalid!("Non-frozen collections are not allowed inside collections: {ty}")),
        None => Ok(()),
    }
}

/// What holds inside of frozen types too.
pub(super) fn check_inside(ty: &CqlType) -> Result<(), QueryError> {
    let has = |wanted: &CqlType| ty.parts().into_iter().any(|part| part == wanted);
    match ty {
        CqlType::Frozen(content) => {
            let frozen = content.is_multi_cell() || matches!(**content, CqlType::Tuple(_) | CqlType::Vector(..));
            if !frozen && !matches!(**content, CqlType::Frozen(_)) {
                return Err(invalid!(
                    "frozen<> is only allowed on collections, tuples, and user-defined types (got {content})"
                ));
            }
        }
        CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) if has(&CqlType::Counter) => {
            return Err(invalid!("Counters are not allowed inside collections: {ty}"));
        }
        CqlType::Set(element) if **element == CqlType::Duration => {
            return Err(invalid!("Durations are not allowed inside sets: {ty}"));
        }
        CqlType::Map(key, _) if **key == CqlType::Duration => {
            return Err(invalid!("Durations are not allowed as map keys: {ty}"));
        }
        CqlType::Tuple(_) if has(&CqlType::Counter) => {
            return Err(invalid!("Counters are not allowed inside tuples: {ty}"));
        }
        CqlType::Vector(..) if has(&CqlType::Counter) => {
            return Err(invalid!("Counters are not allowed inside vectors: {ty}"));
        }
        // Its definition was checked when it was made.
        CqlType::Udt(_) => return Ok(()),
        _ => {}
    }
    ty.parts().into_iter().try_for_each(check_inside)
}

/// Whether a component of the primary key may have the type.
pub(super) fn check_key(name: &str, ty: &CqlType) -> Result<(), QueryError> {
    match ty {
        CqlType::Counter => Err(invalid!("counter type is not supported for PRIMARY KEY column '{name}'")),
        CqlType::Duration => Err(invalid!("duration type is not supported for PRIMARY KEY column '{name}'")),
        CqlType::Udt(_) => Err(invalid!("Invalid non-frozen user-defined type {ty} for PRIMARY KEY column '{name}'")),
        ty if ty.is_multi_cell() => {
            Err(invalid!("Invalid non-frozen collection type {ty} for PRIMARY KEY column '{name}'"))
        }
        ty if !ty.is_comparable() => {
            Err(invalid!("duration type is not supported for PRIMARY KEY column '{name}': {ty} has one inside"))
        }
        _ => Ok(()),
    }
}

/// A table has counters alone beside its key, or none.
pub(super) fn check_counters(table: &TableDef) -> Result<(), QueryError> {
    let mut values = table.statics.iter().chain(&table.regulars);
    let counters = values.clone().filter(|column| column.ty.is_counter()).count();
    if counters > 0 && values.any(|column| !column.ty.is_counter()) {
        return Err(invalid!("Cannot mix counter and non counter columns in the same table"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_be_frozen() {
        let check = |text: &str| check(&CqlType::parse(text).unwrap()).map_err(|error| error.message);
        for good in ["int", "list<int>", "map<int, frozen<list<int>>>", "frozen<list<list<int>>>", "tuple<list<int>>"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, message) in [
            ("list<list<int>>", "Non-frozen collections are not allowed inside collections: list<list<int>>"),
            ("frozen<int>", "frozen<> is only allowed on collections, tuples, and user-defined types (got int)"),
            ("set<counter>", "Counters are not allowed inside collections: set<counter>"),
            ("map<duration, int>", "Durations are not allowed as map keys: map<duration, int>"),
            ("frozen<set<duration>>", "Durations are not allowed inside sets: set<duration>"),
        ] {
            assert_eq!(check(bad), Err(message.to_string()));
        }
    }
}
