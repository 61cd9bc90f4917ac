//! What a column that is stored as several cells is made of: each cell has a path, which tells the element, and the
//! cells of one column stand in the order of their paths.
//!
//! As `CollectionType.nameComparator`/`valueComparator` and `UserType.nameComparator` of Apache Cassandra: a list's
//! paths are time UUIDs, a set's are its elements (with no value), a map's its keys, a user type's the position of the
//! field as a short.

use crate::{CqlType, collection};

impl CqlType {
    /// The type of the paths of a column of this type, by whose order its cells stand; `None` when it has one cell.
    #[inline]
    pub fn path_type(&self) -> Option<&CqlType> {
        match self {
            CqlType::List(_) => Some(&CqlType::TimeUuid),
            CqlType::Set(element) => Some(element),
            CqlType::Map(key, _) => Some(key),
            CqlType::Udt(_) => Some(&CqlType::SmallInt),
            _ => None,
        }
    }

    /// The type of the value of the cell at `path`; `None` for sets, whose cells have none, and for fields that the
    /// user type does not have.
    pub fn element_type(&self, path: &[u8]) -> Option<&CqlType> {
        match self {
            CqlType::List(element) => Some(element),
            CqlType::Map(_, value) => Some(value),
            CqlType::Udt(udt) => udt.fields.get(field_of_path(path)?).map(|(_, ty)| ty),
            _ => None,
        }
    }

    /// Whether values that were written as `written` are values of this type: the same type, whatever is said of
    /// freezing inside of frozen things, or a user type that had fewer fields then and maybe other names
    /// (`UserType.isValueCompatibleWith`).
    pub fn reads_values_of(&self, written: &CqlType) -> bool {
        self.is_multi_cell() == written.is_multi_cell() && self.same_values(written)
    }

    fn same_values(&self, written: &CqlType) -> bool {
        match (self.unfrozen(), written.unfrozen()) {
            (CqlType::List(a), CqlType::List(b)) | (CqlType::Set(a), CqlType::Set(b)) => a.same_values(b),
            (CqlType::Map(k, v), CqlType::Map(a, b)) => k.same_values(a) && v.same_values(b),
            (CqlType::Vector(a, n), CqlType::Vector(b, m)) => n == m && a.same_values(b),
            (CqlType::Tuple(a), CqlType::Tuple(b)) => {
                a.len() >= b.len() && a.iter().zip(b).all(|(a, b)| a.same_values(b))
            }
            (CqlType::Udt(a), CqlType::Udt(b)) => {
                a.keyspace == b.keyspace
                    && a.fields.len() >= b.fields.len()
                    && a.field_types().zip(b.field_types()).all(|(a, b)| a.same_values(b))
            }
            (a, b) => a == b,
        }
    }

    /// The value that the cells stand for, as clients get it and as the frozen type has it. `elements` are the paths
    /// and values of live cells, in order. `None` without any: an empty collection is null.
    pub fn assemble<'a>(&self, elements: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Option<Vec<u8>> {
        let elements: Vec<(&[u8], &[u8])> = elements.collect();
        if elements.is_empty() {
            return None;
        }
        let count = elements.len();
        Some(match self {
            CqlType::Set(_) => collection::write_collection(count, elements.iter().map(|(path, _)| *path)),
            CqlType::Map(..) => {
                collection::write_collection(count, elements.iter().flat_map(|(path, value)| [*path, *value]))
            }
            CqlType::Udt(udt) => {
                let mut fields = vec![None; udt.fields.len()];
                for (path, value) in elements {
                    if let Some(field) = field_of_path(path).and_then(|index| fields.get_mut(index)) {
                        *field = Some(value);
                    }
                }
                collection::write_tuple(fields)
            }
            _ => collection::write_collection(count, elements.iter().map(|(_, value)| *value)),
        })
    }
}

/// The path of a user type's field.
pub fn path_of_field(index: u16) -> [u8; 2] {
    index.to_be_bytes()
}

/// `None` when it is none.
pub fn field_of_path(path: &[u8]) -> Option<usize> {
    path.try_into().ok().map(|two| usize::from(u16::from_be_bytes(two)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::UserType;

    #[test]
    fn elements_become_the_frozen_value() {
        let int = |n: i32| n.to_be_bytes().to_vec();
        let assemble = |ty: &CqlType, cells: &[(&[u8], &[u8])]| {
            let value = ty.assemble(cells.iter().copied());
            value.map(|value| ty.to_cql_literal(&value).unwrap())
        };
        let (one, two) = (int(1), int(2));
        let list = CqlType::list(CqlType::Int);
        assert_eq!(assemble(&list, &[(&[0; 16], &two), (&[1; 16], &one)]).unwrap(), "[2, 1]");
        assert_eq!(assemble(&list, &[]), None);
        let set = CqlType::set(CqlType::Int);
        assert_eq!(assemble(&set, &[(&one, b""), (&two, b"")]).unwrap(), "{1, 2}");
        let map = CqlType::map(CqlType::Text, CqlType::Int);
        assert_eq!(assemble(&map, &[(b"a", &one)]).unwrap(), "{'a': 1}");
        let fields = vec![("street".to_string(), CqlType::Text), ("Number".to_string(), CqlType::Int)];
        let udt = CqlType::Udt(Arc::new(UserType { keyspace: "ks".into(), name: "address".into(), fields }));
        assert_eq!(assemble(&udt, &[(&path_of_field(1), &one)]).unwrap(), "{street: null, \"Number\": 1}");
        assert_eq!(udt.element_type(&path_of_field(1)), Some(&CqlType::Int));
        assert_eq!(udt.element_type(&path_of_field(2)), None);
        assert_eq!(udt.element_type(b"x"), None);
    }

    #[test]
    fn user_types_may_have_grown() {
        let udt = |keyspace: &str, fields: &[(&str, CqlType)]| {
            let fields = fields.iter().map(|(name, ty)| (name.to_string(), ty.clone())).collect();
            CqlType::Udt(Arc::new(UserType { keyspace: keyspace.into(), name: "u".into(), fields }))
        };
        let old = udt("ks", &[("a", CqlType::Int)]);
        let new = udt("ks", &[("renamed", CqlType::Int), ("b", CqlType::Text)]);
        assert!(new.reads_values_of(&old) && !old.reads_values_of(&new));
        assert!(!new.reads_values_of(&old.clone().frozen()) && !new.reads_values_of(&udt("other", &[])));
        assert!(CqlType::list(new.frozen()).reads_values_of(&CqlType::list(old.frozen())));
        let parse = |text| CqlType::parse(text).unwrap();
        assert!(parse("frozen<list<list<int>>>").reads_values_of(&parse("frozen<list<frozen<list<int>>>>")));
        assert!(!parse("int").reads_values_of(&parse("bigint")));
    }

    #[test]
    fn frozen_types_have_one_cell() {
        for ty in ["int", "frozen<list<int>>", "tuple<int, int>", "vector<float, 3>"] {
            assert_eq!(CqlType::parse(ty).unwrap().path_type(), None);
        }
    }
}
