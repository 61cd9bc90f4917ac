//! Tests of one column's value: what WHERE filters rows by, and what IF of a conditional statement asks.

use std::borrow::Cow;
use std::cmp::Ordering;

use cql::Value;
use cql::ast::{InValues, Operator, Term};
use types::{ColumnDef, CqlType, collection};

use super::{Bound, Context, Markers, Source, Values};
use crate::error::{QueryError, invalid};

/// A condition on a column, or on one element of it.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub column: ColumnDef,
    /// The key of a map or the position in a list, whose value is tested.
    pub element: Option<Source>,
    pub test: Test,
}

#[derive(Clone, Debug)]
pub(crate) enum Test {
    Compare(Operator, Source),
    In {
        values: InList,
        negated: bool,
    },
    Like(Source),
    /// An element of the collection, or a key of the map.
    Contains {
        key: bool,
        value: Source,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum InList {
    Each(Vec<Source>),
    /// `IN ?`, a list of this type, whose elements may be null.
    Whole {
        marker: u16,
        element: CqlType,
    },
}

/// What nulls do in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Nothing is equal to null, nor different from it: WHERE.
    NeverMatch,
    /// Null equals null and nothing else: IF.
    AreValues,
}

impl InList {
    /// `negated`: of NOT IN, which the name of a marker tells.
    pub fn resolve(
        values: &InValues,
        ty: &CqlType,
        name: &str,
        negated: bool,
        markers: &mut Markers,
    ) -> Result<InList, QueryError> {
        Ok(match values {
            InValues::Terms(terms) => InList::Each(
                terms.iter().map(|term| Source::resolve(term, ty, name, markers)).collect::<Result<_, _>>()?,
            ),
            InValues::Marker(marker) => {
                let list = CqlType::list(ty.clone());
                let name = markers.name_of_list(name, negated);
                markers.want(*marker, &name, &list);
                InList::Whole { marker: *marker, element: ty.clone() }
            }
        })
    }

    /// The values, null ones among them.
    pub fn bind<'v>(
        &'v self,
        name: &str,
        values: &Values<'v>,
        context: &Context,
    ) -> Result<Vec<Option<Cow<'v, [u8]>>>, QueryError> {
        match self {
            InList::Each(sources) => sources.iter().map(|source| nullable(source, name, values, context)).collect(),
            InList::Whole { marker, element } => {
                let list = match values[usize::from(*marker)] {
                    Value::Bytes(list) => list,
                    Value::Null => return Err(invalid!("Invalid null value for the IN restriction of column {name}")),
                    Value::Unset => return Err(invalid!("Invalid unset value for column {name}")),
                };
                let refuse = |error| invalid!("{error}");
                let items = collection::elements(list).map_err(refuse)?;
                for item in items.iter().flatten() {
                    element.validate(item).map_err(refuse)?;
                }
                Ok(items.iter().map(|item| item.map(|bytes| Cow::Owned(bytes.to_vec()))).collect())
            }
        }
    }
}

/// The value, `None` for null; unset is refused.
fn nullable<'v>(
    source: &'v Source,
    name: &str,
    values: &Values<'v>,
    context: &Context,
) -> Result<Option<Cow<'v, [u8]>>, QueryError> {
    match source.bind(values, context)? {
        Bound::Bytes(bytes) => Ok(Some(bytes)),
        Bound::Null => Ok(None),
        Bound::Unset => Err(invalid!("Invalid unset value for column {name}")),
    }
}

impl Filter {
    pub fn compare(column: ColumnDef, operator: Operator, value: Source) -> Filter {
        Filter { column, element: None, test: Test::Compare(operator, value) }
    }

    /// The type of what is tested, and the name that a marker for it has; resolves the element's key.
    pub fn subject(
        column: &ColumnDef,
        element: Option<&Term>,
        markers: &mut Markers,
    ) -> Result<(Option<Source>, CqlType, String), QueryError> {
        let name = &column.name;
        let Some(key) = element else { return Ok((None, column.ty.clone(), name.clone())) };
        let (key_type, key_name, value_type) = match column.ty.unfrozen() {
            CqlType::Map(key, value) => ((**key).clone(), format!("key({name})"), (**value).clone()),
            CqlType::List(element) => (CqlType::Int, format!("idx({name})"), (**element).clone()),
            _ => return Err(invalid!("Column {name} is neither a map nor a list and cannot be subscripted")),
        };
        let key = Source::resolve(key, &key_type, &key_name, markers)?;
        Ok((Some(key), value_type, format!("value({name})")))
    }

    pub fn contains(column: ColumnDef, key: bool, value: &Term, markers: &mut Markers) -> Result<Filter, QueryError> {
        let name = &column.name;
        let (ty, what) = match (column.ty.unfrozen(), key) {
            (CqlType::Map(ty, _), true) => (ty, "key"),
            (_, true) => return Err(invalid!("Cannot use CONTAINS KEY on non-map column {name}")),
            (CqlType::List(ty) | CqlType::Set(ty) | CqlType::Map(_, ty), false) => (ty, "value"),
            _ => return Err(invalid!("Cannot use CONTAINS on non-collection column {name}")),
        };
        let value = Source::resolve(value, ty, &format!("{what}({name})"), markers)?;
        Ok(Filter { element: None, test: Test::Contains { key, value }, column })
    }

