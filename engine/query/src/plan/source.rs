//! Where a value of a statement comes from, and how it is got at execution.

use std::borrow::Cow;
use std::sync::Arc;

use cql::Value;
use cql::ast::{QualifiedName, Term};
use cql::response::ErrorKind;
use cql::term::{self, Resolve, TermError, TermValue};
use types::{CqlType, json};

use super::Markers;
use super::functions::operation::{self, Operator};
use super::functions::{Function, argument, choose};
use crate::error::{QueryError, invalid};

/// The bound values of one execution, by marker.
pub(crate) type Values<'a> = [Value<'a>];

/// What functions may ask of the execution.
pub(crate) struct Context {
    /// Microseconds since 1970.
    pub now_us: i64,
    /// Seconds since 1970, by which values expire: the request may have its own.
    pub now_s: u32,
    /// For `now()`, `uuid()`.
    pub random: fn() -> u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// `None` is null.
    Constant(Option<Vec<u8>>),
    Marker(u16, CqlType),
    Call(Function, Vec<Source>),
    /// `fromJson(text)`
    FromJson(Box<Source>, CqlType),
    /// A column's member of the object that INSERT JSON is given.
    JsonMember(Box<JsonMember>),
    /// A collection or tuple with markers or calls inside.
    Compound {
        term: Term,
        ty: CqlType,
        name: String,
        /// The calls inside, in the order in which the term is walked.
        calls: Vec<Source>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct JsonMember {
    pub json: Source,
    pub column: String,
    pub ty: CqlType,
    /// The columns that the object may have.
    pub known: Arc<[String]>,
    /// What is not in the object stays as it is, instead of becoming null.
    pub default_unset: bool,
}

impl JsonMember {
    fn bind(&self, values: &Values<'_>, context: &Context) -> Result<Bound<'static>, QueryError> {
        let text = match self.json.bind(values, context)? {
            Bound::Bytes(bytes) => bytes,
            Bound::Null => return Err(invalid!("Got null for INSERT JSON values")),
            Bound::Unset => return Err(invalid!("Invalid unset value for column [json]")),
        };
        let text = std::str::from_utf8(&text).map_err(|error| invalid!("{error}"))?;
        if text.trim() == "null" {
            return Err(invalid!("Got null for INSERT JSON values"));
        }
        let could_not = |error| invalid!("Could not decode JSON string as a map: {error}. (String was: {text})");
        let members = json::object(text, "a map").map_err(could_not)?;
        let mut found = None;
        for (name, value) in &members {
            let column = json::name_of_json(name);
            if column == self.column {
                found = Some(value);
            } else if !self.known.iter().any(|known| column == *known) {
                return Err(invalid!("JSON values map contains unrecognized column: {column}"));
            }
        }
        let Some(value) = found else { return Ok(if self.default_unset { Bound::Unset } else { Bound::Null }) };
        let bytes = self.ty.from_json(value.get());
        let bytes = bytes.map_err(|error| invalid!("Error decoding JSON value for {}: {error}", self.column))?;
        Ok(bytes.map_or(Bound::Null, |bytes| Bound::Bytes(Cow::Owned(bytes))))
    }
}

/// A value, or that there is none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bound<'a> {
    Unset,
    Null,
    Bytes(Cow<'a, [u8]>),
}

impl<'a> Bound<'a> {
    /// For where a value must be: a key, a limit.
    pub fn required(self, what: &str) -> Result<Cow<'a, [u8]>, QueryError> {
        match self {
            Bound::Bytes(bytes) => Ok(bytes),
            Bound::Null => Err(invalid!("Invalid null value in condition for column {what}")),
            Bound::Unset => Err(invalid!("Invalid unset value for column {what}")),
        }
    }
}

impl Source {
    /// Resolves a term for a place called `name` of type `ty`.
    pub fn resolve(item: &Term, ty: &CqlType, name: &str, markers: &mut Markers) -> Result<Source, QueryError> {
        match item {
            Term::Marker(marker) => {
                markers.want(*marker, name, ty);
                Ok(Source::Marker(*marker, ty.clone()))
            }
            Term::Function { name: function, arguments } if is_from_json(&function.name) => {
                let [argument] = arguments.as_slice() else {
                    return Err(invalid!("Invalid number of arguments in call to function {function}: 1 required"));
                };
                let text = Source::resolve(argument, &CqlType::Text, "[json]", markers)?;
                Ok(Source::FromJson(Box::new(text), ty.clone()))
            }
            Term::Function { name: function, arguments } => {
                let given: Vec<_> = arguments.iter().map(|item| argument(item, markers)).collect();
                let (function, types) = match Operator::named(&function.name, arguments.len()) {
                    Some(operator) => {
                        let wanted = operation::wanted(operator, arguments, ty);
                        operation::choose(operator, &given, wanted, markers)?
                    }
                    None => choose(function, &given, markers)?,
                };
                if ty.fit(&function.result()).is_none() {
                    return Err(invalid!(
                        "Type error: cannot assign result of function {} (type {}) to {name} (type {ty})",
                        function.name(),
                        function.result()
                    ));
                }
                let arguments = arguments
                    .iter()
                    .zip(types)
                    .enumerate()
                    .map(|(at, (item, ty))| {
                        Source::resolve(item, &ty, &format!("arg{at}({})", function.name()), markers)
                    })
                    .collect::<Result<_, _>>()?;
                Ok(Source::Call(function, arguments))
            }
            item if !is_constant(item) => {
                let mut planning = Planning { markers, name, calls: Vec::new() };
                term::term_to_bytes(item, ty, name, &mut planning)?;
                let calls = planning.calls;
                Ok(Source::Compound { term: item.clone(), ty: ty.clone(), name: name.to_string(), calls })
            }
            constant => Ok(Source::Constant(term::literal_to_bytes(constant, ty, name)?)),
        }
    }

    pub fn marker(&self) -> Option<u16> {
        match self {
            Source::Marker(marker, _) => Some(*marker),
            _ => None,
        }
    }

    /// The value for this execution, checked against its type.
    pub fn bind<'v>(&'v self, values: &Values<'v>, context: &Context) -> Result<Bound<'v>, QueryError> {
        Ok(match self {
            Source::Constant(None) => Bound::Null,
            Source::Constant(Some(bytes)) => Bound::Bytes(Cow::Borrowed(bytes)),
            Source::Marker(marker, ty) => match values[*marker as usize] {
                Value::Unset => Bound::Unset,
                Value::Null => Bound::Null,
                Value::Bytes(bytes) => {
                    ty.validate(bytes).map_err(|error| invalid!("{error}"))?;
                    Bound::Bytes(ty.canonical(bytes).map_err(|error| invalid!("{error}"))?)
                }
            },
            Source::Call(function, arguments) => {
                let arguments =
                    arguments.iter().map(|argument| argument.bind(values, context)).collect::<Result<Vec<_>, _>>()?;
                let bytes: Vec<Option<&[u8]>> = arguments
                    .iter()
                    .map(|argument| match argument {
                        Bound::Bytes(bytes) => Some(&**bytes),
                        _ => None,
                    })
                    .collect();
                function.call(&bytes, context)?.map_or(Bound::Null, |bytes| Bound::Bytes(Cow::Owned(bytes)))
            }
            Source::FromJson(json, ty) => match json.bind(values, context)? {
                Bound::Bytes(text) => {
                    let text = std::str::from_utf8(&text).map_err(|error| invalid!("{error}"))?;
                    let bytes = ty.from_json(text).map_err(|error| {
                        let kind = ErrorKind::FunctionFailure {
                            keyspace: "system".to_string(),
                            function: "fromjson".to_string(),
                            argument_types: vec!["text".to_string()],
                        };
                        QueryError::new(kind, format!("Could not decode JSON string '{text}': {error}"))
                    })?;
                    bytes.map_or(Bound::Null, |bytes| Bound::Bytes(Cow::Owned(bytes)))
                }
                none => none,
            },
            Source::JsonMember(member) => member.bind(values, context)?,
            Source::Compound { term, ty, name, calls } => {
                match term::term_to_bytes(term, ty, name, &mut Binding { values, context, calls: calls.iter() })? {
                    TermValue::Bytes(bytes) => Bound::Bytes(Cow::Owned(bytes)),
                    TermValue::Null => Bound::Null,
                    TermValue::Unset => Bound::Unset,
                }
            }
        })
    }
}

/// Walks a term to learn what its markers want; the bytes that come of it mean nothing.
struct Planning<'a> {
    markers: &'a mut Markers,
    name: &'a str,
    calls: Vec<Source>,
}

impl Resolve for Planning<'_> {
    fn marker(&mut self, index: u16, ty: &CqlType) -> Result<TermValue, TermError> {
        self.markers.want(index, self.name, ty);
        Ok(TermValue::Bytes(Vec::new()))
    }

