//! Functions of one row: native ones, those of numbers and collections, and users' own; and which of several with one name is
//! meant.
//!
//! As Cassandra's `FunctionResolver`: of the functions of a name those whose arguments fit; one that fits exactly goes
//! before those that fit weakly, of which there must be one.

mod collections;
mod masking;
mod math;
mod native;
pub(super) mod operation;
mod user;
mod vector;

use cql::ast::{QualifiedName, Term};
use cql::term;
use types::{CqlType, Fit, Token, collection, serialize_partition_key};

use super::restrictions::check_components;
use super::{Context, Markers};
use crate::error::{QueryError, invalid};

use collections::OfCollection;
use masking::Mask;
use math::Math;
use native::Native;
pub(crate) use operation::Operation;
pub(crate) use user::{UserAggregate, UserFunction};
use vector::Similarity;

#[derive(Clone, Debug)]
pub(crate) enum Function {
    Native(Native),
    Similarity(Similarity),
    /// `a + b`
    Operation(Operation),
    /// `round(a)`
    Math(Math),
    /// `map_keys(m)`; with the argument's type.
    OfCollection(OfCollection, CqlType),
    Mask(Mask),
    /// The elements that two sets of this type share.
    SetIntersection(CqlType),
    /// The token of a partition key.
    Token,
    User(UserFunction),
}

/// What is known of an argument before the function is.
pub(crate) enum Argument<'a> {
    Typed(CqlType),
    /// A constant, a marker or what is made of them: fits several types.
    Term(&'a Term),
}

impl Argument<'_> {
    fn fit(&self, ty: &CqlType, markers: &Markers) -> Option<Fit> {
        match self {
            Argument::Typed(given) => ty.fit(given),
            Argument::Term(item) => term::fit(item, ty, &|call| type_of(call, markers)),
        }
    }

    pub fn fits(&self, ty: &CqlType, markers: &Markers) -> bool {
        self.fit(ty, markers).is_some()
    }

    /// The type that it has by itself.
    pub fn natural_type(&self, markers: &Markers) -> Option<CqlType> {
        match self {
            Argument::Typed(ty) => Some(ty.clone()),
            Argument::Term(item) => term::natural_type(item, &|call| type_of(call, markers)),
        }
    }
}

/// The type of a call or a cast; `None` when there is no such function.
fn type_of(item: &Term, markers: &Markers) -> Option<CqlType> {
    match item {
        Term::Function { name, arguments } => {
            let arguments: Vec<Argument<'_>> = arguments.iter().map(|item| argument(item, markers)).collect();
            choose(name, &arguments, markers).ok().map(|(function, _)| function.result())
        }
        Term::Cast { ty, .. } => markers.find_type(ty).ok(),
        _ => None,
    }
}

pub(super) fn argument<'a>(item: &'a Term, markers: &Markers) -> Argument<'a> {
    type_of(item, markers).map_or(Argument::Term(item), Argument::Typed)
}

