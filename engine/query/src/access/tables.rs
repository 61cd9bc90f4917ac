//! Roles, grants and service levels as the tables that tools read: `system.roles` and its like, of ScyllaDB, and those
//! of Cassandra's `system_auth`. Their rows are made from the snapshot.

use types::collection;

use super::snapshot::Access;
use crate::system::Values;

pub(crate) const TABLES: [&str; 8] = [
    "CREATE TABLE system.roles (role text PRIMARY KEY, can_login boolean, is_superuser boolean, \
     member_of frozen<set<text>>, salted_hash text)",
    "CREATE TABLE system.role_members (role text, member text, PRIMARY KEY (role, member))",
    "CREATE TABLE system.role_permissions (role text, resource text, permissions frozen<set<text>>, \
     PRIMARY KEY (role, resource))",
    "CREATE TABLE system.role_attributes (role text, name text, value text, PRIMARY KEY (role, name))",
    "CREATE TABLE system.service_levels_v2 (service_level text PRIMARY KEY, shares int, timeout duration, \
     workload_type text)",
    "CREATE TABLE system_auth.roles (role text PRIMARY KEY, can_login boolean, is_superuser boolean, \
     member_of frozen<set<text>>, salted_hash text)",
    "CREATE TABLE system_auth.role_members (role text, member text, PRIMARY KEY (role, member))",
    "CREATE TABLE system_auth.role_permissions (role text, resource text, permissions frozen<set<text>>, \
     PRIMARY KEY (role, resource))",
];

fn set<'a>(items: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let items: std::collections::BTreeSet<&str> = items.collect();
    collection::write_collection(items.len(), items.iter().map(|item| item.as_bytes()))
}

fn text(value: &str) -> Vec<u8> {
    value.as_bytes().to_vec()
}

/// The rows of one of [`TABLES`].
pub(crate) fn rows(table: &str, access: &Access) -> Vec<Values> {
    match table {
        "roles" => access
            .roles
            .iter()
            .map(|(name, role)| {
                let mut row = Values::from([
                    ("role", text(name)),
                    ("can_login", vec![u8::from(role.login)]),
                    ("is_superuser", vec![u8::from(role.superuser)]),
                ]);
                if !role.member_of.is_empty() {
                    row.insert("member_of", set(role.member_of.iter().map(String::as_str)));
                }
                if let Some(hash) = &role.hash {
                    row.insert("salted_hash", text(hash));
                }
                row
            })
            .collect(),
        "role_members" => access
            .roles
            .iter()
            .flat_map(|(member, role)| {
                role.member_of.iter().map(move |of| Values::from([("role", text(of)), ("member", text(member))]))
            })
            .collect(),
        "role_permissions" => access
            .grants
            .iter()
            .flat_map(|(role, grants)| {
                grants.iter().map(move |(resource, permissions)| {
                    Values::from([
                        ("role", text(role)),
                        ("resource", text(&resource.name())),
                        ("permissions", set(permissions.iter().map(|permission| permission.name()))),
                    ])
                })
            })
            .collect(),
        "role_attributes" => access
            .attached
            .iter()
            .map(|(role, level)| {
                Values::from([("role", text(role)), ("name", text("service_level")), ("value", text(level))])
            })
            .collect(),
        "service_levels_v2" => access
            .service_levels
            .iter()
            .map(|(name, level)| {
                let mut row = Values::from([
                    ("service_level", text(name)),
                    ("shares", (level.shares_or_default() as i32).to_be_bytes().to_vec()),
                ]);
                if let Some(timeout_ns) = level.timeout_ns {
                    let nanos = timeout_ns as i64;
                    row.insert("timeout", types::duration::CqlDuration { months: 0, days: 0, nanos }.to_bytes());
                }
                if let Some(workload) = &level.workload {
                    row.insert("workload_type", text(workload));
                }
                row
            })
            .collect(),
        _ => Vec::new(),
    }
}
