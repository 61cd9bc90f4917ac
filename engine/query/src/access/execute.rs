//! Statements about roles, grants and service levels: planned, permitted, executed.

use std::rc::Rc;
use std::time::Duration;

use cql::ast::QualifiedName;
use cql::ast::access::{AccessStatement, Password, Permissions, ResourceName, RoleOptions};
use cql::response::ErrorKind;

use super::change::{Command, RoleChange};
use super::permission::{Permission, PermissionSet};
use super::resource::Resource;
use super::{Access, Need, list, password};
use crate::ddl::{lookup_type, no_keyspace};
use crate::error::{QueryError, invalid};
use crate::execute::{Client, Outcome};
use crate::node::Node;
use crate::plan::Select;
use crate::schema::agreement;

/// A statement with its resource resolved.
pub(crate) struct AccessPlan {
    statement: AccessStatement,
    resource: Option<Resource>,
}

fn unauthorized(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorKind::Unauthorized, message)
}

impl AccessPlan {
    pub fn new(node: &Node, statement: &AccessStatement, keyspace: Option<&str>) -> Result<Self, QueryError> {
        let resolve = |name: &ResourceName| resource(node, name, keyspace);
        let resource = match statement {
            AccessStatement::Grant { permissions, on, .. } | AccessStatement::Revoke { permissions, on, .. } => {
                let resource = resolve(on)?;
                check_applicable(permissions, &resource)?;
                Some(resource)
            }
            AccessStatement::ListPermissions { on, .. } => on.as_ref().map(resolve).transpose()?,
            _ => None,
        };
        Ok(Self { statement: statement.clone(), resource })
    }

    pub fn is_about_service_levels(&self) -> bool {
        matches!(
            self.statement,
            AccessStatement::CreateServiceLevel { .. }
                | AccessStatement::AlterServiceLevel { .. }
                | AccessStatement::DropServiceLevel { .. }
                | AccessStatement::AttachServiceLevel { .. }
                | AccessStatement::DetachServiceLevel { .. }
                | AccessStatement::ListServiceLevels { .. }
                | AccessStatement::ListAttachedServiceLevels { .. }
                | AccessStatement::ListEffectiveServiceLevel { .. }
        )
    }
}

fn resource(node: &Node, name: &ResourceName, keyspace: Option<&str>) -> Result<Resource, QueryError> {
    let qualify = |name: &QualifiedName| {
        let keyspace = name.keyspace.as_deref().or(keyspace).ok_or_else(no_keyspace)?;
        Ok::<_, QueryError>((keyspace.to_string(), name.name.clone()))
    };
    Ok(match name {
        ResourceName::AllKeyspaces => Resource::AllKeyspaces,
        ResourceName::Keyspace(keyspace) => Resource::Keyspace(keyspace.clone()),
        ResourceName::Table(name) => {
            let (keyspace, table) = qualify(name)?;
            Resource::Table(keyspace, table)
        }
        ResourceName::AllRoles => Resource::AllRoles,
        ResourceName::Role(role) => Resource::Role(role.clone()),
        ResourceName::AllFunctions => Resource::AllFunctions,
        ResourceName::FunctionsIn(keyspace) => Resource::FunctionsIn(keyspace.clone()),
        ResourceName::Function { name, arguments } => {
            let (keyspace, function) = qualify(name)?;
            let types: Result<Vec<_>, _> = arguments.iter().map(|text| node.argument_type(&keyspace, text)).collect();
            Resource::function(&keyspace, &function, &types?)
        }
    })
}

/// Wrong by itself, whatever exists: hence a syntax error, as in Cassandra.
fn check_applicable(permissions: &Permissions, resource: &Resource) -> Result<(), QueryError> {
    let wanted = set_of(permissions);
    if *permissions != Permissions::All && !wanted.without(resource.grantable()).is_empty() {
        return Err(QueryError::syntax(format!(
            "Resource type {} does not support some of the requested permissions",
            resource.kind()
        )));
    }
    Ok(())
}

fn set_of(permissions: &Permissions) -> PermissionSet {
    match permissions {
        Permissions::All => PermissionSet::ALL,
        Permissions::Named(names) => names
            .iter()
            .filter_map(|name| Permission::from_name(name))
            .fold(PermissionSet::default(), PermissionSet::with),
    }
}

