//! What a statement needs to be permitted, found when it is planned.

use types::{CqlType, TableDef};

use super::permission::Permission;
use super::resource::Resource;
use crate::ddl::cdc;
use crate::ddl::{Ddl, FunctionDdl, TypeDdl};
use crate::plan::{Modify, Plan};
use crate::schema::Schema;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub permission: Permission,
    /// The resource and what is above it: a permission on any of these will do.
    chain: Vec<Resource>,
}

impl Need {
    pub fn new(permission: Permission, on: &Resource) -> Self {
        Self { permission, chain: on.chain() }
    }

    pub fn on(&self) -> &Resource {
        &self.chain[0]
    }

    pub fn chain(&self) -> &[Resource] {
        &self.chain
    }
}

/// Tables that everybody may read, because every driver does.
fn is_readable_by_all(keyspace: &str, table: &str) -> bool {
    const OF_SYSTEM: [&str; 7] =
        ["local", "peers", "peers_v2", "one_row", "size_estimates", "versions", "scylla_local"];
    match keyspace {
        "system_schema" | "system_virtual_schema" | "system_traces" => true,
        "system" => OF_SYSTEM.contains(&table),
        _ => false,
    }
}

/// A table as a resource. A view, or a log of changes, is read, altered and dropped by who may do so with its base table.
pub(super) fn resource_of(table: &TableDef) -> Resource {
    let base = table.view.as_ref().map(|view| view.base_name.as_str()).or_else(|| cdc::base_name(table));
    Resource::table(&table.keyspace, base.unwrap_or(&table.name))
}

/// What a condition finds is told, so it has to be readable, masked columns too.
fn of_modify(modify: &Modify, needs: &mut Vec<Need>) {
    let table = resource_of(&modify.table);
    needs.push(Need::new(Permission::Modify, &table));
    needs.extend(modify.condition.as_ref().map(|_| Need::new(Permission::Select, &table)));
    if modify.condition.is_some() && !modify.table.masks.is_empty() {
        needs.push(Need::new(Permission::Unmask, &table));
    }
}

/// What `plan` needs. What LIST, GRANT and their like need depends on more than that: see `execute`.
pub(crate) fn needs_of(plan: &Plan, schema: &Schema) -> Vec<Need> {
    let mut needs = Vec::new();
    match plan {
        Plan::Select(select) => {
            let table = &select.table;
            if !is_readable_by_all(&table.keyspace, &table.name) {
                needs.push(Need::new(Permission::Select, &resource_of(table)));
            }
        }
        Plan::Modify(modify) | Plan::ModifyVirtual(modify) => of_modify(modify, &mut needs),
        Plan::Batch(batch) => batch.statements.iter().for_each(|modify| of_modify(modify, &mut needs)),
        Plan::Truncate { table, .. } => needs.push(Need::new(Permission::Modify, &resource_of(table))),
        Plan::Prune(prune) => needs.push(Need::new(Permission::Modify, &resource_of(&prune.view))),
        Plan::Schema(ddl) => {
            needs.extend(of_schema(ddl, schema).into_iter().map(|(permission, on)| Need::new(permission, &on)));
        }
        Plan::Use(_) | Plan::Describe(_) | Plan::Access(_) => {}
    }
    needs
}

