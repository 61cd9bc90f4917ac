//! Roles, grants and service levels as entries of the schema document: a key that says what an entry is about, and a
//! line of fields.
//!
//! They merge between nodes as definitions do, by the time of their last change, so all nodes agree on who may do what
//! as they agree on the schema.

use std::collections::BTreeMap;

use super::permission::{Permission, PermissionSet};
use super::resource::Resource;
use super::service_level::ServiceLevel;

#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    Role {
        name: String,
        login: bool,
        superuser: bool,
        hash: Option<String>,
        options: BTreeMap<String, String>,
    },
    /// `member` was granted `role`.
    Member {
        role: String,
        member: String,
    },
    Grant {
        role: String,
        resource: Resource,
        permissions: PermissionSet,
    },
    ServiceLevel {
        name: String,
        level: ServiceLevel,
    },
    Attached {
        role: String,
        service_level: String,
    },
}

pub fn role_key(name: &str) -> String {
    format!("role/{}", part(name))
}

pub fn member_key(role: &str, member: &str) -> String {
    format!("member/{}/{}", part(role), part(member))
}

pub fn grant_key(role: &str, resource: &Resource) -> String {
    format!("grant/{}/{}", part(role), part(&resource.name()))
}

pub fn service_level_key(name: &str) -> String {
    format!("service_level/{}", part(name))
}

pub fn attached_key(role: &str) -> String {
    format!("attached/{}", part(role))
}

/// One part of a key: neither blanks nor slashes.
fn part(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02x}")),
        }
    }
    out
}

fn join(fields: &[&str]) -> String {
    let escape = |field: &&str| field.replace('%', "%25").replace('\t', "%09").replace('\n', "%0a");
    fields.iter().map(escape).collect::<Vec<_>>().join("\t")
}

fn split(text: &str) -> Vec<String> {
    let plain = |field: &str| field.replace("%0a", "\n").replace("%09", "\t").replace("%25", "%");
    text.split('\t').map(plain).collect()
}

impl Record {
    pub fn key(&self) -> String {
        match self {
            Record::Role { name, .. } => role_key(name),
            Record::Member { role, member } => member_key(role, member),
            Record::Grant { role, resource, .. } => grant_key(role, resource),
            Record::ServiceLevel { name, .. } => service_level_key(name),
            Record::Attached { role, .. } => attached_key(role),
        }
    }

    pub fn encode(&self) -> String {
        match self {
            Record::Role { name, login, superuser, hash, options } => {
                let (login, superuser) = (login.to_string(), superuser.to_string());
                let mut fields = vec!["role", name, &login, &superuser, hash.as_deref().unwrap_or("")];
                fields.extend(options.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]));
                join(&fields)
            }
            Record::Member { role, member } => join(&["member", role, member]),
            Record::Grant { role, resource, permissions } => {
                join(&["grant", role, &resource.name(), &permissions.to_string()])
            }
            Record::ServiceLevel { name, level } => {
                let number = |value: Option<String>| value.unwrap_or_default();
                let timeout = number(level.timeout_ns.map(|ns| ns.to_string()));
                let shares = number(level.shares.map(|shares| shares.to_string()));
                join(&["service_level", name, &timeout, level.workload.as_deref().unwrap_or(""), &shares])
            }
            Record::Attached { role, service_level } => join(&["attached", role, service_level]),
        }
    }

    /// `None` for what no version of ours has written.
    pub fn decode(text: &str) -> Option<Record> {
        let fields = split(text);
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let given = |text: &str| (!text.is_empty()).then(|| text.to_string());
        Some(match fields.as_slice() {
            ["role", name, login, superuser, hash, options @ ..] => Record::Role {
                name: name.to_string(),
                login: *login == "true",
                superuser: *superuser == "true",
                hash: given(hash),
                options: options.chunks_exact(2).map(|pair| (pair[0].to_string(), pair[1].to_string())).collect(),
            },
            ["member", role, member] => Record::Member { role: role.to_string(), member: member.to_string() },
            ["grant", role, resource, permissions] => Record::Grant {
                role: role.to_string(),
                resource: Resource::from_name(resource)?,
                permissions: permissions
                    .split(',')
                    .filter_map(Permission::from_name)
                    .fold(PermissionSet::default(), PermissionSet::with),
            },
            ["service_level", name, timeout, workload, shares] => Record::ServiceLevel {
                name: name.to_string(),
                level: ServiceLevel {
                    timeout_ns: timeout.parse().ok(),
                    workload: given(workload),
                    shares: shares.parse().ok(),
                },
            },
            ["attached", role, service_level] => {
                Record::Attached { role: role.to_string(), service_level: service_level.to_string() }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back() {
        let odd = "a b/c\td%\ne".to_string();
        let records = [
            Record::Role {
                name: odd.clone(),
                login: true,
                superuser: false,
                hash: Some("$2b$10$x".into()),
                options: BTreeMap::from([("k".into(), odd.clone())]),
            },
            Record::Member { role: odd.clone(), member: "m".into() },
            Record::Grant {
                role: odd.clone(),
                resource: Resource::table("ks", "t"),
                permissions: PermissionSet::of(&[Permission::Alter, Permission::Execute]),
            },
            Record::ServiceLevel {
                name: odd.clone(),
                level: ServiceLevel { timeout_ns: Some(5), workload: None, shares: Some(7) },
            },
            Record::Attached { role: odd.clone(), service_level: "s".into() },
        ];
        for record in records {
            assert_eq!(Record::decode(&record.encode()), Some(record.clone()));
            assert!(!record.key().contains(' ') && !record.encode().contains('\n'));
        }
        assert_eq!(Record::decode("nonsense"), None);
    }
}
