//! Who may do what, as one schema version has it: read by every statement, changed by none.
//!
//! A node's permission cache is this snapshot: it is replaced on all shards when a role or a grant changes, so nothing
//! in it is ever old and nothing needs to be invalidated.

use std::collections::{BTreeMap, BTreeSet};

use super::permission::{Permission, PermissionSet};
use super::record::Record;
use super::resource::Resource;
use super::service_level::{self, ServiceLevel};

/// The superuser of a cluster that has just been made, and its password, as in Cassandra. It exists until it is
/// altered or dropped.
pub const DEFAULT_SUPERUSER: &str = "cassandra";
/// Of "cassandra". No secret: it is in Cassandra's manual.
pub const DEFAULT_PASSWORD_HASH: &str = "$2b$10$OrreryOrreryOrreryOrrejQGEHiTxtBry.umUZUPOXxaUkGBjqYa";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    pub login: bool,
    pub superuser: bool,
    pub hash: Option<String>,
    pub options: BTreeMap<String, String>,
    pub member_of: BTreeSet<String>,
}

/// What is there from the start and nobody has altered or dropped yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    pub superuser: bool,
    pub driver_level: bool,
}

impl Defaults {
    #[cfg(test)]
    pub const ALL: Defaults = Defaults { superuser: true, driver_level: true };
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    pub roles: BTreeMap<String, Role>,
    pub grants: BTreeMap<String, BTreeMap<Resource, PermissionSet>>,
    pub service_levels: BTreeMap<String, ServiceLevel>,
    /// Role to service level.
    pub attached: BTreeMap<String, String>,
}

impl Access {
    /// Of all entries that are there.
    pub fn new(records: impl IntoIterator<Item = Record>, defaults: Defaults) -> Self {
        let mut access = Self::default();
        let mut members = Vec::new();
        if defaults.driver_level {
            access.service_levels.insert(service_level::DRIVER.to_string(), ServiceLevel::driver());
        }
        if defaults.superuser {
            let hash = Some(DEFAULT_PASSWORD_HASH.to_string());
            let role = Role { login: true, superuser: true, hash, ..Role::default() };
            access.roles.insert(DEFAULT_SUPERUSER.to_string(), role);
        }
        for record in records {
            match record {
                Record::Role { name, login, superuser, hash, options } => {
                    access.roles.insert(name, Role { login, superuser, hash, options, member_of: BTreeSet::new() });
                }
                Record::Member { role, member } => members.push((role, member)),
                Record::Grant { role, resource, permissions } => {
                    access.grants.entry(role).or_default().insert(resource, permissions);
                }
                Record::ServiceLevel { name, level } => drop(access.service_levels.insert(name, level)),
                Record::Attached { role, service_level } => drop(access.attached.insert(role, service_level)),
            }
        }
        // What is about a role that another node has dropped meanwhile is void.
        for (role, member) in members {
            if access.roles.contains_key(&role)
                && let Some(member) = access.roles.get_mut(&member)
            {
                member.member_of.insert(role);
            }
        }
        let roles = &access.roles;
        access.grants.retain(|role, _| roles.contains_key(role));
        let levels = &access.service_levels;
        access.attached.retain(|role, level| roles.contains_key(role) && levels.contains_key(level));
        access
    }

    /// The role and all that were granted to it, through others too.
    pub fn closure(&self, role: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let mut next = vec![role.to_string()];
        while let Some(role) = next.pop() {
            if let Some(known) = self.roles.get(&role)
                && all.insert(role)
            {
                next.extend(known.member_of.iter().cloned());
            }
        }
        all
    }

    pub fn is_superuser(&self, role: &str) -> bool {
        match self.roles.get(role) {
            Some(known) if known.superuser => true,
            Some(known) if known.member_of.is_empty() => false,
            _ => self.closure(role).iter().any(|role| self.roles.get(role).is_some_and(|role| role.superuser)),
        }
    }

    /// Whether the role may, on any of `chain`: a resource and what is above it.
    pub fn permits(&self, role: &str, permission: Permission, chain: &[Resource]) -> bool {
        let granted = |role: &str| {
            let grants = self.grants.get(role);
            grants.is_some_and(|grants| {
                chain.iter().any(|resource| grants.get(resource).is_some_and(|set| set.contains(permission)))
            })
        };
        match self.roles.get(role) {
            None => false,
            Some(_) if granted(role) => true,
            Some(known) if known.member_of.is_empty() => self.is_superuser(role),
            Some(_) => self.closure(role).iter().any(|role| granted(role)) || self.is_superuser(role),
        }
    }

