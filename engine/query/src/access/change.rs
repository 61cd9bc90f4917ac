//! What a statement about roles, grants or service levels changes in the document. Pure.

use std::collections::BTreeMap;

use cql::ast::access::ServiceLevelOptions;

use super::permission::PermissionSet;
use super::record::{self, Record};
use super::resource::Resource;
use super::service_level::{self, ServiceLevel};
use super::snapshot::{Access, Role};
use crate::error::{QueryError, invalid};
use crate::schema::Target;

/// A statement with its names resolved and its password hashed. `Send`, because shard 0 executes it.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    CreateRole { name: String, change: RoleChange, if_not_exists: bool, creator: Option<String> },
    AlterRole { name: String, change: RoleChange, if_exists: bool },
    DropRole { name: String, if_exists: bool },
    GrantRole { role: String, to: String },
    RevokeRole { role: String, from: String },
    Grant { permissions: PermissionSet, on: Resource, to: String },
    Revoke { permissions: PermissionSet, on: Resource, from: String },
    CreateServiceLevel { name: String, options: ServiceLevelOptions, if_not_exists: bool },
    AlterServiceLevel { name: String, options: ServiceLevelOptions },
    DropServiceLevel { name: String, if_exists: bool },
    AttachServiceLevel { name: String, to: String },
    DetachServiceLevel { from: String },
}

/// What is `None` stays as it is.
#[derive(Clone, Default)]
pub(crate) struct RoleChange {
    pub login: Option<bool>,
    pub superuser: Option<bool>,
    pub hash: Option<String>,
    pub options: Option<BTreeMap<String, String>>,
}

impl std::fmt::Debug for RoleChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoleChange").field("login", &self.login).finish_non_exhaustive()
    }
}

pub(crate) type Entries = Vec<(Target, Option<String>)>;

fn set(record: &Record) -> (Target, Option<String>) {
    (Target::Access(record.key()), Some(record.encode()))
}

fn unset(key: String) -> (Target, Option<String>) {
    (Target::Access(key), None)
}

fn role_entry(name: &str, role: &Role) -> (Target, Option<String>) {
    set(&Record::Role {
        name: name.to_string(),
        login: role.login,
        superuser: role.superuser,
        hash: role.hash.clone(),
        options: role.options.clone(),
    })
}

fn grant_entry(role: &str, resource: &Resource, permissions: PermissionSet) -> (Target, Option<String>) {
    if permissions.is_empty() {
        return unset(record::grant_key(role, resource));
    }
    set(&Record::Grant { role: role.to_string(), resource: resource.clone(), permissions })
}

impl RoleChange {
    fn apply(&self, role: &mut Role) {
        role.login = self.login.unwrap_or(role.login);
        role.superuser = self.superuser.unwrap_or(role.superuser);
        if let Some(hash) = &self.hash {
            role.hash = Some(hash.clone());
        }
        if let Some(options) = &self.options {
            role.options = options.clone();
        }
    }
}

impl Access {
    pub(crate) fn role(&self, name: &str) -> Result<&Role, QueryError> {
        self.roles.get(name).ok_or_else(|| invalid!("{name} doesn't exist"))
    }

    pub(crate) fn level(&self, name: &str) -> Result<&ServiceLevel, QueryError> {
        self.service_levels.get(name).ok_or_else(|| invalid!("Service Level {name} doesn't exists."))
    }

    fn granted(&self, role: &str, resource: &Resource) -> PermissionSet {
        self.grants.get(role).and_then(|grants| grants.get(resource)).copied().unwrap_or_default()
    }

