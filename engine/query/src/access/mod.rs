//! Who the clients are and what they may do: roles, passwords, grants, service levels.
//!
//! All of it is part of the schema document ([`Record`]), so it is agreed on between nodes, durable and present on
//! every shard as the schema is; [`Access`] is the read-only view. A statement's plan says what it needs ([`Need`]);
//! whether the client's role has it is asked at every execution, never remembered with the plan.
//!
//! Without an authenticator nobody is asked for a name, and everybody may do everything.

mod authenticate;
mod change;
mod describe;
mod execute;
mod list;
mod need;
mod password;
mod permission;
mod record;
mod resource;
mod service_level;
mod snapshot;
pub(crate) mod tables;

pub(crate) use change::Command;
pub(crate) use execute::AccessPlan;
pub(crate) use need::{Need, function_of, needs_of};
pub(crate) use password::Hasher;
pub(crate) use permission::Permission;
pub(crate) use record::{Record, role_key, service_level_key};
pub(crate) use resource::Resource;
pub(crate) use service_level::DRIVER as DRIVER_LEVEL;
pub(crate) use snapshot::{Access, DEFAULT_SUPERUSER, Defaults};

/// Who may connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authenticator {
    /// Everybody, without being asked.
    #[default]
    AllowAll,
    /// Roles that may log in, by their passwords.
    Password,
    /// Roles that may log in, by their clients' certificates: Scylla's `CertificateAuthenticator`.
    Certificate,
}

impl Authenticator {
    /// The class that drivers know the other side of.
    pub const PASSWORD_CLASS: &'static str = "org.apache.cassandra.auth.PasswordAuthenticator";

    /// By the name in `cassandra.yaml`, with or without its package.
    pub fn from_name(name: &str) -> Option<Authenticator> {
        match name.rsplit('.').next() {
            Some("AllowAllAuthenticator") => Some(Authenticator::AllowAll),
            Some("PasswordAuthenticator") => Some(Authenticator::Password),
            Some("CertificateAuthenticator") => Some(Authenticator::Certificate),
            _ => None,
        }
    }
}

/// What those who are connected may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorizer {
    /// Everything.
    #[default]
    AllowAll,
    /// What was granted to their roles.
    Roles,
}

impl Authorizer {
    pub fn from_name(name: &str) -> Option<Authorizer> {
        match name.rsplit('.').next() {
            Some("AllowAllAuthorizer") => Some(Authorizer::AllowAll),
            Some("CassandraAuthorizer") => Some(Authorizer::Roles),
            _ => None,
        }
    }
}