    pub fn like(column: ColumnDef, pattern: &Term, markers: &mut Markers) -> Result<Filter, QueryError> {
        if !matches!(column.ty, CqlType::Text | CqlType::Ascii) {
            return Err(invalid!("LIKE is allowed only on string types, which {} is not", column.name));
        }
        let pattern = Source::resolve(pattern, &column.ty, &column.name, markers)?;
        Ok(Filter { element: None, test: Test::Like(pattern), column })
    }

    /// With the values of one execution.
    pub fn bind<'v>(&'v self, values: &Values<'v>, context: &Context) -> Result<BoundFilter<'v>, QueryError> {
        let name = &self.column.name;
        let element = match &self.element {
            None => None,
            Some(source) => match source.bind(values, context)? {
                Bound::Unset => return Err(invalid!("Unsupported unset map key for column {name}")),
                Bound::Null => Some(None),
                Bound::Bytes(bytes) => Some(Some(bytes)),
            },
        };
        let wanted = match &self.test {
            Test::Compare(_, source) | Test::Like(source) | Test::Contains { value: source, .. } => {
                vec![nullable(source, name, values, context)?]
            }
            Test::In { values: list, .. } => list.bind(name, values, context)?,
        };
        Ok(BoundFilter { filter: self, element, wanted })
    }
}

/// A [`Filter`] with the values of one execution.
pub(crate) struct BoundFilter<'v> {
    pub filter: &'v Filter,
    /// The inner `None`: a null key, which no element has.
    element: Option<Option<Cow<'v, [u8]>>>,
    wanted: Vec<Option<Cow<'v, [u8]>>>,
}

impl BoundFilter<'_> {
    /// Whether the column's value passes.
    pub fn holds(&self, value: Option<&[u8]>, nulls: Nulls) -> Result<bool, QueryError> {
        let column_type = &self.filter.column.ty;
        let Some(key) = &self.element else { return Ok(self.tests(value, column_type, nulls)) };
        if nulls == Nulls::AreValues {
            self.check_element(column_type, key.as_deref())?;
        }
        let malformed = |error| crate::error::server(error);
        let (found, ty) = match (column_type.unfrozen(), value, key) {
            (CqlType::Map(key_type, ty), Some(map), Some(key)) => {
                let entries = collection::entries(map).map_err(malformed)?;
                let same = |entry: &Option<&[u8]>| entry.is_some_and(|entry| key_type.compare(entry, key).is_eq());
                (entries.into_iter().find(|(entry, _)| same(entry)).and_then(|(_, value)| value), ty)
            }
            (CqlType::List(ty), Some(list), Some(at)) => {
                let at = <[u8; 4]>::try_from(&**at).ok().and_then(|at| usize::try_from(i32::from_be_bytes(at)).ok());
                let elements = collection::elements(list).map_err(malformed)?;
                (at.and_then(|at| elements.get(at).copied().flatten()), ty)
            }
            (CqlType::Map(_, ty) | CqlType::List(ty), ..) => (None, ty),
            _ => return Ok(false),
        };
        Ok(self.tests(found, ty, nulls))
    }

    /// A condition of a conditional statement names an element.
    fn check_element(&self, ty: &CqlType, key: Option<&[u8]>) -> Result<(), QueryError> {
        let what = if matches!(ty.unfrozen(), CqlType::Map(..)) { "map" } else { "list" };
        match key.map(<[u8; 4]>::try_from) {
            None => Err(invalid!("Invalid null value for {what} element access")),
            Some(Ok(at)) if what == "list" && i32::from_be_bytes(at) < 0 => {
                Err(invalid!("Invalid negative list index {}", i32::from_be_bytes(at)))
            }
            _ => Ok(()),
        }
    }

    fn tests(&self, value: Option<&[u8]>, ty: &CqlType, nulls: Nulls) -> bool {
        let first = || self.wanted.first().and_then(Option::as_deref);
        let same = |wanted: &Option<Cow<'_, [u8]>>| match (value, wanted.as_deref()) {
            (Some(value), Some(wanted)) => ty.compare(value, wanted).is_eq(),
            (None, None) => nulls == Nulls::AreValues,
            _ => false,
        };
        match &self.filter.test {
            Test::Compare(operator, _) => match (value, first()) {
                (Some(value), Some(wanted)) => compares(*operator, ty.compare(value, wanted)),
                (value, wanted) if nulls == Nulls::AreValues => match operator {
                    Operator::Equal => value.is_none() && wanted.is_none(),
                    Operator::NotEqual => value.is_some() || wanted.is_some(),
                    _ => false,
                },
                _ => false,
            },
            Test::In { negated: false, .. } => self.wanted.iter().any(same),
            Test::In { negated: true, .. } => {
                let known =
                    nulls == Nulls::AreValues || (value.is_some() && self.wanted.iter().all(|wanted| wanted.is_some()));
                known && !self.wanted.iter().any(same)
            }
            Test::Like(_) => match (value, first()) {
                (Some(value), Some(pattern)) => is_like(value, pattern),
                _ => false,
            },
            Test::Contains { key, .. } => match (value, first()) {
                (Some(value), Some(wanted)) => contains(ty, value, *key, wanted),
                _ => false,
            },
        }
    }
}

