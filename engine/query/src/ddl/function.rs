//! CREATE and DROP of functions and aggregates.
//!
//! A function is compiled when it is made, so that a wrong body is refused at once; an aggregate names functions of its
//! own keyspace, which stay as long as it does.

use std::sync::Arc;

use cql::ast::{self, ConstantKind, Statement, Term};
use cql::term;
use types::{AggregateDef, CqlType, FunctionDef, KeyspaceDef, signature};

use super::column_type::{self, UserTypesByName, lookup};
use super::{Decision, absent};
use crate::error::{QueryError, invalid};
use crate::schema::{Change, ChangeKind, Schema, Target, describe};
use crate::script::Script;

#[derive(Clone, Debug)]
pub(crate) enum FunctionDdl {
    Create { keyspace: String, create: ast::CreateFunction },
    CreateAggregate { keyspace: String, create: ast::CreateAggregate },
    Drop { keyspace: String, name: String, arguments: Option<Vec<CqlType>>, if_exists: bool },
    DropAggregate { keyspace: String, name: String, arguments: Option<Vec<CqlType>>, if_exists: bool },
}

/// `None` when the statement is about something else.
pub(super) fn resolve(
    statement: &Statement,
    qualify: &impl Fn(&ast::QualifiedName) -> Result<(String, String), QueryError>,
) -> Result<Option<FunctionDdl>, QueryError> {
    let create = statement.clone();
    Ok(Some(match create {
        Statement::CreateFunction(create) => FunctionDdl::Create { keyspace: qualify(&create.name)?.0, create },
        Statement::CreateAggregate(create) => {
            FunctionDdl::CreateAggregate { keyspace: qualify(&create.name)?.0, create }
        }
        Statement::DropFunction { name, arguments, if_exists } => {
            let (keyspace, name) = qualify(&name)?;
            FunctionDdl::Drop { keyspace, name, arguments, if_exists }
        }
        Statement::DropAggregate { name, arguments, if_exists } => {
            let (keyspace, name) = qualify(&name)?;
            FunctionDdl::DropAggregate { keyspace, name, arguments, if_exists }
        }
        _ => return Ok(None),
    }))
}

impl FunctionDdl {
    /// What a CREATE FUNCTION makes, if that can be told.
    pub fn function(&self, schema: &Schema) -> Option<FunctionDef> {
        let FunctionDdl::Create { keyspace, create } = self else { return None };
        function(create, keyspace, &schema.types_of(keyspace)).ok()
    }

    pub fn aggregate(&self, schema: &Schema) -> Option<AggregateDef> {
        let FunctionDdl::CreateAggregate { keyspace, create } = self else { return None };
        aggregate(create, keyspace, &schema.types_of(keyspace)).ok()
    }

    /// The signature of what a DROP takes away.
    pub fn dropped(&self, schema: &Schema) -> Option<String> {
        let decision = decide(self, schema).ok()??;
        match decision.change.target {
            Target::Function(_, signature) | Target::Aggregate(_, signature) => Some(signature),
            _ => None,
        }
    }
}

fn argument_type(ty: &CqlType, keyspace: &str, known: &UserTypesByName) -> Result<CqlType, QueryError> {
    let ty = lookup(ty, keyspace, known)?;
    column_type::check_inside(&ty)?;
    Ok(ty)
}

/// The function that a CREATE FUNCTION makes. `keyspace` is where it goes when the statement does not say.
pub(super) fn function(
    create: &ast::CreateFunction,
    keyspace: &str,
    known: &UserTypesByName,
) -> Result<FunctionDef, QueryError> {
    let keyspace = create.name.keyspace.as_deref().unwrap_or(keyspace);
    let mut arguments: Vec<(String, CqlType)> = Vec::with_capacity(create.arguments.len());
    for (name, ty) in &create.arguments {
        if arguments.iter().any(|(other, _)| other == name) {
            return Err(invalid!("duplicate argument names for given function {}", create.name.name));
        }
        arguments.push((name.clone(), argument_type(ty, keyspace, known)?));
    }
    Ok(FunctionDef {
        keyspace: keyspace.to_string(),
        name: create.name.name.clone(),
        arguments,
        called_on_null_input: create.called_on_null_input,
        returns: argument_type(&create.returns, keyspace, known)?,
        language: create.language.to_ascii_lowercase(),
        body: create.body.clone(),
    })
}

