//! CREATE, ALTER and DROP TYPE.
//!
//! A type is named in the definitions of tables and of other types, never copied there: what changes in it changes in
//! all of them. Tables that use a type get a new version with it, so that reads and writes know which fields they mean.

use cql::ast::{self, Statement, TypeChange};
use types::{CqlType, KeyspaceDef, TableDef, UserType};

use super::column_type::{self, UserTypesByName, lookup};
use super::{Decision, absent};
use crate::error::{QueryError, invalid};
use crate::schema::{Change, ChangeKind, Schema, Target, describe};

#[derive(Clone, Debug)]
pub(crate) enum TypeDdl {
    Create { keyspace: String, create: ast::CreateType },
    Alter { keyspace: String, name: String, change: TypeChange, if_exists: bool },
    Drop { keyspace: String, name: String, if_exists: bool },
}

/// `None` when the statement is about something else.
pub(super) fn resolve(
    statement: &Statement,
    qualify: &impl Fn(&ast::QualifiedName) -> Result<(String, String), QueryError>,
) -> Result<Option<TypeDdl>, QueryError> {
    Ok(Some(match statement {
        Statement::CreateType(create) => TypeDdl::Create { keyspace: qualify(&create.name)?.0, create: create.clone() },
        Statement::AlterType(alter) => {
            let (keyspace, name) = qualify(&alter.name)?;
            TypeDdl::Alter { keyspace, name, change: alter.change.clone(), if_exists: alter.if_exists }
        }
        Statement::DropType { name, if_exists } => {
            let (keyspace, name) = qualify(name)?;
            TypeDdl::Drop { keyspace, name, if_exists: *if_exists }
        }
        _ => return Ok(None),
    }))
}

/// The type that a CREATE TYPE makes. `keyspace` is where it goes when the statement does not say.
pub(super) fn definition(
    create: &ast::CreateType,
    keyspace: &str,
    known: &UserTypesByName,
) -> Result<UserType, QueryError> {
    let keyspace = create.name.keyspace.as_deref().unwrap_or(keyspace);
    let mut fields: Vec<(String, CqlType)> = Vec::with_capacity(create.fields.len());
    for (name, ty) in &create.fields {
        if fields.iter().any(|(other, _)| other == name) {
            return Err(invalid!("Duplicate field name '{name}' in type '{}'", create.name.name));
        }
        fields.push((name.clone(), field_type(ty, keyspace, known)?));
    }
    Ok(UserType { keyspace: keyspace.to_string(), name: create.name.name.clone(), fields })
}

fn field_type(ty: &CqlType, keyspace: &str, known: &UserTypesByName) -> Result<CqlType, QueryError> {
    let ty = lookup(ty, keyspace, known)?;
    match &ty {
        CqlType::Counter => return Err(invalid!("A user type cannot contain counters")),
        CqlType::Udt(_) => return Err(invalid!("A user type cannot contain non-frozen UDTs")),
        _ => {}
    }
    column_type::check(&ty)?;
    Ok(ty)
}

pub(super) fn decide(ddl: &TypeDdl, schema: &Schema) -> Result<Option<Decision>, QueryError> {
    let no_keyspace = |keyspace: &str| invalid!("Keyspace '{keyspace}' doesn't exist");
    match ddl {
        TypeDdl::Create { keyspace, create } => {
            let Some(def) = schema.keyspace(keyspace) else { return Err(no_keyspace(keyspace)) };
            let name = &create.name.name;
            if def.types.contains_key(name) {
                let exists = || invalid!("A user type with name '{name}' already exists");
                return if create.if_not_exists { Ok(None) } else { Err(exists()) };
            }
            let udt = definition(create, keyspace, &def.types)?;
            Ok(Some(decision(&udt, ChangeKind::Created, Vec::new())))
        }
        TypeDdl::Alter { keyspace, name, change, if_exists } => {
            let Some(def) = schema.keyspace(keyspace) else { return Err(no_keyspace(keyspace)) };
            let Some(known) = def.types.get(name) else {
                return absent(*if_exists, || invalid!("Type {keyspace}.{name} doesn't exist"));
            };
            let Some(udt) = alter(known, change, &def.types)? else { return Ok(None) };
            let tables = def.tables.values().filter(|table| uses(table, &udt)).map(|table| {
                (Target::Table(keyspace.clone(), table.name.clone()), Some(describe::table_with_id(table)))
            });
            Ok(Some(decision(&udt, ChangeKind::Updated, tables.collect())))
        }
        TypeDdl::Drop { keyspace, name, if_exists } => {
            let known = schema.keyspace(keyspace).and_then(|def| Some((def, def.types.get(name)?)));
            let Some((def, udt)) = known else {
                return absent(*if_exists, || invalid!("Type '{keyspace}.{name}' doesn't exist"));
            };
            check_unused(def, udt)?;
            let target = Target::Type(keyspace.clone(), name.clone());
            let change = Change { kind: ChangeKind::Dropped, target: target.clone() };
            Ok(Some(Decision { entries: vec![(target, None)], change }))
        }
    }
}