/// What a statement about permissions means on a resource.
fn meant(permissions: &Permissions, on: &Resource) -> PermissionSet {
    match permissions {
        Permissions::All => on.applicable(),
        named => set_of(named).intersection(on.grantable()),
    }
}

impl Node {
    /// A type as an argument of a function in `keyspace`.
    fn argument_type(&self, keyspace: &str, text: &str) -> Result<types::CqlType, QueryError> {
        let written = cql::parser::parse_type(text)?;
        lookup_type(&written, keyspace, &self.schema().types_of(keyspace))
    }

    /// Refuses what the client's role has not been granted.
    pub(crate) fn authorize(&self, client: &Client, needs: &[Need]) -> Result<(), QueryError> {
        let Some(role) = client.role() else { return Ok(()) };
        if self.authorizer == super::Authorizer::AllowAll {
            return Ok(());
        }
        let schema = self.schema();
        for need in needs {
            if !schema.access.permits(&role, need.permission, need.chain()) {
                return Err(denied(&role, need.permission, need.on()));
            }
        }
        Ok(())
    }

    /// Whether a client sees a SELECT's masked columns in their masks; refused if it may not choose rows by them.
    pub(crate) fn sees_masks(&self, client: &Client, select: &Select) -> Result<bool, QueryError> {
        let Some(masked) = &select.masked else { return Ok(false) };
        let Some(role) = client.role().filter(|_| self.authorizer != super::Authorizer::AllowAll) else {
            return Ok(false);
        };
        if !self.settings.flag(crate::guardrails::MASKING) {
            return Ok(false);
        }
        let (schema, table) = (self.schema(), &select.table);
        let on = super::need::resource_of(table).chain();
        if schema.access.permits(&role, Permission::Unmask, &on) {
            return Ok(false);
        }
        if !masked.restricted.is_empty() && !schema.access.permits(&role, Permission::SelectMasked, &on) {
            return Err(unauthorized(format!(
                "User {role} has no UNMASK nor SELECT_MASKED permission on table {}.{}, cannot query masked columns [{}]",
                table.keyspace,
                table.name,
                masked.restricted.join(", ")
            )));
        }
        Ok(true)
    }

    /// What the service level of the client's role gives a request.
    pub(crate) fn level_timeout(&self, client: &Client) -> Option<Duration> {
        let role = client.role()?;
        let schema = self.schema();
        let access = &schema.access;
        // Most clusters have no service levels at all.
        if access.attached.is_empty() {
            return None;
        }
        access.effective_level(&role)?.timeout.1.map(Duration::from_nanos)
    }

    /// Refuses a client that may not do everything.
    pub(crate) fn must_be_superuser(self: &Rc<Self>, client: &Client, what: &str) -> Result<(), QueryError> {
        Actor { node: self, client, access: &self.schema().access }.must_be_superuser(what)
    }

    pub(crate) async fn run_access(self: &Rc<Self>, client: &Client, plan: &AccessPlan) -> Result<Outcome, QueryError> {
        let schema = self.schema();
        let access = &schema.access;
        let actor = Actor { node: self, client, access };
        if let Some(answer) = actor.list(plan)? {
            return Ok(Outcome::Body(answer));
        }
        actor.permit(plan)?;
        let Some(command) = self.command(client, plan).await? else { return Ok(Outcome::Void) };
        agreement::change_access(self, command).await?;
        Ok(Outcome::Void)
    }