    /// The entries that `command` sets or takes out.
    pub(crate) fn decide(&self, command: &Command) -> Result<Entries, QueryError> {
        Ok(match command {
            Command::CreateRole { name, change, if_not_exists, creator } => {
                if self.roles.contains_key(name) {
                    return if *if_not_exists { Ok(Vec::new()) } else { Err(invalid!("{name} already exists")) };
                }
                let mut role = Role::default();
                change.apply(&mut role);
                let resource = Resource::Role(name.clone());
                let mut entries = vec![role_entry(name, &role)];
                entries
                    .extend(creator.as_deref().map(|creator| grant_entry(creator, &resource, resource.applicable())));
                entries
            }
            Command::AlterRole { name, change, if_exists } => {
                if *if_exists && !self.roles.contains_key(name) {
                    return Ok(Vec::new());
                }
                let mut role = self.role(name)?.clone();
                change.apply(&mut role);
                vec![role_entry(name, &role)]
            }
            Command::DropRole { name, if_exists } => {
                if *if_exists && !self.roles.contains_key(name) {
                    return Ok(Vec::new());
                }
                self.role(name)?;
                self.drop_role(name)
            }
            Command::GrantRole { role, to } => {
                self.role(role)?;
                self.role(to)?;
                if self.closure(to).contains(role) {
                    return Err(invalid!("{to} is a member of {role}"));
                }
                if self.closure(role).contains(to) {
                    return Err(invalid!("{role} is a member of {to}"));
                }
                vec![set(&Record::Member { role: role.clone(), member: to.clone() })]
            }
            Command::RevokeRole { role, from } => {
                self.role(role)?;
                if !self.role(from)?.member_of.contains(role) {
                    return Err(invalid!("{from} is not a member of {role}"));
                }
                vec![unset(record::member_key(role, from))]
            }
            Command::Grant { permissions, on, to } => {
                self.role(to)?;
                let had = self.granted(to, on);
                let has = had.union(*permissions);
                if had == has { Vec::new() } else { vec![grant_entry(to, on, has)] }
            }
            Command::Revoke { permissions, on, from } => {
                self.role(from)?;
                let had = self.granted(from, on);
                let has = had.without(*permissions);
                if had == has { Vec::new() } else { vec![grant_entry(from, on, has)] }
            }
            Command::CreateServiceLevel { name, options, if_not_exists } => {
                if name == service_level::DEFAULT {
                    return Err(invalid!("The default service level, default, already exists and cannot be created"));
                }
                if self.service_levels.contains_key(name) {
                    let exists = || invalid!("Service Level {name} already exists.");
                    return if *if_not_exists { Ok(Vec::new()) } else { Err(exists()) };
                }
                if self.service_levels.len() >= service_level::LEVELS_MAX {
                    return Err(invalid!("Can't create service level - no more scheduling groups exist"));
                }
                let mut level = ServiceLevel::default();
                level.set(options)?;
                level.shares.get_or_insert(service_level::SHARES_DEFAULT);
                vec![set(&Record::ServiceLevel { name: name.clone(), level })]
            }
            Command::AlterServiceLevel { name, options } => {
                if name == service_level::DEFAULT {
                    return Err(invalid!("The default service level, default, cannot be altered"));
                }
                let mut level = self.level(name)?.clone();
                level.set(options)?;
                vec![set(&Record::ServiceLevel { name: name.clone(), level })]
            }
            Command::DropServiceLevel { name, if_exists } => {
                if name == service_level::DEFAULT {
                    return Err(invalid!("The default service level, default, cannot be dropped"));
                }
                if *if_exists && !self.service_levels.contains_key(name) {
                    return Ok(Vec::new());
                }
                self.level(name)?;
                let attached = self.attached.iter().filter(|(_, level)| *level == name);
                let detach = attached.map(|(role, _)| unset(record::attached_key(role)));
                detach.chain([unset(record::service_level_key(name))]).collect()
            }
            Command::AttachServiceLevel { name, to } => {
                if name == service_level::DEFAULT {
                    return Err(invalid!(
                        "The default service level, default, cannot be attached to a role. If you want to detach an \
                         attached service level, use the DETACH SERVICE LEVEL statement"
                    ));
                }
                self.level(name)?;
                self.role(to)?;
                vec![set(&Record::Attached { role: to.clone(), service_level: name.clone() })]
            }
            Command::DetachServiceLevel { from } => {
                self.role(from)?;
                self.attached.get(from).map(|_| unset(record::attached_key(from))).into_iter().collect()
            }
        })
    }

    fn drop_role(&self, name: &str) -> Entries {
        let mut entries = vec![unset(record::role_key(name))];
        for (member, role) in &self.roles {
            if role.member_of.contains(name) {
                entries.push(unset(record::member_key(name, member)));
            }
            if member == name {
                entries.extend(role.member_of.iter().map(|of| unset(record::member_key(of, name))));
            }
        }
        let resource = Resource::Role(name.to_string());
        for (role, grants) in &self.grants {
            let about = grants.keys().filter(|&on| role == name || *on == resource);
            entries.extend(about.map(|on| unset(record::grant_key(role, on))));
        }
        entries.extend(self.attached.get(name).map(|_| unset(record::attached_key(name))));
        entries
    }

    /// What a change of the schema entails: who made something may do all with it, and what is gone leaves no grants
    /// to whoever makes another of its name.
    pub(crate) fn follow(&self, created: &[Resource], creator: Option<&str>, dropped: &[Resource]) -> Entries {
        let grant = |resource, creator| grant_entry(creator, resource, Resource::applicable(resource));
        let mut entries: Entries =
            created.iter().filter_map(|resource| creator.map(|creator| grant(resource, creator))).collect();
        for (role, grants) in &self.grants {
            let gone = grants.keys().filter(|on| dropped.iter().any(|resource| on.is_within(resource)));
            entries.extend(gone.map(|on| unset(record::grant_key(role, on))));
        }
        entries
    }
}
