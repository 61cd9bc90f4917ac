//! User types by name, before they are looked up: the parser knows their names alone.

use std::sync::Arc;

use crate::type_name::UserTypes;
use crate::{CqlType, Error, UserType};

impl CqlType {
    /// A user type of which only the name is known. [`CqlType::with_user_types`] puts the type itself in its place.
    pub fn named(keyspace: Option<&str>, name: &str) -> CqlType {
        let keyspace = keyspace.unwrap_or_default().to_string();
        CqlType::Udt(Arc::new(UserType { keyspace, name: name.to_string(), fields: Vec::new() }))
    }

    /// The type with every user type in it looked up: by its keyspace, if one was written, and its name.
    pub fn with_user_types(&self, known: &UserTypes<'_>) -> Result<CqlType, Error> {
        let inner = |ty: &CqlType| ty.with_user_types(known);
        Ok(match self {
            CqlType::Udt(udt) => {
                let keyspace = Some(udt.keyspace.as_str()).filter(|keyspace| !keyspace.is_empty());
                let found = known(keyspace, &udt.name);
                let name = keyspace.map_or_else(|| udt.name.clone(), |keyspace| format!("{keyspace}.{}", udt.name));
                CqlType::Udt(found.ok_or_else(|| Error::TypeName(format!("Unknown type {name}")))?)
            }
            CqlType::List(element) => CqlType::list(inner(element)?),
            CqlType::Set(element) => CqlType::set(inner(element)?),
            CqlType::Map(key, value) => CqlType::map(inner(key)?, inner(value)?),
            CqlType::Tuple(fields) => CqlType::Tuple(fields.iter().map(inner).collect::<Result<_, _>>()?),
            CqlType::Vector(element, dimension) => CqlType::vector(inner(element)?, *dimension),
            CqlType::Frozen(content) => inner(content)?.frozen(),
            scalar => scalar.clone(),
        })
    }

    /// The types right inside of it.
    pub fn parts(&self) -> Vec<&CqlType> {
        match self {
            CqlType::List(element) | CqlType::Set(element) | CqlType::Vector(element, _) => vec![element],
            CqlType::Map(key, value) => vec![key, value],
            CqlType::Tuple(fields) => fields.iter().collect(),
            CqlType::Udt(udt) => udt.field_types().collect(),
            CqlType::Frozen(content) => vec![content],
            _ => Vec::new(),
        }
    }

    /// Whether a user type of this name occurs in it, at whatever depth.
    pub fn uses_user_type(&self, keyspace: &str, name: &str) -> bool {
        let is_it = matches!(self, CqlType::Udt(udt) if udt.keyspace == keyspace && udt.name == name);
        is_it || self.parts().into_iter().any(|part| part.uses_user_type(keyspace, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_at_every_depth() {
        let fields = vec![("a".to_string(), CqlType::Int)];
        let known = Arc::new(UserType { keyspace: "ks".into(), name: "u".into(), fields });
        let find = |_: Option<&str>, name: &str| (name == "u").then(|| known.clone());
        let named = CqlType::map(CqlType::Int, CqlType::list(CqlType::named(None, "u")).frozen());
        let found = named.with_user_types(&find).unwrap();
        assert!(found.uses_user_type("ks", "u") && !found.uses_user_type("ks", "v"));
        let error = CqlType::named(Some("k"), "other").with_user_types(&find).unwrap_err();
        assert_eq!(error.to_string(), "Unknown type k.other");
    }
}