    /// What shard 0 is to do.
    async fn command(&self, client: &Client, plan: &AccessPlan) -> Result<Option<Command>, QueryError> {
        let on = plan.resource.clone();
        Ok(Some(match (plan.statement.clone(), on) {
            (AccessStatement::CreateRole { name, options, if_not_exists }, _) => {
                let creator = client.role().map(|role| role.to_string());
                Command::CreateRole { name, change: self.role_change(options).await?, if_not_exists, creator }
            }
            (AccessStatement::AlterRole { name, options, if_exists }, _) => {
                Command::AlterRole { name, change: self.role_change(options).await?, if_exists }
            }
            (AccessStatement::DropRole { name, if_exists }, _) => Command::DropRole { name, if_exists },
            (AccessStatement::GrantRole { role, to }, _) => Command::GrantRole { role, to },
            (AccessStatement::RevokeRole { role, from }, _) => Command::RevokeRole { role, from },
            (AccessStatement::Grant { permissions, to, .. }, Some(on)) => {
                Command::Grant { permissions: meant(&permissions, &on), on, to }
            }
            (AccessStatement::Revoke { permissions, from, .. }, Some(on)) => {
                Command::Revoke { permissions: set_of(&permissions), on, from }
            }
            (AccessStatement::CreateServiceLevel { name, options, if_not_exists }, _) => {
                Command::CreateServiceLevel { name, options, if_not_exists }
            }
            (AccessStatement::AlterServiceLevel { name, options }, _) => Command::AlterServiceLevel { name, options },
            (AccessStatement::DropServiceLevel { name, if_exists }, _) => Command::DropServiceLevel { name, if_exists },
            (AccessStatement::AttachServiceLevel { name, to }, _) => Command::AttachServiceLevel { name, to },
            (AccessStatement::DetachServiceLevel { from }, _) => Command::DetachServiceLevel { from },
            _ => return Ok(None),
        }))
    }

    async fn role_change(&self, options: RoleOptions) -> Result<RoleChange, QueryError> {
        let hash = match options.password {
            None => None,
            Some(Password::Hashed(hash)) if password::is_hash(&hash) => Some(hash),
            Some(Password::Hashed(_)) => return Err(invalid!("Invalid hashed password value. Please use jBcrypt.")),
            Some(Password::Plain(plain)) => {
                let random = u128::from(reactor::random()) << 64 | u128::from(reactor::random());
                Some(self.hasher.hash(&plain, random).await)
            }
        };
        Ok(RoleChange { login: options.login, superuser: options.superuser, hash, options: options.options })
    }
}

fn denied(role: &str, permission: Permission, on: &Resource) -> QueryError {
    unauthorized(format!("User {role} has no {} permission on {on} or any of its parents", permission.name()))
}

/// Who asks, under which snapshot.
struct Actor<'a> {
    node: &'a Rc<Node>,
    client: &'a Client,
    access: &'a Access,
}

