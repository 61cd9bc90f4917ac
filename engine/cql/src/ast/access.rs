//! Statements about who may do what: roles, permissions and service levels.

use std::collections::BTreeMap;

use super::{QualifiedName, Term};

#[derive(Clone, Debug, PartialEq)]
pub enum AccessStatement {
    CreateRole {
        name: String,
        options: RoleOptions,
        if_not_exists: bool,
    },
    AlterRole {
        name: String,
        options: RoleOptions,
        if_exists: bool,
    },
    DropRole {
        name: String,
        if_exists: bool,
    },
    GrantRole {
        role: String,
        to: String,
    },
    RevokeRole {
        role: String,
        from: String,
    },
    /// `of: None` lists all; `users` is LIST USERS, which shows those that may log in.
    ListRoles {
        of: Option<String>,
        recursive: bool,
        users: bool,
    },
    Grant {
        permissions: Permissions,
        on: ResourceName,
        to: String,
    },
    Revoke {
        permissions: Permissions,
        on: ResourceName,
        from: String,
    },
    ListPermissions {
        permissions: Permissions,
        on: Option<ResourceName>,
        of: Option<String>,
        recursive: bool,
    },
    CreateServiceLevel {
        name: String,
        options: ServiceLevelOptions,
        if_not_exists: bool,
    },
    AlterServiceLevel {
        name: String,
        options: ServiceLevelOptions,
    },
    DropServiceLevel {
        name: String,
        if_exists: bool,
    },
    AttachServiceLevel {
        name: String,
        to: String,
    },
    DetachServiceLevel {
        from: String,
    },
    /// `name: None` lists all.
    ListServiceLevels {
        name: Option<String>,
    },
    /// `of: None` lists all.
    ListAttachedServiceLevels {
        of: Option<String>,
    },
    ListEffectiveServiceLevel {
        of: String,
    },
}

/// What WITH says of a role; what it does not say is `None`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RoleOptions {
    pub password: Option<Password>,
    pub login: Option<bool>,
    pub superuser: Option<bool>,
    pub options: Option<BTreeMap<String, String>>,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    Plain(String),
    /// As `bcrypt` writes it.
    Hashed(String),
}

/// A statement is shown in errors and logs; a password never is.
impl std::fmt::Debug for RoleOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoleOptions")
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("login", &self.login)
            .field("superuser", &self.superuser)
            .finish_non_exhaustive()
    }
}

/// Names are as written, in upper case; `All` is all that the resource knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permissions {
    All,
    Named(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceName {
    AllKeyspaces,
    Keyspace(String),
    Table(QualifiedName),
    AllRoles,
    Role(String),
    AllFunctions,
    FunctionsIn(String),
    /// Argument types as written.
    Function {
        name: QualifiedName,
        arguments: Vec<String>,
    },
}

/// What WITH says of a service level; what it does not say is `None`, and null takes back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceLevelOptions {
    pub timeout: Option<Term>,
    pub workload_type: Option<Term>,
    pub shares: Option<Term>,
}
