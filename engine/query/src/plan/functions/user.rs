//! Functions and aggregates that users have defined, found and made ready to run.

use std::rc::Rc;
use std::sync::Arc;

use cql::ast::QualifiedName;
use cql::response::ErrorKind;
use types::{AggregateDef, CqlType, FunctionDef, KeyspaceDef};

use super::super::Markers;
use super::Function;
use crate::error::{QueryError, invalid};
use crate::script::Script;

#[derive(Clone, Debug)]
pub(crate) struct UserFunction {
    def: Arc<FunctionDef>,
    script: Rc<Script>,
}

impl UserFunction {
    fn new(def: &Arc<FunctionDef>) -> Result<Self, QueryError> {
        let script = Script::compile(def, reactor::now).map_err(|error| invalid!("{error}"))?;
        Ok(Self { def: def.clone(), script: Rc::new(script) })
    }

    pub fn name(&self) -> String {
        format!("{}.{}", self.def.keyspace, self.def.name)
    }

    pub fn keyspace(&self) -> &str {
        &self.def.keyspace
    }

    pub fn result(&self) -> CqlType {
        self.def.returns.clone()
    }

    pub fn call(&self, arguments: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>, QueryError> {
        if !self.def.called_on_null_input && arguments.iter().any(Option::is_none) {
            return Ok(None);
        }
        reactor::charge(reactor::Work::StatementExecute, arguments.len() as u64);
        self.script.call(arguments).map_err(|error| {
            let kind = ErrorKind::FunctionFailure {
                keyspace: self.def.keyspace.clone(),
                function: self.def.name.clone(),
                argument_types: self.def.argument_types().map(ToString::to_string).collect(),
            };
            QueryError::new(kind, format!("execution of '{}' failed: {error}", self.def.signature()))
        })
    }
}

/// The keyspaces that a name may be of.
fn keyspace_of<'m>(name: &QualifiedName, markers: &'m Markers) -> Option<&'m Arc<KeyspaceDef>> {
    let keyspace = match &name.keyspace {
        Some(keyspace) => keyspace.as_str(),
        None if crate::system::is_system(&markers.keyspace) => markers.session_keyspace.as_deref()?,
        None => markers.keyspace.as_str(),
    };
    markers.schema.keyspace(keyspace)
}

/// All functions of a name, with their arguments' types.
pub(super) fn functions(name: &QualifiedName, markers: &Markers) -> Result<Vec<(Function, Vec<CqlType>)>, QueryError> {
    let Some(keyspace) = keyspace_of(name, markers) else { return Ok(Vec::new()) };
    let named = keyspace.functions.values().filter(|def| def.name == name.name);
    named.map(|def| Ok((Function::User(UserFunction::new(def)?), def.argument_types().cloned().collect()))).collect()
}

#[derive(Clone, Debug)]
pub(crate) struct UserAggregate {
    def: Arc<AggregateDef>,
    state: UserFunction,
    finish: Option<UserFunction>,
    /// `None` is null.
    pub initial: Option<Vec<u8>>,
}

impl UserAggregate {
    /// The aggregates of a name.
    pub fn named(name: &QualifiedName, markers: &Markers) -> Vec<Arc<AggregateDef>> {
        let keyspace = keyspace_of(name, markers);
        let all = keyspace.into_iter().flat_map(|keyspace| keyspace.aggregates.values());
        all.filter(|def| def.name == name.name).cloned().collect()
    }

    pub fn new(def: &Arc<AggregateDef>, markers: &Markers) -> Result<Self, QueryError> {
        let keyspace = markers.schema.keyspace(&def.keyspace);
        let function = |name: &str, arguments: &[CqlType]| {
            let signature = types::signature(name, arguments);
            let found = keyspace.and_then(|keyspace| keyspace.functions.get(&signature));
            UserFunction::new(found.ok_or_else(|| invalid!("Function {}.{signature} not found", def.keyspace))?)
        };
        for (name, arguments) in def.functions() {
            markers.executes(&def.keyspace, &name, &arguments);
        }
        let finish = def.final_function.as_ref();
        let initial = match &def.initial {
            None => None,
            Some(text) => crate::ddl::initial_state(text, &def.state_type)?,
        };
        Ok(Self {
            state: function(&def.state_function, &def.state_arguments())?,
            finish: finish.map(|name| function(name, std::slice::from_ref(&def.state_type))).transpose()?,
            def: def.clone(),
            initial,
        })
    }

    pub fn result(&self) -> CqlType {
        self.finish.as_ref().map_or_else(|| self.def.state_type.clone(), UserFunction::result)
    }

    /// The next state.
    pub fn step(&self, state: Option<&[u8]>, values: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>, QueryError> {
        let arguments: Vec<Option<&[u8]>> = std::iter::once(state).chain(values.iter().copied()).collect();
        self.state.call(&arguments)
    }

    pub fn finish(&self, state: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, QueryError> {
        match &self.finish {
            None => Ok(state),
            Some(finish) => finish.call(&[state.as_deref()]),
        }
    }
}