/// As [`function`], for CREATE AGGREGATE.
pub(super) fn aggregate(
    create: &ast::CreateAggregate,
    keyspace: &str,
    known: &UserTypesByName,
) -> Result<AggregateDef, QueryError> {
    let keyspace = create.name.keyspace.as_deref().unwrap_or(keyspace);
    let arguments = create.arguments.iter().map(|ty| argument_type(ty, keyspace, known));
    let own = |name: &ast::QualifiedName| match &name.keyspace {
        Some(other) if other != keyspace => Err(invalid!(
            "Statement on keyspace {keyspace} cannot refer to a user function in keyspace {other}; user functions can \
             only be used in the keyspace they are defined in"
        )),
        _ => Ok(name.name.clone()),
    };
    let arguments = arguments.collect::<Result<_, _>>()?;
    let state_type = argument_type(&create.state_type, keyspace, known)?;
    let initial = create.initial.as_ref().filter(|initial| **initial != Term::Null).map(ToString::to_string);
    if let Some(text) = &initial {
        initial_state(text, &state_type)?;
    }
    Ok(AggregateDef {
        keyspace: keyspace.to_string(),
        name: create.name.name.clone(),
        arguments,
        state_function: own(&create.state_function)?,
        state_type,
        reduce_function: create.reduce_function.as_ref().map(own).transpose()?,
        final_function: create.final_function.as_ref().map(own).transpose()?,
        initial,
    })
}

/// The bytes of an aggregate's first state, which is a literal of its type.
pub(crate) fn initial_state(text: &str, ty: &CqlType) -> Result<Option<Vec<u8>>, QueryError> {
    // Terms are parsed as parts of statements only.
    let statement = cql::parse(&format!("INSERT INTO t (initcond) VALUES ({text})"))?.statement;
    let Statement::Insert(insert) = statement else { return Err(invalid!("Invalid INITCOND {text}")) };
    let [value] = insert.values.as_slice() else { return Err(invalid!("Invalid INITCOND {text}")) };
    if value.as_constant(ConstantKind::String).is_some_and(str::is_empty) && !matches!(ty, CqlType::Text) {
        return Ok(Some(Vec::new()));
    }
    Ok(term::literal_to_bytes(value, ty, "initcond")?)
}

fn keyspace_of<'s>(schema: &'s Schema, keyspace: &str) -> Result<&'s Arc<KeyspaceDef>, QueryError> {
    schema.keyspace(keyspace).ok_or_else(|| invalid!("Keyspace '{keyspace}' doesn't exist"))
}

pub(super) fn decide(ddl: &FunctionDdl, schema: &Schema) -> Result<Option<Decision>, QueryError> {
    match ddl {
        FunctionDdl::Create { keyspace, create } => create_function(keyspace_of(schema, keyspace)?, create),
        FunctionDdl::CreateAggregate { keyspace, create } => create_aggregate(keyspace_of(schema, keyspace)?, create),
        FunctionDdl::Drop { keyspace, name, arguments, if_exists } => {
            let known = schema.keyspace(keyspace);
            let all = known.into_iter().flat_map(|known| known.functions.values());
            let all = all.map(|def| (def.name.as_str(), def.signature()));
            let found = one_of(all, known, "function", keyspace, name, arguments.as_deref())?;
            let Some(found) = found else {
                return absent(*if_exists, || invalid!("User function {keyspace}.{name} doesn't exist"));
            };
            let user = known.and_then(|known| known.aggregates.values().find(|aggregate| aggregate.calls(&found)));
            if let Some(user) = user {
                return Err(invalid!(
                    "Cannot delete function {keyspace}.{found}, as it is used by user-defined aggregate {}",
                    user.signature()
                ));
            }
            Ok(Some(dropped(Target::Function(keyspace.clone(), found))))
        }
        FunctionDdl::DropAggregate { keyspace, name, arguments, if_exists } => {
            let known = schema.keyspace(keyspace);
            let all = known.into_iter().flat_map(|known| known.aggregates.values());
            let all = all.map(|def| (def.name.as_str(), def.signature()));
            let found = one_of(all, known, "aggregate", keyspace, name, arguments.as_deref())?;
            let Some(found) = found else {
                return absent(*if_exists, || invalid!("User aggregate {keyspace}.{name} doesn't exist"));
            };
            Ok(Some(dropped(Target::Aggregate(keyspace.clone(), found))))
        }
    }
}