/// As Cassandra's schema statements ask for.
fn of_schema(ddl: &Ddl, schema: &Schema) -> Vec<(Permission, Resource)> {
    vec![match ddl {
        Ddl::Function(ddl) => return of_function(ddl, schema),
        Ddl::CreateKeyspace { .. } => (Permission::Create, Resource::AllKeyspaces),
        Ddl::AlterKeyspace { name, .. } => (Permission::Alter, Resource::keyspace(name)),
        Ddl::DropKeyspace { name, .. } => (Permission::Drop, Resource::keyspace(name)),
        Ddl::CreateTable { def, .. } => (Permission::Create, Resource::keyspace(&def.keyspace)),
        Ddl::AlterTable { keyspace, name, .. } => (Permission::Alter, Resource::table(keyspace, name)),
        Ddl::DropTable { keyspace, name, .. } => (Permission::Drop, Resource::table(keyspace, name)),
        Ddl::Type(TypeDdl::Create { keyspace, .. }) => (Permission::Create, Resource::keyspace(keyspace)),
        Ddl::Type(TypeDdl::Alter { keyspace, .. }) => (Permission::Alter, Resource::keyspace(keyspace)),
        Ddl::Type(TypeDdl::Drop { keyspace, .. }) => (Permission::Drop, Resource::keyspace(keyspace)),
        Ddl::CreateView { keyspace, create } => (Permission::Alter, Resource::table(keyspace, &create.base.name)),
        Ddl::CreateIndex { keyspace, create } => (Permission::Alter, Resource::table(keyspace, &create.table.name)),
        // Its creator has these on the view itself.
        Ddl::AlterView { keyspace, name, .. } => (Permission::Alter, Resource::table(keyspace, name)),
        Ddl::DropView { keyspace, name, .. } => (Permission::Drop, Resource::table(keyspace, name)),
        Ddl::DropIndex { keyspace, name, .. } => {
            let has_index = |table: &&std::sync::Arc<TableDef>| table.indexes.iter().any(|index| index.name == *name);
            let table = schema.keyspace(keyspace).and_then(|keyspace| keyspace.tables.values().find(has_index));
            match table {
                Some(table) => (Permission::Alter, Resource::table(keyspace, &table.name)),
                // There is no such index, which the statement itself is told.
                None => return Vec::new(),
            }
        }
    }]
}

/// To replace is to alter, and an aggregate calls what it is made of. What cannot be resolved needs nothing: the
/// statement itself will be refused.
fn of_function(ddl: &FunctionDdl, schema: &Schema) -> Vec<(Permission, Resource)> {
    let create = |keyspace: &str| (Permission::Create, Resource::FunctionsIn(keyspace.to_string()));
    match ddl {
        FunctionDdl::Create { keyspace, create: statement } => {
            let mut needs = vec![create(keyspace)];
            if let (true, Some(def)) = (statement.or_replace, ddl.function(schema)) {
                let types: Vec<CqlType> = def.argument_types().cloned().collect();
                needs.push((Permission::Alter, Resource::function(keyspace, &def.name, &types)));
            }
            needs
        }
        FunctionDdl::CreateAggregate { keyspace, create: statement } => {
            let mut needs = vec![create(keyspace)];
            if let Some(def) = ddl.aggregate(schema) {
                let mut functions = def.functions().into_iter();
                let itself = functions.next().filter(|_| statement.or_replace);
                let itself = itself.map(|function| (Permission::Alter, function));
                let all = itself.into_iter().chain(functions.map(|function| (Permission::Execute, function)));
                needs.extend(
                    all.map(|(permission, (name, types))| (permission, Resource::function(keyspace, &name, &types))),
                );
            }
            needs
        }
        FunctionDdl::Drop { keyspace, .. } | FunctionDdl::DropAggregate { keyspace, .. } => {
            let dropped = ddl.dropped(schema).and_then(|signature| function_of(schema, keyspace, &signature));
            dropped.map(|function| (Permission::Drop, function)).into_iter().collect()
        }
    }
}

/// The function or aggregate of a signature, as a resource.
pub(crate) fn function_of(schema: &Schema, keyspace: &str, signature: &str) -> Option<Resource> {
    let known = schema.keyspace(keyspace)?;
    if let Some(def) = known.functions.get(signature) {
        let types: Vec<CqlType> = def.argument_types().cloned().collect();
        return Some(Resource::function(keyspace, &def.name, &types));
    }
    let def = known.aggregates.get(signature)?;
    Some(Resource::function(keyspace, &def.name, &def.arguments))
}
