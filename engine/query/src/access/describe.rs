//! Roles, grants and service levels as the statements that make them again: what `DESCRIBE SCHEMA WITH INTERNALS` adds,
//! in ScyllaDB's forms.

use types::{CqlType, quote_identifier as identifier};

use super::resource::Resource;
use super::service_level::{self, ServiceLevel};
use super::snapshot::{Access, DEFAULT_SUPERUSER};
use crate::schema::describe::string;

/// Of something that is in no keyspace.
pub(crate) struct Described {
    pub kind: &'static str,
    pub name: String,
    pub statement: String,
}

fn described(kind: &'static str, name: &str, statement: String) -> Described {
    Described { kind, name: name.to_string(), statement }
}

/// As GRANT names it.
fn resource(on: &Resource) -> String {
    match on {
        Resource::AllKeyspaces => "ALL KEYSPACES".into(),
        Resource::Keyspace(keyspace) => format!("KEYSPACE {}", identifier(keyspace)),
        Resource::Table(keyspace, table) => format!("{}.{}", identifier(keyspace), identifier(table)),
        Resource::AllRoles => "ALL ROLES".into(),
        Resource::Role(role) => format!("ROLE {}", identifier(role)),
        Resource::AllFunctions => "ALL FUNCTIONS".into(),
        Resource::FunctionsIn(keyspace) => format!("ALL FUNCTIONS IN KEYSPACE {}", identifier(keyspace)),
        Resource::Function(keyspace, name, arguments) => {
            let ty = |class: &String| match CqlType::from_marshal_name(class) {
                Ok((ty, _)) => ty.to_string(),
                Err(_) => class.clone(),
            };
            let arguments: Vec<String> = arguments.iter().map(ty).collect();
            format!("FUNCTION {}.{}({})", identifier(keyspace), identifier(name), arguments.join(", "))
        }
    }
}

/// What stands behind WITH.
fn options(level: &ServiceLevel) -> String {
    let timeout = level.timeout_ns.map(|ns| format!("TIMEOUT = {}ms", ns / 1_000_000));
    let workload = level.workload.as_ref().map(|workload| format!("WORKLOAD_TYPE = {}", string(workload)));
    let shares = Some(format!("SHARES = {}", level.shares_or_default()));
    let all: Vec<String> = [timeout, workload, shares].into_iter().flatten().collect();
    all.join(" AND ")
}

impl Access {
    /// In an order in which they can be executed. `with_passwords`: as they are kept, hashed.
    pub(crate) fn describe(&self, with_passwords: bool) -> Vec<Described> {
        let mut all = Vec::new();
        for (name, role) in &self.roles {
            let quoted = identifier(name);
            // It is there from the start.
            let unless = if name == DEFAULT_SUPERUSER { "IF NOT EXISTS " } else { "" };
            let password = match role.hash.as_ref().filter(|_| with_passwords) {
                Some(hash) => format!("HASHED PASSWORD = {} AND ", string(hash)),
                None => String::new(),
            };
            let (login, superuser) = (role.login, role.superuser);
            let text =
                format!("CREATE ROLE {unless}{quoted} WITH {password}LOGIN = {login} AND SUPERUSER = {superuser};");
            all.push(described("role", &quoted, text));
        }
        for (name, role) in &self.roles {
            let grants = role.member_of.iter().map(|of| {
                let of = identifier(of);
                described("grant_role", &of, format!("GRANT {of} TO {};", identifier(name)))
            });
            all.extend(grants);
        }
        for (role, grants) in &self.grants {
            let role = identifier(role);
            for (on, permissions) in grants {
                let on = resource(on);
                all.extend(permissions.iter().map(|permission| {
                    let text = format!("GRANT {} ON {on} TO {role};", permission.name());
                    described("grant_permission", &role, text)
                }));
            }
        }
        self.describe_levels(&mut all);
        for (role, level) in &self.attached {
            let level = identifier(level);
            let text = format!("ATTACH SERVICE LEVEL {level} TO {};", identifier(role));
            all.push(described("service_level_attachment", &level, text));
        }
        all
    }

    /// The level of drivers' own connections is there from the start: it is altered, or dropped to make room.
    fn describe_levels(&self, all: &mut Vec<Described>) {
        const KIND: &str = "service_level";
        if !self.service_levels.contains_key(service_level::DRIVER) {
            let text = format!("DROP SERVICE LEVEL IF EXISTS {};", service_level::DRIVER);
            all.push(described(KIND, service_level::DRIVER, text));
        }
        for (name, level) in &self.service_levels {
            let (quoted, options) = (identifier(name), options(level));
            let is_driver = name == service_level::DRIVER;
            let unless = if is_driver { "IF NOT EXISTS " } else { "" };
            all.push(described(KIND, &quoted, format!("CREATE SERVICE LEVEL {unless}{quoted} WITH {options};")));
            if is_driver {
                all.push(described(KIND, &quoted, format!("ALTER SERVICE LEVEL {quoted} WITH {options};")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::permission::PermissionSet;
    use super::super::record::Record;
    use super::super::{Defaults, Permission};
    use super::*;

    #[test]
    fn statements_that_make_it_again() {
        let role = Record::Role {
            name: "an \"odd\" one".into(),
            login: true,
            superuser: false,
            hash: Some("it's".into()),
            options: Default::default(),
        };
        let function = Resource::function("ks", "F", &[CqlType::Int, CqlType::list(CqlType::Text)]);
        let grant = |resource| Record::Grant {
            role: "cassandra".into(),
            resource,
            permissions: PermissionSet::of(&[Permission::Alter]),
        };
        let member = Record::Member { role: "an \"odd\" one".into(), member: "cassandra".into() };
        let attached = Record::Attached { role: "cassandra".into(), service_level: "driver".into() };
        let records = [role, member, grant(function), grant(Resource::AllRoles), attached];
        let access = Access::new(records, Defaults::ALL);
        let shown: Vec<String> = access.describe(false).into_iter().map(|one| one.statement).collect();
        assert_eq!(
            shown,
            [
                "CREATE ROLE \"an \"\"odd\"\" one\" WITH LOGIN = true AND SUPERUSER = false;",
                "CREATE ROLE IF NOT EXISTS cassandra WITH LOGIN = true AND SUPERUSER = true;",
                "GRANT \"an \"\"odd\"\" one\" TO cassandra;",
                "GRANT ALTER ON ALL ROLES TO cassandra;",
                "GRANT ALTER ON FUNCTION ks.\"F\"(int, list<text>) TO cassandra;",
                "CREATE SERVICE LEVEL IF NOT EXISTS driver WITH WORKLOAD_TYPE = 'batch' AND SHARES = 200;",
                "ALTER SERVICE LEVEL driver WITH WORKLOAD_TYPE = 'batch' AND SHARES = 200;",
                "ATTACH SERVICE LEVEL driver TO cassandra;",
            ]
        );
        let with_passwords = access.describe(true).remove(0).statement;
        assert!(with_passwords.contains("WITH HASHED PASSWORD = 'it''s' AND LOGIN"), "{with_passwords}");
        let dropped = Access::new([], Defaults { driver_level: false, ..Defaults::ALL });
        assert_eq!(dropped.describe(false)[1].statement, "DROP SERVICE LEVEL IF EXISTS driver;");
    }
}
