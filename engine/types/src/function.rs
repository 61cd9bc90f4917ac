//! Functions and aggregates that users have defined.

use crate::CqlType;

#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDef {
    pub keyspace: String,
    pub name: String,
    /// Names and types.
    pub arguments: Vec<(String, CqlType)>,
    /// Or else its result is null when an argument is.
    pub called_on_null_input: bool,
    pub returns: CqlType,
    /// In lower case.
    pub language: String,
    pub body: String,
}

/// Folds rows into a state by one function, and the state into the result by another.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateDef {
    pub keyspace: String,
    pub name: String,
    pub arguments: Vec<CqlType>,
    /// Takes the state and the arguments, gives the next state.
    pub state_function: String,
    pub state_type: CqlType,
    /// Takes two states that parts of the rows came to, gives the one of all.
    pub reduce_function: Option<String>,
    /// Takes the last state.
    pub final_function: Option<String>,
    /// The first state as a CQL literal; null without.
    pub initial: Option<String>,
}

/// What tells functions of one keyspace apart: name and arguments' types. Freezing does not count.
pub fn signature<'t>(name: &str, arguments: impl IntoIterator<Item = &'t CqlType>) -> String {
    let arguments: Vec<String> = arguments.into_iter().map(|ty| ty.without_frozen().to_string()).collect();
    format!("{name}({})", arguments.join(", "))
}

impl FunctionDef {
    pub fn argument_types(&self) -> impl Iterator<Item = &CqlType> {
        self.arguments.iter().map(|(_, ty)| ty)
    }

    pub fn signature(&self) -> String {
        signature(&self.name, self.argument_types())
    }
}

impl AggregateDef {
    pub fn signature(&self) -> String {
        signature(&self.name, &self.arguments)
    }

    /// What the aggregate's state function takes.
    pub fn state_arguments(&self) -> Vec<CqlType> {
        std::iter::once(&self.state_type).chain(&self.arguments).cloned().collect()
    }

    /// Itself and what it calls: names with arguments' types.
    pub fn functions(&self) -> Vec<(String, Vec<CqlType>)> {
        let state = &self.state_type;
        let mut all =
            vec![(self.name.clone(), self.arguments.clone()), (self.state_function.clone(), self.state_arguments())];
        all.extend(self.reduce_function.clone().map(|name| (name, vec![state.clone(), state.clone()])));
        all.extend(self.final_function.clone().map(|name| (name, vec![state.clone()])));
        all
    }

    /// Whether it calls a function of this signature.
    pub fn calls(&self, function: &str) -> bool {
        let state = &self.state_type;
        let reduces = self.reduce_function.as_ref().map(|name| signature(name, [state, state]));
        let finishes = self.final_function.as_ref().map(|name| signature(name, [state]));
        signature(&self.state_function, &self.state_arguments()) == function
            || reduces.is_some_and(|reduces| reduces == function)
            || finishes.is_some_and(|finishes| finishes == function)
    }
}