/// The function that a call means, and its arguments' types.
pub(super) fn choose(
    name: &QualifiedName,
    arguments: &[Argument<'_>],
    markers: &Markers,
) -> Result<(Function, Vec<CqlType>), QueryError> {
    let chosen = find(name, arguments, markers)?;
    if let (Function::User(user), types) = &chosen {
        markers.executes(user.keyspace(), &name.name, types);
    }
    Ok(chosen)
}

fn find(
    name: &QualifiedName,
    arguments: &[Argument<'_>],
    markers: &Markers,
) -> Result<(Function, Vec<CqlType>), QueryError> {
    let lower = name.name.to_ascii_lowercase();
    let native = name.keyspace.as_deref().is_none_or(|keyspace| keyspace == "system");
    if native && let Some(found) = generic(name, &lower, arguments, markers)? {
        return Ok(found);
    }
    let mut candidates: Vec<(Function, Vec<CqlType>)> = Vec::new();
    if native {
        let found = native::named(&lower).into_iter();
        candidates.extend(found.map(|(function, types)| (Function::Native(function), types)));
    }
    if candidates.is_empty() {
        candidates.extend(user::functions(name, markers)?);
    }
    let shown = |types: &[CqlType]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let signature = |(function, types): &(Function, Vec<CqlType>)| format!("{} : ({})", function.name(), shown(types));
    match candidates.as_slice() {
        [] if is_aggregate(name, native, markers) => {
            return Err(invalid!("Aggregation functions are not supported here, but only in a selection: {name}"));
        }
        [] => return Err(invalid!("Unknown function '{name}'")),
        [(function, types)] => {
            if types.len() != arguments.len() {
                return Err(invalid!(
                    "Invalid number of arguments in call to function {}: {} required but {} provided",
                    function.name(),
                    types.len(),
                    arguments.len()
                ));
            }
            if let Some(at) = (0..types.len()).find(|&at| arguments[at].fit(&types[at], markers).is_none()) {
                let shown = match &arguments[at] {
                    Argument::Typed(ty) => format!("a value of type {ty}"),
                    Argument::Term(item) => item.to_string(),
                };
                return Err(invalid!(
                    "Type error: {shown} cannot be passed as argument {at} of function {} of type {}",
                    function.name(),
                    types[at]
                ));
            }
            return Ok((function.clone(), types.clone()));
        }
        _ => {}
    }
    let mut fitting: Vec<(Fit, &(Function, Vec<CqlType>))> = Vec::new();
    for candidate in &candidates {
        let types = &candidate.1;
        if types.len() != arguments.len() {
            continue;
        }
        let fits = arguments.iter().zip(types).map(|(argument, ty)| argument.fit(ty, markers));
        if let Some(fit) = fits.collect::<Option<Vec<Fit>>>() {
            fitting.push((fit.into_iter().min().unwrap_or(Fit::Exact), candidate));
        }
    }
    let all: Vec<String> = candidates.iter().map(signature).collect();
    if let Some((_, exact)) = fitting.iter().find(|(fit, _)| *fit == Fit::Exact) {
        return Ok((*exact).clone());
    }
    match fitting.as_slice() {
        [] => Err(invalid!(
            "Invalid call to function {name}, none of its type signatures match (known type signatures: {}): Type error: \
             the arguments fit none",
            all.join(", ")
        )),
        [(_, one)] => Ok((*one).clone()),
        _ => Err(invalid!(
            "Ambiguous call to function {name} (can be matched by following signatures: {}): use type casts to \
             disambiguate",
            all.join(", ")
        )),
    }
}

fn is_aggregate(name: &QualifiedName, native: bool, markers: &Markers) -> bool {
    let names = ["count", "min", "max", "sum", "avg"];
    (native && names.contains(&name.name.as_str())) || !UserAggregate::named(name, markers).is_empty()
}

/// Functions whose types follow from their arguments'.
fn generic(
    written: &QualifiedName,
    name: &str,
    arguments: &[Argument<'_>],
    markers: &Markers,
) -> Result<Option<(Function, Vec<CqlType>)>, QueryError> {
    if let Some(operator) = operation::Operator::named(name, arguments.len()) {
        return operation::choose(operator, arguments, None, markers).map(Some);
    }
    Ok(Some(match name {
        "tojson" | "to_json" => {
            let [argument] = arguments else {
                return Err(invalid!("Invalid number of arguments in call to function system.tojson: 1 required"));
            };
            let ty = argument.natural_type(markers).ok_or_else(|| cannot_infer("system.tojson"))?;
            (Function::Native(Native::ToJson(ty.clone())), vec![ty])
        }
        "token" => {
            let table = markers.schema.table(&markers.keyspace, &markers.table);
            let table = table.ok_or_else(|| invalid!("Unknown function 'token'"))?;
            let types: Vec<CqlType> = table.partition_key.iter().map(|column| column.ty.clone()).collect();
            if types.len() != arguments.len() {
                return Err(invalid!(
                    "Invalid number of arguments in call to function system.token: {} required but {} provided",
                    types.len(),
                    arguments.len()
                ));
            }
            if let Some(at) = (0..types.len()).find(|&at| arguments[at].fit(&types[at], markers).is_none()) {
                return Err(invalid!(
                    "Type error: argument {at} of function system.token is not of type {}",
                    types[at]
                ));
            }
            (Function::Token, types)
        }
        "set_intersection" => {
            let [a, b] = arguments else {
                return Err(invalid!(
                    "Function system.set_intersection accepts 2 arguments, but {} were given",
                    arguments.len()
                ));
            };
            let types = [a.natural_type(markers), b.natural_type(markers)];
            let [Some(first), Some(second)] = types.map(|ty| ty.map(|ty| ty.without_frozen())) else {
                return Err(cannot_infer("system.set_intersection"));
            };
            if !matches!((&first, &second), (CqlType::Set(_), CqlType::Set(_))) {
                return Err(invalid!("Function system.set_intersection requires that both arguments are of set type"));
            }
            // A literal takes the type of the other.
            let ty = if a.fit(&second, markers).is_some() && matches!(a, Argument::Term(_)) { second } else { first };
            if a.fit(&ty, markers).is_none() || b.fit(&ty, markers).is_none() {
                return Err(invalid!(
                    "Function system.set_intersection requires that both arguments are of the same set type"
                ));
            }
            (Function::SetIntersection(ty.clone()), vec![ty.clone(), ty])
        }
        // Younger than users' functions of these names may be.
        name if is_of_types(name) && user::functions(written, markers)?.is_empty() => {
            of_types(name, arguments, markers)?
        }
        _ => match Similarity::named(name) {
            Some(similarity) => vector_similarity(similarity, arguments, markers)?,
            None => return Ok(None),
        },
    }))
}

fn is_of_types(name: &str) -> bool {
    math::is_name(name) || collections::is_name(name) || masking::is_name(name)
}

/// A function of which there is one for each type that its first argument may have.
fn of_types(name: &str, arguments: &[Argument<'_>], markers: &Markers) -> Result<(Function, Vec<CqlType>), QueryError> {
    let is_mask = masking::is_name(name);
    let first = match arguments {
        [first] => first,
        [first, ..] if is_mask => first,
        _ => {
            return Err(invalid!(
                "Invalid number of arguments in call to function system.{name}: 1 required but {} provided",
                arguments.len()
            ));
        }
    };
    let ty = first.natural_type(markers).ok_or_else(|| cannot_infer(&format!("system.{name}")))?;
    if is_mask {
        let (mask, types) = Mask::of(name, &ty, arguments.len())?;
        let misfit = (0..types.len()).find(|&at| arguments[at].fit(&types[at], markers).is_none());
        return match misfit {
            Some(at) => {
                Err(invalid!("Type error: argument {at} of function system.{name} is not of type {}", types[at]))
            }
            None => Ok((Function::Mask(mask), types)),
        };
    }
    if collections::is_name(name) {
        return Ok((Function::OfCollection(OfCollection::of(name, &ty)?, ty.clone()), vec![ty]));
    }
    match Math::of(name, &ty) {
        Some(math) => Ok((Function::Math(math), vec![ty])),
        None => Err(invalid!(
            "Invalid call to function {name}, none of its type signatures match: system.{name} has no argument of type \
             {ty}"
        )),
    }
}

fn cannot_infer(function: &str) -> QueryError {
    invalid!("Cannot infer type of argument of function {function}; use a type cast")
}

fn vector_similarity(
    similarity: Similarity,
    arguments: &[Argument<'_>],
    markers: &Markers,
) -> Result<(Function, Vec<CqlType>), QueryError> {
    let name = similarity.name();
    if arguments.len() != 2 {
        return Err(invalid!(
            "Invalid number of arguments for function {name}: 2 required but {} provided",
            arguments.len()
        ));
    }
    let wanted = || invalid!("Function {name} requires a float vector argument");
    let mut found: Option<CqlType> = None;
    for argument in arguments {
        let given = match argument {
            Argument::Typed(ty) => match ty.unfrozen() {
                CqlType::Vector(element, _) if **element == CqlType::Float => ty.unfrozen().clone(),
                other => return Err(invalid!("{}, but found argument of type {other}", wanted().message)),
            },
            Argument::Term(Term::Null | Term::Marker(_)) => continue,
            Argument::Term(Term::List(items)) => CqlType::vector(CqlType::Float, items.len() as u32),
            Argument::Term(item) => return Err(invalid!("{}, but found argument {item}", wanted().message)),
        };
        match &found {
            Some(other) if *other != given => {
                return Err(invalid!(
                    "All arguments must have the same vector dimensions, but found {other} and {given}"
                ));
            }
            _ => found = Some(given),
        }
    }
    let ty = found.ok_or_else(|| invalid!("Cannot infer type of argument of function {name}"))?;
    if arguments.iter().any(|argument| argument.fit(&ty, markers).is_none()) {
        return Err(wanted());
    }
    let has_null = |item: &Term| matches!(item, Term::List(items) if items.contains(&Term::Null));
    if arguments.iter().any(|argument| matches!(argument, Argument::Term(item) if has_null(item))) {
        return Err(wanted());
    }
    Ok((Function::Similarity(similarity), vec![ty.clone(), ty]))
}

impl Function {
    pub fn name(&self) -> String {
        match self {
            Function::Native(native) => native.name(),
            Function::Similarity(similarity) => similarity.name().to_string(),
            Function::Operation(operation) => operation.operator().symbol().to_string(),
            Function::Math(math) => math.name(),
            Function::OfCollection(function, _) => function.name(),
            Function::Mask(mask) => mask.name(),
            Function::SetIntersection(_) => "system.set_intersection".to_string(),
            Function::Token => "system.token".to_string(),
            Function::User(user) => user.name(),
        }
    }

    pub fn result(&self) -> CqlType {
        match self {
            Function::Native(native) => native.result(),
            Function::Similarity(_) => CqlType::Float,
            Function::Operation(operation) => operation.result(),
            Function::Math(math) => math.result(),
            Function::OfCollection(function, _) => function.result(),
            Function::Mask(mask) => mask.result(),
            Function::SetIntersection(ty) => ty.clone(),
            Function::Token => CqlType::BigInt,
            Function::User(user) => user.result(),
        }
    }

    pub fn call(&self, arguments: &[Option<&[u8]>], context: &Context) -> Result<Option<Vec<u8>>, QueryError> {
        let of_two = |of: &dyn Fn(&[u8], &[u8]) -> Result<Vec<u8>, QueryError>| match arguments {
            [Some(a), Some(b)] => of(a, b).map(Some),
            _ => Ok(None),
        };
        match self {
            Function::Native(native) => native.call(arguments, context),
            Function::Operation(operation) => operation.call(arguments),
            Function::Mask(mask) => mask.call(arguments),
            Function::Math(math) => match arguments {
                // An empty value is no number.
                [Some(value)] if !value.is_empty() => math.call(value).map(Some),
                _ => Ok(None),
            },
            Function::OfCollection(function, ty) => match arguments {
                [Some(value)] => function.call(ty, value),
                _ => Ok(None),
            },
            Function::Similarity(similarity) => of_two(&|a, b| Ok(similarity.of(a, b).to_be_bytes().to_vec())),
            Function::SetIntersection(ty) => of_two(&|a, b| {
                let CqlType::Set(element) = ty else { return Ok(Vec::new()) };
                let elements = |set| collection::elements(set).map_err(|error| invalid!("{error}"));
                let other = elements(b)?;
                let shared: Vec<&[u8]> = elements(a)?
                    .into_iter()
                    .flatten()
                    .filter(|one| other.iter().flatten().any(|known| element.compare(known, one).is_eq()))
                    .collect();
                Ok(collection::write_collection(shared.len(), shared))
            }),
            Function::Token => {
                let Some(parts) = arguments.iter().copied().collect::<Option<Vec<&[u8]>>>() else { return Ok(None) };
                if parts.len() > 1 {
                    check_components(&parts)?;
                }
                Ok(Some(Token::of_key(&serialize_partition_key(&parts)).0.to_be_bytes().to_vec()))
            }
            Function::User(user) => user.call(arguments),
        }
    }
}