fn uses(table: &TableDef, udt: &UserType) -> bool {
    table.columns().any(|column| column.ty.uses_user_type(&udt.keyspace, &udt.name))
}

fn check_unused(keyspace: &KeyspaceDef, udt: &UserType) -> Result<(), QueryError> {
    let name = format!("{}.{}", udt.keyspace, udt.name);
    let in_type = |other: &&std::sync::Arc<UserType>| {
        other.name != udt.name && other.field_types().any(|field| field.uses_user_type(&udt.keyspace, &udt.name))
    };
    if let Some(other) = keyspace.types.values().find(in_type) {
        return Err(invalid!(
            "Cannot drop user type '{name}' as it is still used by user type {}.{}",
            other.keyspace,
            other.name
        ));
    }
    let uses_it = |ty: &CqlType| ty.uses_user_type(&udt.keyspace, &udt.name);
    let in_function =
        |def: &&std::sync::Arc<types::FunctionDef>| uses_it(&def.returns) || def.argument_types().any(uses_it);
    if let Some(function) = keyspace.functions.values().find(in_function) {
        return Err(invalid!(
            "Cannot drop user type '{name}' as it is still used by function {}.{}",
            function.keyspace,
            function.signature()
        ));
    }
    let in_aggregate =
        |def: &&std::sync::Arc<types::AggregateDef>| uses_it(&def.state_type) || def.arguments.iter().any(uses_it);
    if let Some(aggregate) = keyspace.aggregates.values().find(in_aggregate) {
        return Err(invalid!(
            "Cannot drop user type '{name}' as it is still used by aggregate {}.{}",
            aggregate.keyspace,
            aggregate.signature()
        ));
    }
    if let Some(table) = keyspace.tables.values().find(|table| uses(table, udt)) {
        return Err(invalid!(
            "Cannot drop user type '{name}' as it is still used by table {}.{}",
            table.keyspace,
            table.name
        ));
    }
    Ok(())
}

fn decision(udt: &UserType, kind: ChangeKind, mut tables: Vec<(Target, Option<String>)>) -> Decision {
    let target = Target::Type(udt.keyspace.clone(), udt.name.clone());
    tables.insert(0, (target.clone(), Some(describe::user_type(udt))));
    Decision { entries: tables, change: Change { kind, target } }
}

/// `None`: nothing to change. Fields can be added behind the others and renamed, which values that are stored bear.
fn alter(known: &UserType, change: &TypeChange, types: &UserTypesByName) -> Result<Option<UserType>, QueryError> {
    let mut udt = known.clone();
    let type_name = format!("{}.{}", known.keyspace, known.name);
    match change {
        TypeChange::Add { field, ty, if_not_exists } => {
            if known.field_index(field).is_some() {
                let exists = || {
                    invalid!("Cannot add field {field} to type {type_name}: a field with name {field} already exists")
                };
                return if *if_not_exists { Ok(None) } else { Err(exists()) };
            }
            let ty = field_type(ty, &known.keyspace, types)?;
            if ty.uses_user_type(&known.keyspace, &known.name) {
                return Err(invalid!(
                    "Cannot add new field {field} of type {ty} to user type {type_name} as it would create a circular reference"
                ));
            }
            udt.fields.push((field.clone(), ty));
        }
        TypeChange::Rename { fields, if_exists } => {
            for (from, to) in fields {
                let Some(at) = udt.field_index(from) else {
                    if *if_exists {
                        continue;
                    }
                    return Err(invalid!("Unkown field {from} in user type {type_name}"));
                };
                if udt.field_index(to).is_some() {
                    return Err(invalid!("Duplicate field name {to} in type {type_name}"));
                }
                udt.fields[at].0.clone_from(to);
            }
        }
        TypeChange::Alter { .. } => return Err(invalid!("Altering field types is no longer supported")),
    }
    Ok(Some(udt))
}
