//! Columns that are shown masked: a call of a masking function, written without the column as its first argument, stands
//! in the column's place for whoever may not unmask it. As Cassandra's dynamic data masking.

use cql::ast::{self, Relation, Selection, Selector, Statement};
use types::{CqlType, TableDef};

use super::selection::{Aggregation, Output, resolve};
use super::{Function, Markers};
use crate::ddl::Ddl;
use crate::error::{QueryError, invalid, server};

/// What of a SELECT differs for who sees masks.
#[derive(Clone, Debug)]
pub(crate) struct Masked {
    pub outputs: Vec<Output>,
    pub aggregations: Vec<Aggregation>,
    /// Columns with masks that the statement chooses rows by, which tells what they are.
    pub restricted: Vec<String>,
}

/// `column` in its mask.
fn masked(column: &str, call: &str) -> Result<Selector, QueryError> {
    let broken = || server(format!("the mask of column {column} cannot be read: {call}"));
    let parsed = cql::parser::parse(&format!("SELECT {call} FROM t")).map_err(|_| broken())?;
    let Statement::Select(ast::Select { selection: Selection::Items(items), .. }) = parsed.statement else {
        return Err(broken());
    };
    match items.into_iter().next().map(|item| item.selector) {
        Some(Selector::Function { name, mut arguments }) => {
            arguments.insert(0, Selector::Column(column.to_string()));
            Ok(Selector::Function { name, arguments })
        }
        _ => Err(broken()),
    }
}

/// What is selected of a table with masks, in them.
pub(super) fn selection(table: &TableDef, selection: &Selection) -> Result<Selection, QueryError> {
    let items = match selection {
        Selection::Items(items) => items.clone(),
        Selection::All => {
            let item = |name: &String| ast::SelectItem { selector: Selector::Column(name.clone()), alias: None };
            table.columns().map(|column| item(&column.name)).collect()
        }
    };
    let mask = |item: ast::SelectItem| {
        let selector = replace(table, item.selector)?;
        Ok(ast::SelectItem { selector, alias: item.alias })
    };
    Ok(Selection::Items(items.into_iter().map(mask).collect::<Result<_, QueryError>>()?))
}

fn replace(table: &TableDef, selector: Selector) -> Result<Selector, QueryError> {
    let boxed = |of: Box<Selector>| replace(table, *of).map(Box::new);
    Ok(match selector {
        Selector::Column(name) => match table.masks.get(&name) {
            Some(call) => masked(&name, call)?,
            None => Selector::Column(name),
        },
        Selector::Element { of, key } => Selector::Element { of: boxed(of)?, key },
        Selector::Slice { of, from, to } => Selector::Slice { of: boxed(of)?, from, to },
        Selector::Field { of, field } => Selector::Field { of: boxed(of)?, field },
        Selector::Cast { selector, ty } => Selector::Cast { selector: boxed(selector)?, ty },
        // Of the partition key by its names: where the row lies.
        Selector::Function { name, arguments } if name.name.eq_ignore_ascii_case("token") => {
            Selector::Function { name, arguments }
        }
        Selector::Function { name, arguments } => {
            let arguments = arguments.into_iter().map(|argument| replace(table, argument)).collect::<Result<_, _>>()?;
            Selector::Function { name, arguments }
        }
        ages @ (Selector::CountRows
        | Selector::WriteTime(_)
        | Selector::MaxWriteTime(_)
        | Selector::Ttl(_)
        | Selector::Term(_)) => ages,
    })
}

/// The columns with masks that a filter is about.
pub(super) fn restricted(table: &TableDef, filter: &[Relation]) -> Vec<String> {
    let mut names: Vec<&String> = Vec::new();
    for relation in filter {
        match relation {
            Relation::Column { column, .. }
            | Relation::In { column, .. }
            | Relation::Contains { column, .. }
            | Relation::Element { column, .. }
            | Relation::Like { column, .. }
            | Relation::IsNotNull { column } => names.push(column),
            Relation::Tuple { columns, .. } | Relation::TupleIn { columns, .. } | Relation::Token { columns, .. } => {
                names.extend(columns);
            }
        }
    }
    names.into_iter().filter(|name| table.masks.contains_key(*name)).cloned().collect()
}

/// Whether the masks that a statement gives to columns can be theirs.
pub(super) fn check(ddl: &Ddl, markers: &mut Markers) -> Result<(), QueryError> {
    match ddl {
        Ddl::CreateTable { def, .. } => {
            for (name, call) in &def.masks {
                if let Some(column) = def.column(name) {
                    check_one(&def.keyspace, name, &column.ty, call, markers)?;
                }
            }
        }
        Ddl::AlterTable { keyspace, change: ast::TableChange::Add { columns, .. }, .. } => {
            for column in columns {
                if let Some(call) = &column.mask {
                    check_one(keyspace, &column.name, &column.ty, call, markers)?;
                }
            }
        }
        Ddl::AlterTable { keyspace, name, change: ast::TableChange::Mask { column, mask: Some(call), .. }, .. } => {
            let schema = markers.schema.clone();
            // Without table or column the statement itself is told so.
            if let Some(column) = schema.table(keyspace, name).and_then(|table| table.column(column)) {
                check_one(keyspace, &column.name, &column.ty, call, markers)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn check_one(keyspace: &str, column: &str, ty: &CqlType, call: &str, markers: &mut Markers) -> Result<(), QueryError> {
    // A table of the one column: its place does not matter, and nothing else may be named.
    let table = TableDef::builder(keyspace, "masked").regular(column, ty.clone()).build();
    let item = ast::SelectItem { selector: masked(column, call)?, alias: None };
    let outputs = resolve(&table, &Selection::Items(vec![item]), false, markers)?.outputs;
    let Some(output) = outputs.first() else { return Ok(()) };
    if !matches!(output.expression, super::Expression::Call(Function::Mask(_), _)) {
        return Err(invalid!("{call} is no masking function"));
    }
    if output.ty.unfrozen() != ty.unfrozen() {
        return Err(invalid!(
            "Masking function {call} return type is {}. This is different to the type of the masked column {column} \
             of type {ty}. Masking functions can only be attached to table columns if they return the same data type \
             as the masked column.",
            output.ty
        ));
    }
    Ok(())
}
