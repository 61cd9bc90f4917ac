//! Guardrails: how much a statement may make or ask for, under Cassandra's names and in its words.
//!
//! What is counted is here; [`keyspace`], [`consistency`] and [`large`] have what is not.
//!
//! Each has a setting that warns and one that refuses, `tables_warn_threshold` and `tables_fail_threshold`; a negative
//! one does neither. Who has logged in as a superuser is exempt.

mod consistency;
mod keyspace;
pub(crate) mod large;

use ast::TableChange;
use cql::ast;

use crate::ddl::{Ddl, TypeDdl};
use crate::error::{QueryError, invalid};
use crate::execute::Client;
use crate::node::Node;
use crate::plan::{PartitionPlan, Select, Values};
use crate::system::is_system;

/// What is over a threshold: the text of a warning and of a refusal, with the threshold.
struct Excess {
    warning: String,
    refusal: String,
}

struct Guard<'n> {
    node: &'n Node,
    warnings: Vec<String>,
}

impl Guard<'_> {
    /// `{}` in the texts stands for the threshold.
    fn check(&mut self, name: &str, value: usize, excess: impl FnOnce() -> Excess) -> Result<(), QueryError> {
        let over = |kind: &str| {
            let threshold = self.node.settings.number(&format!("{name}_{kind}_threshold"));
            (threshold >= 0.0 && value as f64 > threshold).then(|| threshold.to_string())
        };
        let (fails, warns) = (over("fail"), over("warn"));
        if let Some(threshold) = fails {
            return Err(invalid!("Guardrail {name} violated: {}", excess().refusal.replace("{}", &threshold)));
        }
        if let Some(threshold) = warns {
            self.warnings.push(format!("Guardrail {name} violated: {}", excess().warning.replace("{}", &threshold)));
        }
        Ok(())
    }
}

/// Whether columns may have masks, and are shown in them.
pub(crate) const MASKING: &str = "dynamic_data_masking_enabled";

fn adds_mask(ddl: &Ddl) -> bool {
    match ddl {
        Ddl::CreateTable { def, .. } => !def.masks.is_empty(),
        Ddl::AlterTable { change: TableChange::Add { columns, .. }, .. } => {
            columns.iter().any(|column| column.mask.is_some())
        }
        Ddl::AlterTable { change: TableChange::Mask { mask, .. }, .. } => mask.is_some(),
        _ => false,
    }
}

impl Node {
    /// Whether a client's statements have to be looked at.
    fn is_guarded(&self, client: &Client) -> bool {
        self.settings.has_guardrails() && client.role().is_none_or(|role| !self.schema().access.is_superuser(&role))
    }