impl Actor<'_> {
    /// `None` when nothing is checked.
    fn name(&self) -> Option<Rc<str>> {
        self.client.role().filter(|_| self.node.authorizer != super::Authorizer::AllowAll)
    }

    fn may(&self, permission: Permission, on: &Resource) -> bool {
        self.name().is_none_or(|role| self.access.permits(&role, permission, &on.chain()))
    }

    fn must(&self, permission: Permission, on: &Resource) -> Result<(), QueryError> {
        match self.name() {
            Some(role) if !self.access.permits(&role, permission, &on.chain()) => Err(denied(&role, permission, on)),
            _ => Ok(()),
        }
    }

    fn is_superuser(&self) -> bool {
        self.name().is_none_or(|role| self.access.is_superuser(&role))
    }

    fn must_be_superuser(&self, what: &str) -> Result<(), QueryError> {
        if self.is_superuser() { Ok(()) } else { Err(unauthorized(format!("Only superusers are allowed to {what}"))) }
    }

    /// Whether the client may change what it is about to.
    fn permit(&self, plan: &AccessPlan) -> Result<(), QueryError> {
        match &plan.statement {
            AccessStatement::CreateRole { options, .. } => {
                self.must(Permission::Create, &Resource::AllRoles)?;
                if options.superuser == Some(true) && !self.is_superuser() {
                    return Err(unauthorized("Only superusers can create a role with superuser status"));
                }
            }
            AccessStatement::AlterRole { name, options, .. } => self.permit_alter(name, options)?,
            AccessStatement::DropRole { name, .. } => {
                self.must(Permission::Drop, &Resource::Role(name.clone()))?;
                if self.client.role().is_some_and(|role| *role == **name) {
                    return Err(invalid!("Cannot DROP primary role for current login"));
                }
                if self.access.is_superuser(name) {
                    self.must_be_superuser("drop a role with superuser status")?;
                }
            }
            AccessStatement::GrantRole { role, .. } | AccessStatement::RevokeRole { role, .. } => {
                self.must(Permission::Authorize, &Resource::Role(role.clone()))?;
            }
            AccessStatement::Grant { permissions, .. } | AccessStatement::Revoke { permissions, .. } => {
                if let Some(on) = &plan.resource {
                    let exists = self.exists(on);
                    if matches!(plan.statement, AccessStatement::Grant { .. }) && !exists {
                        return Err(invalid!("{on} doesn't exist"));
                    }
                    self.must(Permission::Authorize, on)?;
                    for permission in meant(permissions, on).iter() {
                        self.must(permission, on)?;
                    }
                }
            }
            _ => self.must_be_superuser("manage service levels")?,
        }
        Ok(())
    }

    fn permit_alter(&self, name: &str, options: &RoleOptions) -> Result<(), QueryError> {
        let Some(me) = self.name() else { return Ok(()) };
        if options.superuser.is_some() {
            if self.access.closure(&me).contains(name) {
                return Err(unauthorized(
                    "You aren't allowed to alter your own superuser status or that of a role granted to you",
                ));
            }
            self.must_be_superuser("alter superuser status")?;
        }
        // One may change one's own password, and nothing else of oneself.
        let only_password = options.superuser.is_none() && options.login.is_none() && options.options.is_none();
        if *me == *name && only_password {
            return Ok(());
        }
        self.must(Permission::Alter, &Resource::Role(name.to_string()))
    }

    fn exists(&self, on: &Resource) -> bool {
        match on {
            Resource::AllKeyspaces | Resource::AllRoles | Resource::AllFunctions => true,
            Resource::Keyspace(keyspace) | Resource::FunctionsIn(keyspace) => self.node.keyspace(keyspace).is_some(),
            Resource::Table(keyspace, table) => self.node.table(keyspace, table).is_ok(),
            Resource::Role(role) => self.access.roles.contains_key(role),
            Resource::Function(..) => self.node.schema().has_function(on),
        }
    }

    /// The answer to a LIST statement.
    fn list(&self, plan: &AccessPlan) -> Result<Option<Vec<u8>>, QueryError> {
        Ok(Some(match &plan.statement {
            AccessStatement::ListRoles { of, recursive, users } => {
                let sees_all = self.may(Permission::Describe, &Resource::AllRoles);
                let mine = |name: &str| self.access.closure(name);
                let shown = match (of, self.name()) {
                    (Some(of), me) => {
                        self.access.role(of)?;
                        if !sees_all && !me.is_some_and(|me| mine(&me).contains(of)) {
                            return Err(unauthorized(format!("You are not authorized to view roles granted to {of}")));
                        }
                        if *recursive { mine(of) } else { self.access.role(of)?.member_of.clone() }
                    }
                    (None, Some(me)) if !sees_all => mine(&me),
                    _ => self.access.roles.keys().cloned().collect(),
                };
                if *users { list::users(self.access, &shown) } else { list::roles(self.access, &shown) }
            }
            AccessStatement::ListPermissions { permissions, of, recursive, .. } => {
                if let Some(of) = of {
                    self.access.role(of)?;
                }
                if let Some(on) = &plan.resource
                    && !self.exists(on)
                {
                    return Err(invalid!("{on} doesn't exist"));
                }
                let all = self.is_superuser() || self.may(Permission::Describe, &Resource::AllRoles);
                let own = self.name().zip(of.as_ref()).is_some_and(|(me, of)| self.access.closure(&me).contains(of));
                if !all && !own {
                    let whose = of.as_deref().unwrap_or("everyone");
                    return Err(unauthorized(format!("You are not authorized to view {whose}'s permissions")));
                }
                let wanted = set_of(permissions);
                list::permissions(self.access, wanted, plan.resource.as_ref(), of.as_deref(), *recursive)
            }
            AccessStatement::ListServiceLevels { name: Some(name) } => list::service_level(self.access, name)?,
            AccessStatement::ListServiceLevels { name: None } => list::service_levels(self.access),
            AccessStatement::ListAttachedServiceLevels { of } => {
                if let Some(of) = of {
                    self.access.role(of)?;
                }
                list::attached(self.access, of.as_deref())
            }
            AccessStatement::ListEffectiveServiceLevel { of } => list::effective(self.access, of)?,
            _ => return Ok(None),
        }))
    }
}
