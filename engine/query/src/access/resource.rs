//! What permissions are about: keyspaces and tables, roles, functions, each kind a tree whose root stands for all.
//!
//! A permission on a resource holds for everything below it.

use std::fmt;

use types::CqlType;

use super::permission::{Permission, PermissionSet};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    AllKeyspaces,
    Keyspace(String),
    Table(String, String),
    AllRoles,
    Role(String),
    AllFunctions,
    FunctionsIn(String),
    /// A function or an aggregate, with the class names of its arguments' types.
    Function(String, String, Vec<String>),
}

impl Resource {
    pub fn table(keyspace: &str, table: &str) -> Self {
        Resource::Table(keyspace.to_string(), table.to_string())
    }

    pub fn keyspace(keyspace: &str) -> Self {
        Resource::Keyspace(keyspace.to_string())
    }

    pub fn function(keyspace: &str, name: &str, arguments: &[CqlType]) -> Self {
        // Freezing does not tell functions apart.
        let arguments = arguments.iter().map(|ty| ty.without_frozen().marshal_name(false)).collect();
        Resource::Function(keyspace.to_string(), name.to_string(), arguments)
    }

    fn parent(&self) -> Option<Resource> {
        match self {
            Resource::AllKeyspaces | Resource::AllRoles | Resource::AllFunctions => None,
            Resource::Keyspace(_) => Some(Resource::AllKeyspaces),
            Resource::Table(keyspace, _) => Some(Resource::Keyspace(keyspace.clone())),
            Resource::Role(_) => Some(Resource::AllRoles),
            Resource::FunctionsIn(_) => Some(Resource::AllFunctions),
            Resource::Function(keyspace, ..) => Some(Resource::FunctionsIn(keyspace.clone())),
        }
    }

    /// The resource and what is above it, up to the root.
    pub fn chain(&self) -> Vec<Resource> {
        std::iter::successors(Some(self.clone()), Resource::parent).collect()
    }

    /// Whether it is `other` or below it.
    pub fn is_within(&self, other: &Resource) -> bool {
        self.chain().contains(other)
    }

    /// What can be granted on it at all: Cassandra's `applicablePermissions`.
    pub fn applicable(&self) -> PermissionSet {
        use Permission::{Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select};
        PermissionSet::of(match self {
            Resource::AllKeyspaces | Resource::Keyspace(_) => &[Create, Alter, Drop, Select, Modify, Authorize],
            Resource::Table(..) => &[Alter, Drop, Select, Modify, Authorize],
            Resource::AllRoles => &[Create, Alter, Drop, Authorize, Describe],
            Resource::Role(_) => &[Alter, Drop, Authorize],
            Resource::AllFunctions | Resource::FunctionsIn(_) => &[Create, Alter, Drop, Authorize, Execute],
            Resource::Function(..) => &[Alter, Drop, Authorize, Execute],
        })
    }

    /// [`applicable`](Self::applicable), and what has to be granted by its name: neither ALL nor having made a table
    /// unmasks it.
    pub fn grantable(&self) -> PermissionSet {
        match self {
            Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::Table(..) => {
                self.applicable().with(Permission::Unmask).with(Permission::SelectMasked)
            }
            _ => self.applicable(),
        }
    }

    /// Cassandra's word for the kind, in errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::Table(..) => "DataResource",
            Resource::AllRoles | Resource::Role(_) => "RoleResource",
            Resource::AllFunctions | Resource::FunctionsIn(_) | Resource::Function(..) => "FunctionResource",
        }
    }

    /// As `system.role_permissions` has it.
    pub fn name(&self) -> String {
        match self {
            Resource::AllKeyspaces => "data".into(),
            Resource::Keyspace(keyspace) => format!("data/{keyspace}"),
            Resource::Table(keyspace, table) => format!("data/{keyspace}/{table}"),
            Resource::AllRoles => "roles".into(),
            Resource::Role(role) => format!("roles/{role}"),
            Resource::AllFunctions => "functions".into(),
            Resource::FunctionsIn(keyspace) => format!("functions/{keyspace}"),
            Resource::Function(keyspace, name, arguments) => {
                format!("functions/{keyspace}/{name}[{}]", arguments.join("^"))
            }
        }
    }

    /// Reads [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Resource> {
        let (kind, rest) = name.split_once('/').map_or((name, None), |(kind, rest)| (kind, Some(rest)));
        Some(match (kind, rest) {
            ("data", None) => Resource::AllKeyspaces,
            ("data", Some(rest)) => match rest.split_once('/') {
                None => Resource::Keyspace(rest.into()),
                Some((keyspace, table)) => Resource::Table(keyspace.into(), table.into()),
            },
            ("roles", None) => Resource::AllRoles,
            ("roles", Some(role)) => Resource::Role(role.into()),
            ("functions", None) => Resource::AllFunctions,
            ("functions", Some(rest)) => match rest.split_once('/') {
                None => Resource::FunctionsIn(rest.into()),
                Some((keyspace, signature)) => {
                    // Class names have no bracket; a function's name may.
                    let (name, arguments) = signature.strip_suffix(']')?.rsplit_once('[')?;
                    let arguments = arguments.split('^').filter(|name| !name.is_empty()).map(str::to_string);
                    Resource::Function(keyspace.into(), name.into(), arguments.collect())
                }
            },
            _ => return None,
        })
    }
}

/// As errors and LIST PERMISSIONS show it.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::AllKeyspaces => f.write_str("<all keyspaces>"),
            Resource::Keyspace(keyspace) => write!(f, "<keyspace {keyspace}>"),
            Resource::Table(keyspace, table) => write!(f, "<table {keyspace}.{table}>"),
            Resource::AllRoles => f.write_str("<all roles>"),
            Resource::Role(role) => write!(f, "<role {role}>"),
            Resource::AllFunctions => f.write_str("<all functions>"),
            Resource::FunctionsIn(keyspace) => write!(f, "<all functions in {keyspace}>"),
            Resource::Function(keyspace, name, arguments) => {
                write!(f, "<function {keyspace}.{}(", types::quote_identifier(name))?;
                for (at, class) in arguments.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { ", " })?;
                    match CqlType::from_marshal_name(class) {
                        Ok((ty @ CqlType::Udt(_), _)) => write!(f, "frozen<{ty}>")?,
                        Ok((ty, _)) => write!(f, "{ty}")?,
                        Err(_) => f.write_str(class)?,
                    }
                }
                f.write_str(")>")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        let function = Resource::function("ks", "f[x^y]", &[CqlType::BigInt, CqlType::Int]);
        assert_eq!(
            function.name(),
            "functions/ks/f[x^y][org.apache.cassandra.db.marshal.LongType^org.apache.cassandra.db.marshal.Int32Type]"
        );
        assert_eq!(function.to_string(), "<function ks.\"f[x^y]\"(bigint, int)>");
        let table = Resource::table("ks", "t");
        let role = Resource::Role("a/b".into());
        for resource in table.chain().into_iter().chain(function.chain()).chain(role.chain()) {
            assert_eq!(Resource::from_name(&resource.name()), Some(resource));
        }
        let none = Resource::function("ks", "f", &[]);
        assert_eq!(Resource::from_name(&none.name()), Some(none));
    }

    #[test]
    fn a_table_is_within_its_keyspace() {
        assert!(Resource::table("ks", "t").is_within(&Resource::keyspace("ks")));
        assert!(!Resource::table("ks", "t").is_within(&Resource::keyspace("other")));
        assert!(Resource::table("ks", "t").is_within(&Resource::AllKeyspaces));
        assert!(!Resource::keyspace("ks").is_within(&Resource::table("ks", "t")));
    }
}