    fn function(&mut self, name: &QualifiedName, arguments: &[Term], ty: &CqlType) -> Result<TermValue, TermError> {
        let term = Term::Function { name: name.clone(), arguments: arguments.to_vec() };
        let call = Source::resolve(&term, ty, self.name, self.markers).map_err(|error| TermError(error.message))?;
        self.calls.push(call);
        Ok(TermValue::Bytes(Vec::new()))
    }
}

/// Gives a term's markers and functions the values of one execution.
struct Binding<'a> {
    values: &'a Values<'a>,
    context: &'a Context,
    calls: std::slice::Iter<'a, Source>,
}

impl Resolve for Binding<'_> {
    fn marker(&mut self, index: u16, ty: &CqlType) -> Result<TermValue, TermError> {
        Ok(match self.values[index as usize] {
            Value::Unset => TermValue::Unset,
            Value::Null => TermValue::Null,
            Value::Bytes(bytes) => {
                ty.validate(bytes)?;
                TermValue::Bytes(ty.canonical(bytes)?.into_owned())
            }
        })
    }

    fn function(&mut self, name: &QualifiedName, _: &[Term], _: &CqlType) -> Result<TermValue, TermError> {
        let call = self.calls.next().ok_or_else(|| TermError(format!("Unknown function '{name}'")))?;
        Ok(match call.bind(self.values, self.context).map_err(|error| TermError(error.message))? {
            Bound::Bytes(bytes) => TermValue::Bytes(bytes.into_owned()),
            Bound::Null => TermValue::Null,
            Bound::Unset => TermValue::Unset,
        })
    }
}

fn is_from_json(name: &str) -> bool {
    name.eq_ignore_ascii_case("fromjson") || name.eq_ignore_ascii_case("from_json")
}

/// Nothing inside depends on the execution.
fn is_constant(item: &Term) -> bool {
    match item {
        Term::Null | Term::Constant { .. } => true,
        Term::Marker(_) | Term::Function { .. } => false,
        Term::List(items) | Term::Set(items) | Term::Tuple(items) => items.iter().all(is_constant),
        Term::Map(entries) => entries.iter().all(|(key, value)| is_constant(key) && is_constant(value)),
        Term::Fields(fields) => fields.iter().all(|(_, value)| is_constant(value)),
        Term::Cast { term, .. } => is_constant(term),
    }
}