fn compares(operator: Operator, order: Ordering) -> bool {
    match operator {
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
    }
}

fn contains(ty: &CqlType, value: &[u8], key: bool, wanted: &[u8]) -> bool {
    let same = |ty: &CqlType, item: Option<&[u8]>| item.is_some_and(|item| ty.compare(item, wanted).is_eq());
    match ty.unfrozen() {
        CqlType::Map(key_type, value_type) => {
            let entries = collection::entries(value).unwrap_or_default();
            entries.into_iter().any(|(k, v)| if key { same(key_type, k) } else { same(value_type, v) })
        }
        CqlType::List(ty) | CqlType::Set(ty) => {
            collection::elements(value).unwrap_or_default().into_iter().any(|item| same(ty, item))
        }
        _ => false,
    }
}

/// `%` stands for any characters, `_` for one; a backslash takes either as it is. As Scylla's `like_matcher`.
fn is_like(text: &[u8], pattern: &[u8]) -> bool {
    #[derive(Clone, Copy, PartialEq)]
    enum Part {
        Any,
        One,
        Just(char),
    }
    let (text, pattern) = (String::from_utf8_lossy(text), String::from_utf8_lossy(pattern));
    let text: Vec<char> = text.chars().collect();
    let mut parts = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        parts.push(match c {
            '%' => Part::Any,
            '_' => Part::One,
            '\\' if chars.peek().is_some_and(|next| matches!(next, '%' | '_' | '\\')) => {
                Part::Just(chars.next().unwrap_or(c))
            }
            c => Part::Just(c),
        });
    }
    // Greedy with one place to come back to: behind the last `%` it suffices to let that one take more.
    let (mut at, mut part) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() {
        match parts.get(part) {
            Some(Part::Any) => {
                retry = Some((at, part + 1));
                part += 1;
            }
            Some(Part::One) => (at, part) = (at + 1, part + 1),
            Some(Part::Just(c)) if *c == text[at] => (at, part) = (at + 1, part + 1),
            _ => match &mut retry {
                None => return false,
                Some((from, next)) => {
                    *from += 1;
                    (at, part) = (*from, *next);
                }
            },
        }
    }
    parts[part..].iter().all(|part| *part == Part::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (text, pattern, expect) in [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "_b_", true),
            ("abc", "__", false),
            ("abc", "%%%%", true),
            ("", "%", true),
            ("", "", true),
            ("a", "", false),
            ("aXbXc", "a%X%c", true),
            ("aab", "%ab", true),
            ("a%", "a\\%", true),
            ("ab", "a\\%", false),
            ("日本", "_本", true),
            ("a\\b", "a\\b", true),
        ] {
            assert_eq!(is_like(text.as_bytes(), pattern.as_bytes()), expect, "{text} LIKE {pattern}");
        }
    }

    fn test(operator: Operator, value: Option<i32>, wanted: Option<i32>, nulls: Nulls) -> bool {
        let bytes = |n: Option<i32>| n.map(|n| n.to_be_bytes().to_vec());
        let kind = types::ColumnKind::Regular;
        let column = ColumnDef { name: "v".into(), ty: CqlType::Int, kind, descending: false };
        let filter = Filter::compare(column, operator, Source::Constant(bytes(wanted)));
        let context = Context { now_us: 0, now_s: 0, random: || 0 };
        let bound = filter.bind(&[], &context).unwrap();
        bound.holds(bytes(value).as_deref(), nulls).unwrap()
    }

    #[test]
    fn nulls_are_values_for_conditions_alone() {
        for (operator, value, wanted, in_if) in [
            (Operator::Equal, None, None, true),
            (Operator::Equal, Some(1), None, false),
            (Operator::NotEqual, Some(1), None, true),
            (Operator::NotEqual, None, Some(1), true),
            (Operator::NotEqual, None, None, false),
            (Operator::Less, None, Some(1), false),
        ] {
            assert_eq!(test(operator, value, wanted, Nulls::AreValues), in_if, "{operator} {value:?} {wanted:?}");
            assert!(!test(operator, value, wanted, Nulls::NeverMatch), "{operator} {value:?} {wanted:?}");
        }
        assert!(test(Operator::Less, Some(-1), Some(1), Nulls::NeverMatch));
    }
}