/// The signature that a DROP means; without arguments that of the only one of the name.
fn one_of<'a>(
    all: impl Iterator<Item = (&'a str, String)>,
    keyspace: Option<&Arc<KeyspaceDef>>,
    what: &str,
    keyspace_name: &str,
    name: &str,
    arguments: Option<&[CqlType]>,
) -> Result<Option<String>, QueryError> {
    let mut named: Vec<String> = all.filter(|(other, _)| *other == name).map(|(_, signature)| signature).collect();
    if let (Some(arguments), Some(known)) = (arguments, keyspace) {
        let types = arguments.iter().map(|ty| lookup(ty, keyspace_name, &known.types));
        let wanted = signature(name, &types.collect::<Result<Vec<_>, _>>()?);
        return Ok(named.into_iter().find(|signature| *signature == wanted));
    }
    if named.len() > 1 {
        return Err(invalid!(
            "There are multiple {what}s named {keyspace_name}.{name}: {}; give the types of its arguments",
            named.join(", ")
        ));
    }
    Ok(named.pop())
}

fn create_function(keyspace: &KeyspaceDef, create: &ast::CreateFunction) -> Result<Option<Decision>, QueryError> {
    if create.or_replace && create.if_not_exists {
        return Err(invalid!("Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives"));
    }
    let def = function(create, &keyspace.name, &keyspace.types)?;
    let key = def.signature();
    let known = keyspace.functions.get(&key);
    if known.is_some() && !create.or_replace {
        let exists = || invalid!("The function {}.{key} already exists", keyspace.name);
        return if create.if_not_exists { Ok(None) } else { Err(exists()) };
    }
    if keyspace.aggregates.contains_key(&key) {
        return Err(invalid!(
            "Cannot create function {}.{key}: an aggregate of the same signature exists",
            keyspace.name
        ));
    }
    if known.is_some_and(|known| known.returns.without_frozen() != def.returns.without_frozen()) {
        let user = keyspace.aggregates.values().find(|aggregate| aggregate.calls(&key));
        if let Some(user) = user {
            return Err(invalid!(
                "Cannot replace function {}.{key}, as it is used by user-defined aggregate {} and returns another type",
                keyspace.name,
                user.signature()
            ));
        }
    }
    Script::compile(&def, reactor::now).map_err(|error| invalid!("{error}"))?;
    let kind = if known.is_some() { ChangeKind::Updated } else { ChangeKind::Created };
    let target = Target::Function(keyspace.name.clone(), key);
    Ok(Some(Decision {
        entries: vec![(target.clone(), Some(describe::function(&def)))],
        change: Change { kind, target },
    }))
}

fn create_aggregate(keyspace: &KeyspaceDef, create: &ast::CreateAggregate) -> Result<Option<Decision>, QueryError> {
    if create.or_replace && create.if_not_exists {
        return Err(invalid!("Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives"));
    }
    let def = aggregate(create, &keyspace.name, &keyspace.types)?;
    let key = def.signature();
    let known = keyspace.aggregates.contains_key(&key);
    if known && !create.or_replace {
        let exists = || invalid!("The aggregate {}.{key} already exists", keyspace.name);
        return if create.if_not_exists { Ok(None) } else { Err(exists()) };
    }
    if keyspace.functions.contains_key(&key) {
        return Err(invalid!(
            "Cannot create aggregate {}.{key}: a function of the same signature exists",
            keyspace.name
        ));
    }
    let find = |what: &str, name: &str, arguments: &[CqlType]| {
        let wanted = signature(name, arguments);
        let found = keyspace.functions.get(&wanted);
        found.ok_or_else(|| invalid!("{what} function {}.{wanted} not found", keyspace.name))
    };
    let state = &def.state_type;
    let gives_state = |function: &FunctionDef| function.returns.without_frozen() == state.without_frozen();
    if !gives_state(find("State", &def.state_function, &def.state_arguments())?) {
        return Err(invalid!("State function '{}' doesn't return state of type {state}", def.state_function));
    }
    if let Some(name) = &def.reduce_function
        && !gives_state(find("Reduce", name, &[state.clone(), state.clone()])?)
    {
        return Err(invalid!("Reduce function '{name}' doesn't return state of type {state}"));
    }
    if let Some(name) = &def.final_function {
        find("Final", name, std::slice::from_ref(state))?;
    }
    let kind = if known { ChangeKind::Updated } else { ChangeKind::Created };
    let target = Target::Aggregate(keyspace.name.clone(), key);
    Ok(Some(Decision {
        entries: vec![(target.clone(), Some(describe::aggregate(&def)))],
        change: Change { kind, target },
    }))
}

fn dropped(target: Target) -> Decision {
    let change = Change { kind: ChangeKind::Dropped, target: target.clone() };
    Decision { entries: vec![(target, None)], change }
}