    /// The warnings about a change of the schema, which has not been made yet.
    pub(crate) fn guard_schema(&self, client: &Client, ddl: &Ddl) -> Result<Vec<String>, QueryError> {
        let mut guard = Guard { node: self, warnings: self.guard_keyspace(ddl)? };
        if adds_mask(ddl) && !self.settings.flag(MASKING) {
            return Err(invalid!(
                "Cannot mask columns because dynamic data masking is not enabled. You can enable it with the {MASKING} \
                 setting"
            ));
        }
        if !self.is_guarded(client) {
            return Ok(guard.warnings);
        }
        let schema = self.schema();
        let columns = |table: &str, count: usize| Excess {
            warning: format!("The table {table} has {count} columns, this exceeds the warning threshold of {{}}."),
            refusal: format!("Tables cannot have more than {{}} columns, but {count} provided for table {table}"),
        };
        let fields = |name: &str, count: usize| Excess {
            warning: format!("The user type {name} has {count} columns, this exceeds the warning threshold of {{}}."),
            refusal: format!(
                "User types cannot have more than {{}} columns, but {count} provided for user type {name}."
            ),
        };
        let made = |what: &str, plural: &str, name: &str, count: usize| Excess {
            warning: format!(
                "Creating {what} {name}, current number of {plural} {count} exceeds warning threshold of {{}}."
            ),
            refusal: format!("Cannot have more than {{}} {plural}, aborting the creation of {what} {name}"),
        };
        match ddl {
            Ddl::CreateKeyspace { def, .. } if schema.keyspace(&def.name).is_none() => {
                let count = schema.keyspaces.keys().filter(|name| !is_system(name)).count() + 1;
                guard.check("keyspaces", count, || made("keyspace", "keyspaces", &def.name, count))?;
            }
            Ddl::CreateTable { def, .. } if schema.table(&def.keyspace, &def.name).is_none() => {
                let count = def.columns().count();
                guard.check("columns_per_table", count, || columns(&def.name, count))?;
                let tables = schema.keyspaces.values().flat_map(|keyspace| keyspace.tables.values());
                let tables = tables.filter(|table| table.view.is_none() && !is_system(&table.keyspace)).count() + 1;
                guard.check("tables", tables, || made("table", "tables", &def.name, tables))?;
            }
            Ddl::AlterTable { keyspace, name, change: TableChange::Add { columns: added, .. }, .. } => {
                if let Some(table) = schema.table(keyspace, name) {
                    let new = added.iter().filter(|column| table.column(&column.name).is_none()).count();
                    let count = table.columns().count() + new;
                    guard.check("columns_per_table", count, || columns(name, count))?;
                }
            }
            Ddl::CreateIndex { keyspace, create } => {
                let table = schema.table(create.table.keyspace.as_deref().unwrap_or(keyspace), &create.table.name);
                let name = create.name.as_ref().map_or("", |name| &name.name);
                let is_new = |index: &types::IndexDef| index.name != name;
                if let Some(table) = table.filter(|table| table.indexes.iter().all(is_new)) {
                    let (count, on) = (table.indexes.len() + 1, &table.name);
                    guard.check("secondary_indexes_per_table", count, || Excess {
                        warning: format!(
                            "Creating secondary index {name} on table {on}, current number of indexes {count} exceeds \
                             warning threshold of {{}}."
                        ),
                        refusal: format!(
                            "Tables cannot have more than {{}} secondary indexes, aborting the creation of secondary \
                             index {name} on table {on}"
                        ),
                    })?;
                }
            }
            Ddl::CreateView { keyspace, create } => {
                let views = schema.keyspace(keyspace).into_iter().flat_map(|keyspace| keyspace.tables.values());
                let views = views.filter_map(|table| table.view.as_ref());
                let (name, on) = (&create.name.name, &create.base.name);
                let count = views.filter(|view| view.base_name == *on && view.index.is_none()).count() + 1;
                guard.check("materialized_views_per_table", count, || Excess {
                    warning: format!(
                        "Creating materialized view {name} on table {on}, current number of views {count} exceeds \
                         warning threshold of {{}}."
                    ),
                    refusal: format!(
                        "Tables cannot have more than {{}} materialized views, aborting the creation of materialized \
                         view {name} on table {on}"
                    ),
                })?;
            }
            Ddl::Type(TypeDdl::Create { create, .. }) => {
                let count = create.fields.len();
                guard.check("fields_per_udt", count, || fields(&create.name.name, count))?;
            }
            Ddl::Type(TypeDdl::Alter { keyspace, name, change: ast::TypeChange::Add { field, .. }, .. }) => {
                let keyspace = schema.keyspace(keyspace);
                if let Some(udt) = keyspace.and_then(|keyspace| keyspace.types.get(name)) {
                    let count = udt.fields.len() + usize::from(udt.field_index(field).is_none());
                    guard.check("fields_per_udt", count, || fields(name, count))?;
                }
            }
            _ => {}
        }
        Ok(guard.warnings)
    }

    /// The warnings about a SELECT with these values.
    pub(crate) fn guard_select(
        &self,
        client: &Client,
        select: &Select,
        page_size: Option<u32>,
        values: &Values<'_>,
    ) -> Result<Vec<String>, QueryError> {
        let mut guard = Guard { node: self, warnings: Vec::new() };
        if !self.is_guarded(client) || is_system(&select.table.keyspace) {
            return Ok(guard.warnings);
        }
        let context = &self.context();
        let table = &select.table;
        let name = &table.name;
        if let Some(size) = page_size.filter(|size| *size > 0) {
            guard.check("page_size", size as usize, || Excess {
                warning: format!("Query for table {name} with page size {size} exceeds warning threshold of {{}}."),
                refusal: format!("Aborting query for table {name}, page size {size} exceeds fail threshold of {{}}."),
            })?;
        }
        let product = |key: &str, count: usize| {
            let product = format!("cartesian product of the IN restrictions on {key} key produces {count} values");
            Excess {
                warning: format!("The {product}, this exceeds warning threshold of {{}}."),
                refusal: format!("Aborting query because the {product}, this exceeds fail threshold of {{}}."),
            }
        };
        if let PartitionPlan::Keys(keys) = &select.partition
            && keys.has_in()
        {
            let count = keys.keys(values, context)?.len();
            guard.check("partition_keys_in_select", count, || Excess {
                warning: format!(
                    "Query with partition keys in IN clause on table {name}, with number of partition keys {count} \
                     exceeds warning threshold of {{}}."
                ),
                refusal: format!(
                    "Aborting query with partition keys in IN clause on table {name}, number of partition keys \
                     {count} exceeds fail threshold of {{}}."
                ),
            })?;
            guard.check("in_select_cartesian_product", count, || product("partition", count))?;
        }
        if select.slices.has_in() {
            let count = select.slices.slices(table, values, context)?.len();
            guard.check("in_select_cartesian_product", count, || product("clustering", count))?;
        }
        Ok(guard.warnings)
    }
}