    /// For each option the level of the role's that decides it, with the value: see [`super::service_level`].
    /// `None` when the role has no level at all.
    pub fn effective_level(&self, role: &str) -> Option<EffectiveLevel> {
        let levels: Vec<(&String, &ServiceLevel)> = self
            .closure(role)
            .iter()
            .filter_map(|role| self.attached.get(role))
            .filter_map(|name| self.service_levels.get_key_value(name))
            .collect();
        let (first, _) = levels.first()?;
        let by_timeout = levels.iter().min_by_key(|(_, level)| level.timeout_ns.unwrap_or(u64::MAX))?;
        let by_shares = levels.iter().min_by_key(|(_, level)| level.shares_or_default())?;
        let caution = |workload: Option<&str>| match workload {
            Some("interactive") => 0,
            Some(_) => 1,
            None => 2,
        };
        let by_workload = levels.iter().min_by_key(|(_, level)| caution(level.workload.as_deref()))?;
        Some(EffectiveLevel {
            name: first.to_string(),
            timeout: (by_timeout.0.clone(), by_timeout.1.timeout_ns),
            workload: (by_workload.0.clone(), by_workload.1.workload.clone()),
            shares: (by_shares.0.clone(), by_shares.1.shares_or_default()),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveLevel {
    pub name: String,
    pub timeout: (String, Option<u64>),
    pub workload: (String, Option<String>),
    pub shares: (String, u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, superuser: bool) -> Record {
        Record::Role { name: name.into(), login: true, superuser, hash: None, options: BTreeMap::new() }
    }

    fn member(role: &str, member: &str) -> Record {
        Record::Member { role: role.into(), member: member.into() }
    }

    fn grant(role: &str, resource: Resource, permission: Permission) -> Record {
        Record::Grant { role: role.into(), resource, permissions: PermissionSet::of(&[permission]) }
    }

    #[test]
    fn grants_come_through_roles_and_from_above() {
        let access = Access::new(
            [
                role("ann", false),
                role("readers", false),
                role("boss", true),
                role("deputy", false),
                member("readers", "ann"),
                member("boss", "deputy"),
                // A circle, as two nodes apart from each other can make one.
                member("ann", "readers"),
                member("gone", "ann"),
                grant("readers", Resource::keyspace("ks"), Permission::Select),
                grant("ghost", Resource::AllKeyspaces, Permission::Select),
            ],
            Defaults::ALL,
        );
        let table = Resource::table("ks", "t").chain();
        assert!(access.permits("ann", Permission::Select, &table));
        assert!(!access.permits("ann", Permission::Modify, &table));
        assert!(!access.permits("ann", Permission::Select, &Resource::table("other", "t").chain()));
        assert!(access.permits("deputy", Permission::Modify, &table));
        assert!(!access.permits("ghost", Permission::Select, &table));
        assert!(access.is_superuser(DEFAULT_SUPERUSER) && !access.is_superuser("ann"));
        assert!(!Access::new([], Defaults::default()).roles.contains_key(DEFAULT_SUPERUSER));
    }

    #[test]
    fn the_most_cautious_option_applies() {
        let level = |timeout_ns, workload: Option<&str>, shares| ServiceLevel {
            timeout_ns,
            workload: workload.map(str::to_string),
            shares,
        };
        let attach = |role: &str, level: &str| Record::Attached { role: role.into(), service_level: level.into() };
        let named = |name: &str, level| Record::ServiceLevel { name: name.into(), level };
        let access = Access::new(
            [
                role("a", false),
                role("b", false),
                member("b", "a"),
                named("one", level(Some(5), None, Some(500))),
                named("two", level(None, Some("batch"), Some(200))),
                attach("a", "one"),
                attach("b", "two"),
            ],
            Defaults::default(),
        );
        let effective = access.effective_level("a").unwrap();
        assert_eq!(effective.timeout, ("one".into(), Some(5)));
        assert_eq!(effective.workload, ("two".into(), Some("batch".into())));
        assert_eq!(effective.shares, ("two".into(), 200));
        assert_eq!(access.effective_level("none"), None);
    }
}
