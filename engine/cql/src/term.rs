//! A term's bytes, once its type is known, refused in Cassandra's words: `Invalid STRING constant (abc) for "x" of
//! type int`.
//!
//! Markers and functions, at whatever depth, are the caller's to resolve; [`literal_to_bytes`] is for where neither
//! may stand.

use std::cmp::Ordering;

use types::{CqlType, Fit, UserType, collection};

use crate::ast::{ConstantKind, QualifiedName, Term};

/// Goes to the client as INVALID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TermError(pub String);

impl From<types::Error> for TermError {
    fn from(error: types::Error) -> TermError {
        TermError(error.to_string())
    }
}

impl From<TermError> for crate::response::Error {
    fn from(error: TermError) -> Self {
        crate::response::Error::invalid(error.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermValue {
    Null,
    /// Of a marker alone.
    Unset,
    Bytes(Vec<u8>),
}

/// What the text does not say.
pub trait Resolve {
    /// The value bound to a marker that stands for a value of this type. It must be valid for the type.
    fn marker(&mut self, index: u16, ty: &CqlType) -> Result<TermValue, TermError>;
    fn function(&mut self, name: &QualifiedName, arguments: &[Term], ty: &CqlType) -> Result<TermValue, TermError>;
}

struct NoNames;

impl Resolve for NoNames {
    fn marker(&mut self, _: u16, _: &CqlType) -> Result<TermValue, TermError> {
        Err(TermError("Bind variables are not possible here".to_string()))
    }

    fn function(&mut self, name: &QualifiedName, _: &[Term], _: &CqlType) -> Result<TermValue, TermError> {
        Err(TermError(format!("Unknown function '{name}'")))
    }
}

/// Of a term without markers and functions; `None` is null. `receiver` is the column's name, for messages.
pub fn literal_to_bytes(term: &Term, ty: &CqlType, receiver: &str) -> Result<Option<Vec<u8>>, TermError> {
    match term_to_bytes(term, ty, receiver, &mut NoNames)? {
        TermValue::Bytes(bytes) => Ok(Some(bytes)),
        TermValue::Null | TermValue::Unset => Ok(None),
    }
}

pub fn term_to_bytes(
    term: &Term,
    ty: &CqlType,
    receiver: &str,
    resolve: &mut dyn Resolve,
) -> Result<TermValue, TermError> {
    Ok(TermValue::Bytes(match term {
        Term::Null => return Ok(TermValue::Null),
        Term::Marker(index) => return resolve.marker(*index, ty),
        Term::Function { name, arguments } => return resolve.function(name, arguments, ty),
        Term::Constant { kind, text } => constant(*kind, text, ty, receiver)?,
        Term::Cast { ty: cast, term: inner } => {
            if is_named(cast, ty) {
                return term_to_bytes(inner, ty, receiver, resolve);
            }
            if ty.fit(cast).is_none() {
                return Err(TermError(format!("Cannot assign value {term} to {receiver} of type {ty}")));
            }
            return term_to_bytes(inner, cast, receiver, resolve);
        }
        Term::List(items) => match ty.unfrozen() {
            CqlType::List(element) => {
                check_elements(items, element, "list", receiver)?;
                let items = elements(items, element, &format!("value({receiver})"), resolve)?;
                collection::write_collection(items.len(), items.iter().map(Vec::as_slice))
            }
            CqlType::Vector(element, dimension) => {
                if items.len() != *dimension as usize {
                    return Err(TermError(format!(
                        "Invalid vector literal for {receiver} of type {ty}; expected {dimension} elements, but given {}",
                        items.len()
                    )));
                }
                check_elements(items, element, "vector", receiver)?;
                if items.contains(&Term::Null) {
                    return Err(TermError("null is not supported inside vectors".to_string()));
                }
                let items = elements(items, element, &format!("value({receiver})"), resolve)?;
                collection::write_vector(element.fixed_len(), items.iter().map(Vec::as_slice))
            }
            _ => return Err(TermError(format!("Invalid list literal for {receiver} of type {ty}"))),
        },
        Term::Set(items) => match ty.unfrozen() {
            CqlType::Set(element) => {
                check_elements(items, element, "set", receiver)?;
                let mut items = elements(items, element, &format!("value({receiver})"), resolve)?;
                items.sort_by(|a, b| element.compare(a, b));
                items.dedup_by(|a, b| element.compare(a, b) == Ordering::Equal);
                collection::write_collection(items.len(), items.iter().map(Vec::as_slice))
            }
            // The empty map is written as the empty set is.
            CqlType::Map(..) if items.is_empty() => collection::write_collection(0, []),
            _ => return Err(TermError(format!("Invalid set literal for {receiver} of type {ty}"))),
        },
        Term::Map(entries) => match ty.unfrozen() {
            CqlType::Map(key, value) => {
                for (what, ty, item) in entries.iter().flat_map(|(k, v)| [("key", key, k), ("value", value, v)]) {
                    if !may_be(item, ty) {
                        return Err(TermError(format!(
                            "Invalid map literal for {receiver}: {what} {item} is not of type {ty}"
                        )));
                    }
                }
                map(entries, key, value, receiver, resolve)?
            }
            _ => return Err(TermError(format!("Invalid map literal for {receiver} of type {ty}"))),
        },
        Term::Fields(given) => match ty.unfrozen() {
            CqlType::Udt(udt) => fields(given, udt, receiver, resolve)?,
            _ => {
                return Err(TermError(format!("Invalid user type literal for {receiver} of type {ty}")));
            }
        },
        Term::Tuple(items) => match ty.unfrozen() {
            CqlType::Tuple(fields) => tuple(items, fields, ty, receiver, resolve)?,
            CqlType::Udt(udt) if items.len() > 1 => {
                let types: Vec<CqlType> = udt.field_types().cloned().collect();
                tuple(items, &types, ty, receiver, resolve)?
            }
            // A single term in parentheses is that term.
            _ if items.len() == 1 => return term_to_bytes(&items[0], ty, receiver, resolve),
            _ => return Err(TermError(format!("Invalid tuple type literal for {receiver} of type {ty}"))),
        },
    }))
}

/// Which constants Cassandra lets stand for which types: `Constants.Literal.testAssignment`.
fn assignable(kind: ConstantKind, ty: &CqlType) -> bool {
    use CqlType::*;
    match kind {
        ConstantKind::String => matches!(ty, Ascii | Text | Inet | Date | Time | Timestamp),
        ConstantKind::Integer => matches!(
            ty,
            BigInt
                | Counter
                | Date
                | Decimal
                | Double
                | Duration
                | Float
                | Int
                | SmallInt
                | Time
                | Timestamp
                | TinyInt
                | VarInt
        ),
        ConstantKind::Uuid => matches!(ty, Uuid | TimeUuid),
        ConstantKind::Float => matches!(ty, Decimal | Double | Float),
        ConstantKind::Boolean => matches!(ty, Boolean),
        ConstantKind::Hex => matches!(ty, Blob),
        ConstantKind::Duration => matches!(ty, Duration),
    }
}

/// How a term fits where a type is wanted; `type_of` knows the types of calls and casts.
pub fn fit(term: &Term, ty: &CqlType, type_of: &dyn Fn(&Term) -> Option<CqlType>) -> Option<Fit> {
    let all = |items: &[Term], ty: &CqlType| items.iter().all(|item| fit(item, ty, type_of).is_some());
    let weak = match (term, ty.unfrozen()) {
        (Term::Null | Term::Marker(_), _) => true,
        (Term::Function { .. }, ty) => return ty.fit(&type_of(term)?),
        (Term::Cast { ty: cast, .. }, ty) if is_named(cast, ty) => return Some(Fit::Exact),
        (Term::Cast { .. }, ty) => return ty.fit(&type_of(term)?),
        (Term::Constant { kind, text }, ty) => assignable(*kind, ty) && constant(*kind, text, ty, "").is_ok(),
        (Term::List(items), CqlType::List(element)) => all(items, element),
        (Term::List(items), CqlType::Vector(element, dimension)) => {
            items.len() == *dimension as usize && all(items, element)
        }
        (Term::Set(items), CqlType::Set(element)) => all(items, element),
        (Term::Set(items), CqlType::Map(..)) => items.is_empty(),
        (Term::Map(entries), CqlType::Map(key, value)) => {
            let entry = |(k, v): &(Term, Term)| fit(k, key, type_of).is_some() && fit(v, value, type_of).is_some();
            entries.iter().all(entry)
        }
        (Term::Tuple(items), CqlType::Tuple(fields)) => {
            items.len() <= fields.len()
                && items.iter().zip(fields).all(|(item, field)| fit(item, field, type_of).is_some())
        }
        (Term::Tuple(items), ty) if items.len() == 1 => return fit(&items[0], ty, type_of),
        (Term::Fields(fields), CqlType::Udt(udt)) => fields.iter().all(|(name, value)| {
            let at = udt.field_index(name);
            at.is_some_and(|at| fit(value, &udt.fields[at].1, type_of).is_some())
        }),
        _ => false,
    };
    weak.then_some(Fit::Weak)
}

/// The type that a term has by itself, where none is wanted of it.
pub fn natural_type(term: &Term, type_of: &dyn Fn(&Term) -> Option<CqlType>) -> Option<CqlType> {
    let first = |items: &[Term]| items.iter().find_map(|item| natural_type(item, type_of));
    Some(match term {
        Term::Null | Term::Marker(_) | Term::Fields(_) => return None,
        Term::Function { .. } | Term::Cast { .. } => return type_of(term),
        Term::Constant { kind, text } => match kind {
            ConstantKind::String => CqlType::Text,
            ConstantKind::Integer if text.parse::<i32>().is_ok() => CqlType::Int,
            ConstantKind::Integer if text.parse::<i64>().is_ok() => CqlType::BigInt,
            ConstantKind::Integer => CqlType::VarInt,
            ConstantKind::Float => CqlType::Double,
            ConstantKind::Uuid => CqlType::Uuid,
            ConstantKind::Boolean => CqlType::Boolean,
            ConstantKind::Hex => CqlType::Blob,
            ConstantKind::Duration => CqlType::Duration,
        },
        Term::List(items) => CqlType::list(first(items)?),
        Term::Set(items) => CqlType::set(first(items)?),
        Term::Map(entries) => {
            let (key, value) = entries.first()?;
            CqlType::map(natural_type(key, type_of)?, natural_type(value, type_of)?)
        }
        Term::Tuple(items) => {
            CqlType::Tuple(items.iter().map(|item| natural_type(item, type_of)).collect::<Option<_>>()?)
        }
    })
}

/// Whether a term has the form of a value of the type; calls, casts and markers are left to who resolves them.
fn may_be(term: &Term, ty: &CqlType) -> bool {
    match (term, ty.unfrozen()) {
        (Term::Constant { kind, .. }, ty) => assignable(*kind, ty),
        (Term::List(items), CqlType::List(element) | CqlType::Vector(element, _)) => {
            items.iter().all(|item| may_be(item, element))
        }
        (Term::Set(items), CqlType::Set(element)) => items.iter().all(|item| may_be(item, element)),
        (Term::Set(items), CqlType::Map(..)) => items.is_empty(),
        (Term::Map(entries), CqlType::Map(key, value)) => {
            entries.iter().all(|(k, v)| may_be(k, key) && may_be(v, value))
        }
        (Term::Tuple(items), ty) if items.len() == 1 && !matches!(ty, CqlType::Tuple(_)) => may_be(&items[0], ty),
        (Term::List(_) | Term::Set(_) | Term::Map(_), _) => false,
        _ => true,
    }
}

fn check_elements(items: &[Term], ty: &CqlType, what: &str, receiver: &str) -> Result<(), TermError> {
    match items.iter().find(|item| !may_be(item, ty)) {
        Some(item) => {
            Err(TermError(format!("Invalid {what} literal for {receiver}: value {item} is not of type {ty}")))
        }
        None => Ok(()),
    }
}

fn constant(kind: ConstantKind, text: &str, ty: &CqlType, receiver: &str) -> Result<Vec<u8>, TermError> {
    if !assignable(kind, ty.unfrozen()) {
        let kind = kind.name();
        return Err(TermError(format!("Invalid {kind} constant ({text}) for \"{receiver}\" of type {ty}")));
    }
    let text = if kind == ConstantKind::Hex { &text[2..] } else { text };
    Ok(ty.from_text(text)?)
}

/// The bytes of a term inside a collection, where neither null nor unset may stand.
fn element(term: &Term, ty: &CqlType, receiver: &str, resolve: &mut dyn Resolve) -> Result<Vec<u8>, TermError> {
    match term_to_bytes(term, ty, receiver, resolve)? {
        TermValue::Bytes(bytes) => Ok(bytes),
        TermValue::Null => Err(TermError("null is not supported inside collections".to_string())),
        TermValue::Unset => Err(TermError("unset value is not supported inside collections".to_string())),
    }
}

fn elements(
    items: &[Term],
    ty: &CqlType,
    receiver: &str,
    resolve: &mut dyn Resolve,
) -> Result<Vec<Vec<u8>>, TermError> {
    items.iter().map(|item| element(item, ty, receiver, resolve)).collect()
}

/// Sorted by key; of two equal keys the later counts.
fn map(
    entries: &[(Term, Term)],
    key_type: &CqlType,
    value_type: &CqlType,
    receiver: &str,
    resolve: &mut dyn Resolve,
) -> Result<Vec<u8>, TermError> {
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let key = element(key, key_type, &format!("key({receiver})"), resolve)?;
        let value = element(value, value_type, &format!("value({receiver})"), resolve)?;
        match pairs.binary_search_by(|(other, _)| key_type.compare(other, &key)) {
            Ok(at) => pairs[at].1 = value,
            Err(at) => pairs.insert(at, (key, value)),
        }
    }
    Ok(collection::write_collection(pairs.len(), pairs.iter().flat_map(|(k, v)| [k.as_slice(), v.as_slice()])))
}

/// Whether a type written in a cast is `ty`; of a user type it has the name alone.
fn is_named(written: &CqlType, ty: &CqlType) -> bool {
    match (written.unfrozen(), ty.unfrozen()) {
        (CqlType::Udt(a), CqlType::Udt(b)) => a.name == b.name && (a.keyspace.is_empty() || a.keyspace == b.keyspace),
        (a, b) => {
            let (a_parts, b_parts) = (a.parts(), b.parts());
            let same_kind = std::mem::discriminant(a) == std::mem::discriminant(b) && a_parts.len() == b_parts.len();
            // Scalars and what has no parts is told by its kind; vectors by their dimension too.
            let same_dimension = match (a, b) {
                (CqlType::Vector(_, n), CqlType::Vector(_, m)) => n == m,
                _ => true,
            };
            same_kind && same_dimension && a_parts.into_iter().zip(b_parts).all(|(a, b)| is_named(a, b))
        }
    }
}

/// Fields that are not given are null.
fn fields(
    given: &[(String, Term)],
    udt: &UserType,
    receiver: &str,
    resolve: &mut dyn Resolve,
) -> Result<Vec<u8>, TermError> {
    let mut values = vec![None; udt.fields.len()];
    for (name, term) in given {
        let Some(at) = udt.field_index(name) else {
            let type_name = &udt.name;
            return Err(TermError(format!("Unknown field '{name}' in value of user defined type {type_name}")));
        };
        values[at] = match term_to_bytes(term, &udt.fields[at].1, &format!("{receiver}.{name}"), resolve)? {
            TermValue::Bytes(bytes) => Some(bytes),
            TermValue::Null => None,
            TermValue::Unset => {
                let type_name = &udt.name;
                return Err(TermError(format!(
                    "Invalid unset value for field '{name}' of user defined type {type_name}"
                )));
            }
        };
    }
    Ok(collection::write_tuple(values.iter().map(Option::as_deref)))
}

fn tuple(
    items: &[Term],
    fields: &[CqlType],
    ty: &CqlType,
    receiver: &str,
    resolve: &mut dyn Resolve,
) -> Result<Vec<u8>, TermError> {
    if items.len() > fields.len() {
        return Err(TermError(format!(
            "Invalid tuple literal for {receiver}: too many elements. Type {ty} expects {} but got {}",
            fields.len(),
            items.len()
        )));
    }
    let mut values = Vec::with_capacity(items.len());
    for (at, (item, field)) in items.iter().zip(fields).enumerate() {
        values.push(match term_to_bytes(item, field, &format!("{receiver}[{at}]"), resolve)? {
            TermValue::Bytes(bytes) => Some(bytes),
            TermValue::Null => None,
            TermValue::Unset => {
                return Err(TermError(format!("Invalid unset value for tuple field number {at}")));
            }
        });
    }
    Ok(collection::write_tuple(values.iter().map(Option::as_deref)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Statement;
    use crate::parser::parse;

    fn term(text: &str) -> Term {
        match parse(&format!("INSERT INTO t (a) VALUES ({text})")).unwrap().statement {
            Statement::Insert(mut insert) => insert.values.remove(0),
            other => panic!("{other:?}"),
        }
    }

    fn literal(text: &str, ty: &str) -> Result<String, String> {
        let ty = CqlType::parse(ty).unwrap();
        let bytes = literal_to_bytes(&term(text), &ty, "x").map_err(|error| error.to_string())?;
        Ok(bytes.map_or("null".to_string(), |bytes| ty.to_cql_literal(&bytes).unwrap()))
    }

    #[test]
    fn constants() {
        for (text, ty, shown) in [
            ("1", "int", "1"),
            ("-1", "tinyint", "-1"),
            ("1", "double", "1.0"),
            ("NaN", "float", "NaN"),
            ("-infinity", "double", "-Infinity"),
            ("1.50", "decimal", "1.50"),
            ("12345678901234567890123", "varint", "12345678901234567890123"),
            ("'it''s'", "text", "'it''s'"),
            ("0xCaFe", "blob", "0xcafe"),
            ("0x", "blob", "0x"),
            ("true", "boolean", "true"),
            ("'2026-02-28'", "date", "'2026-02-28'"),
            ("'2026-02-28 12:00+0000'", "timestamp", "'2026-02-28T12:00:00.000Z'"),
            ("1000", "timestamp", "'1970-01-01T00:00:01.000Z'"),
            ("'08:00:00'", "time", "'08:00:00.000000000'"),
            ("'::1'", "inet", "'::1'"),
            ("1h30m", "duration", "1h30m"),
            ("37f71aca-7dc2-383b-a706-72528af04d4f", "uuid", "37f71aca-7dc2-383b-a706-72528af04d4f"),
            ("null", "int", "null"),
            ("(int)5", "int", "5"),
        ] {
            assert_eq!(literal(text, ty).as_deref(), Ok(shown), "{text} as {ty}");
        }
    }

    #[test]
    fn collections() {
        for (text, ty, shown) in [
            ("[2, 1, 2]", "list<int>", "[2, 1, 2]"),
            ("{2, 1, 2, -1}", "set<int>", "{-1, 1, 2}"),
            ("{}", "map<int, int>", "{}"),
            ("{'b': 1, 'a': 2, 'b': 3}", "frozen<map<text, int>>", "{'a': 2, 'b': 3}"),
            ("(1, null)", "tuple<int, text>", "(1, null)"),
            ("(1)", "tuple<int, text>", "(1, null)"),
            ("[[1], []]", "list<frozen<list<int>>>", "[[1], []]"),
        ] {
            assert_eq!(literal(text, ty).as_deref(), Ok(shown), "{text} as {ty}");
        }
    }

    #[test]
    fn refusals_in_cassandras_words() {
        for (text, ty, message) in [
            ("'abc'", "int", "Invalid STRING constant (abc) for \"x\" of type int"),
            ("1", "text", "Invalid INTEGER constant (1) for \"x\" of type text"),
            ("1.5", "int", "Invalid FLOAT constant (1.5) for \"x\" of type int"),
            ("0x00", "text", "Invalid HEX constant (0x00) for \"x\" of type text"),
            ("true", "list<int>", "Invalid BOOLEAN constant (true) for \"x\" of type list<int>"),
            ("99999999999", "int", "Unable to make int from '99999999999'"),
            ("0x0", "blob", "cannot parse '0' as hex bytes"),
            ("[1]", "set<int>", "Invalid list literal for x of type set<int>"),
            ("{1}", "map<int, int>", "Invalid set literal for x of type map<int, int>"),
            ("{1: 1}", "set<int>", "Invalid map literal for x of type set<int>"),
            ("(1, 2)", "int", "Invalid tuple type literal for x of type int"),
            ("['a']", "list<int>", "Invalid list literal for x: value 'a' is not of type int"),
            ("{1: ['a']}", "map<int, frozen<list<int>>>", {
                "Invalid map literal for x: value ['a'] is not of type frozen<list<int>>"
            }),
            ("[null]", "list<int>", "null is not supported inside collections"),
            (
                "(1, 2)",
                "tuple<int>",
                "Invalid tuple literal for x: too many elements. Type frozen<tuple<int>> expects 1 but got 2",
            ),
            ("(text)'a'", "int", "Cannot assign value (text)'a' to x of type int"),
            ("now()", "int", "Unknown function 'now'"),
        ] {
            assert_eq!(literal(text, ty), Err(message.to_string()), "{text} as {ty}");
        }
    }
}
