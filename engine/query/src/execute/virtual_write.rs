//! Writes to tables that show the node's own state: a new value in `system.config` is a setting changed.

use std::rc::Rc;

use cql::response::{ErrorKind, WriteType};

use super::Execution;
use super::current::Current;
use super::modify::partitions;
use crate::error::{QueryError, invalid};
use crate::node::Node;
use crate::plan::{Modify, ModifyKind};

impl Node {
    pub(super) async fn modify_virtual(
        self: &Rc<Self>,
        modify: &Modify,
        execution: Execution<'_>,
    ) -> Result<(), QueryError> {
        let table = &modify.table;
        if table.name != "config" {
            return Err(failure(execution, format!("cannot write to virtual table {}", table.name)));
        }
        if modify.kind == ModifyKind::Delete {
            return Err(failure(execution, "a setting in virtual table config cannot be deleted".into()));
        }
        let column = table.regulars.iter().position(|column| column.name == "value");
        for partition in partitions(self, modify, execution, &self.context(), &Current::default())? {
            let name = String::from_utf8_lossy(&partition.key).into_owned();
            let cells = partition.rows.iter().flat_map(|row| &row.cells);
            for (index, cell) in cells {
                if Some(*index as usize) != column {
                    return Err(invalid!("Only the value of a setting can be changed"));
                }
                let Some(value) = &cell.value else { return Err(invalid!("A setting cannot be null")) };
                let value = String::from_utf8_lossy(value).into_owned();
                self.set_setting(&name, &value).await?;
            }
        }
        Ok(())
    }
}

/// The only replica has refused.
fn failure(execution: Execution<'_>, cause: String) -> QueryError {
    let kind = ErrorKind::WriteFailure {
        consistency: execution.parameters.consistency,
        received: 0,
        block_for: 1,
        failures: 1,
        write_type: WriteType::Simple,
    };
    QueryError::new(kind, cause)
}
