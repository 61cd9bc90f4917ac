//! Functions of one collection: `map_keys`, `map_values`, and `collection_count`, `_min`, `_max`, `_sum` and `_avg` of
//! its elements. Cassandra's `CollectionFcts`.

use types::{CqlType, collection};

use crate::error::{QueryError, invalid};
use crate::execute::Running;
use crate::plan::Aggregate;

#[derive(Clone, Debug)]
enum Kind {
    Keys,
    Values,
    Count,
    Aggregate(Aggregate),
}

#[derive(Clone, Debug)]
pub(crate) struct OfCollection {
    name: &'static str,
    kind: Kind,
    result: CqlType,
}

const NAMES: [&str; 7] = [
    "map_keys",
    "map_values",
    "collection_count",
    "collection_min",
    "collection_max",
    "collection_sum",
    "collection_avg",
];

pub(super) fn is_name(name: &str) -> bool {
    NAMES.contains(&name)
}

impl OfCollection {
    /// The function of a name for an argument of a type.
    pub fn of(name: &str, ty: &CqlType) -> Result<OfCollection, QueryError> {
        let Some(name) = NAMES.into_iter().find(|known| *known == name) else {
            return Err(invalid!("Unknown function '{name}'"));
        };
        let wanted = |what: &str| invalid!("Function system.{name} requires a {what} argument, but found {ty}");
        let element = match ty.unfrozen() {
            CqlType::List(element) | CqlType::Set(element) => Some(&**element),
            _ => None,
        };
        let (kind, result) = match (name, ty.unfrozen(), element) {
            ("map_keys", CqlType::Map(key, _), _) => (Kind::Keys, CqlType::set((**key).clone())),
            ("map_values", CqlType::Map(_, value), _) => (Kind::Values, CqlType::list((**value).clone())),
            ("map_keys" | "map_values", ..) => return Err(wanted("map")),
            ("collection_count", CqlType::Map(..), _) | ("collection_count", _, Some(_)) => (Kind::Count, CqlType::Int),
            ("collection_count", ..) => return Err(wanted("collection")),
            ("collection_min", _, Some(element)) => (Kind::Aggregate(Aggregate::Min(element.clone())), element.clone()),
            ("collection_max", _, Some(element)) => (Kind::Aggregate(Aggregate::Max(element.clone())), element.clone()),
            ("collection_min" | "collection_max", ..) => return Err(wanted("set or list")),
            ("collection_sum", _, Some(element)) if element.is_number() => {
                (Kind::Aggregate(Aggregate::Sum(element.clone())), element.clone())
            }
            (_, _, Some(element)) if element.is_number() => {
                (Kind::Aggregate(Aggregate::Average(element.clone())), element.clone())
            }
            _ => return Err(wanted("numeric set or list")),
        };
        Ok(OfCollection { name, kind, result })
    }

    pub fn name(&self) -> String {
        format!("system.{}", self.name)
    }

    pub fn result(&self) -> CqlType {
        self.result.clone()
    }

    pub fn call(&self, ty: &CqlType, value: &[u8]) -> Result<Option<Vec<u8>>, QueryError> {
        let failed = |error: types::Error| invalid!("{error}");
        let listed = |parts: Vec<Option<&[u8]>>| {
            let parts: Vec<&[u8]> = parts.into_iter().flatten().collect();
            Ok(Some(collection::write_collection(parts.len(), parts)))
        };
        match &self.kind {
            Kind::Keys => listed(collection::entries(value).map_err(failed)?.into_iter().map(|(key, _)| key).collect()),
            Kind::Values => {
                listed(collection::entries(value).map_err(failed)?.into_iter().map(|(_, value)| value).collect())
            }
            Kind::Count => {
                let count = match ty.unfrozen() {
                    CqlType::Map(..) => collection::entries(value).map_err(failed)?.len(),
                    _ => collection::elements(value).map_err(failed)?.len(),
                };
                Ok(Some((count as i32).to_be_bytes().to_vec()))
            }
            Kind::Aggregate(aggregate) => {
                let mut running = Running::new(aggregate);
                for element in collection::elements(value).map_err(failed)? {
                    running.take(&[element])?;
                }
                running.finish()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, ty: CqlType, value: &str) -> String {
        let function = OfCollection::of(name, &ty).unwrap_or_else(|error| panic!("{}", error.message));
        let value = ty.from_json(value).unwrap().unwrap();
        let result = function.call(&ty, &value).unwrap();
        result.map_or("null".to_string(), |result| function.result().to_json(&result).unwrap())
    }

    #[test]
    fn parts_and_totals() {
        let map = || CqlType::map(CqlType::Text, CqlType::Int);
        let list = || CqlType::list(CqlType::Int);
        assert_eq!(of("map_keys", map(), "{\"a\": 1, \"b\": 2}"), "[\"a\", \"b\"]");
        assert_eq!(of("map_values", map(), "{\"a\": 1, \"b\": 1}"), "[1, 1]");
        assert_eq!(of("collection_count", map(), "{\"a\": 1, \"b\": 1}"), "2");
        assert_eq!(of("collection_count", list(), "[5, 5, 5]"), "3");
        assert_eq!(of("collection_min", list(), "[5, -3, 4]"), "-3");
        assert_eq!(of("collection_max", CqlType::set(CqlType::Text), "[\"x\", \"y\"]"), "\"y\"");
        assert_eq!(of("collection_sum", list(), "[5, -3, 4]"), "6");
        assert_eq!(of("collection_avg", list(), "[5, 6]"), "5");
        assert_eq!(of("collection_sum", list(), "[]"), "0");
        assert_eq!(of("collection_min", list(), "[]"), "null");
        for (name, ty) in [
            ("map_keys", list()),
            ("collection_min", map()),
            ("collection_sum", CqlType::set(CqlType::Text)),
            ("collection_count", CqlType::Int),
        ] {
            assert!(OfCollection::of(name, &ty).is_err(), "{name} of {ty}");
        }
    }
}
