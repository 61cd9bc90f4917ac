//! `IF ..` of a conditional statement: what must hold, and what its answer shows.
//!
//! The answer has the same columns whether the statement was applied or not, as ScyllaDB gives it, so that a prepared
//! statement's metadata are known: `[applied]`, then what the row had before. For IF [NOT] EXISTS that is the whole
//! row, else the columns that the conditions name; of a batch the key comes along, to tell the rows apart.

use cql::ast::{self, ConditionTest};
use cql::response::{ColumnSpec, EncodedMetadata};
use types::{ColumnDef, ColumnKind, CqlType, TableDef};

use super::filter::{Filter, InList, Test};
use super::restrictions::column;
use super::{Markers, Source};
use crate::error::{QueryError, invalid};

#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Exists,
    NotExists,
    /// All of them.
    Columns(Vec<Filter>),
}

#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    pub wanted: Wanted,
    pub answer: Answer,
}

/// Which columns of the row the answer shows, and its metadata.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub columns: Vec<ColumnDef>,
    pub metadata: EncodedMetadata,
}

impl Answer {
    fn new(table: &TableDef, columns: Vec<ColumnDef>) -> Answer {
        let spec = |name: &str, ty: &CqlType| ColumnSpec::new(&table.keyspace, &table.name, name, ty.clone());
        let applied = [spec("[applied]", &CqlType::Boolean)];
        let specs: Vec<ColumnSpec> =
            applied.into_iter().chain(columns.iter().map(|column| spec(&column.name, &column.ty))).collect();
        Answer { metadata: EncodedMetadata::new(&specs), columns }
    }

    /// Of several statements on one table: what any of them shows, and the key.
    pub fn together<'a>(table: &TableDef, conditions: impl Iterator<Item = &'a Conditions> + Clone) -> Answer {
        let shown = |column: &&ColumnDef| {
            let shows =
                |conditions: &Conditions| conditions.answer.columns.iter().any(|shown| shown.name == column.name);
            column.is_primary_key() || conditions.clone().any(shows)
        };
        Answer::new(table, table.columns().filter(shown).cloned().collect())
    }
}

impl Conditions {
    pub fn exists(table: &TableDef, exists: bool) -> Conditions {
        let answer = Answer::new(table, table.columns().cloned().collect());
        Conditions { wanted: if exists { Wanted::Exists } else { Wanted::NotExists }, answer }
    }

    /// `None` when there is no IF.
    pub fn resolve(
        table: &TableDef,
        condition: &ast::Condition,
        markers: &mut Markers,
    ) -> Result<Option<Conditions>, QueryError> {
        let conditions = match condition {
            ast::Condition::None => return Ok(None),
            ast::Condition::Exists => return Ok(Some(Conditions::exists(table, true))),
            ast::Condition::Columns(conditions) => conditions,
        };
        let filters = conditions.iter().map(|one| filter(table, one, markers)).collect::<Result<Vec<_>, _>>()?;
        let named = |column: &&ColumnDef| filters.iter().any(|filter| filter.column.name == column.name);
        let answer = Answer::new(table, table.columns().filter(named).cloned().collect());
        Ok(Some(Conditions { wanted: Wanted::Columns(filters), answer }))
    }

    /// Whether a row that is named with its clustering makes sense of them.
    pub fn may_be_of_a_row(&self) -> bool {
        !matches!(self.wanted, Wanted::Columns(_)) || self.is_about_rows()
    }

    /// Whether a row other than the static one has to be there for them.
    pub fn is_about_rows(&self) -> bool {
        match &self.wanted {
            Wanted::Exists | Wanted::NotExists => false,
            Wanted::Columns(filters) => filters.iter().any(|filter| filter.column.kind == ColumnKind::Regular),
        }
    }
}

fn filter(table: &TableDef, condition: &ast::ColumnCondition, markers: &mut Markers) -> Result<Filter, QueryError> {
    let def = column(table, &condition.column)?.clone();
    if def.is_primary_key() {
        return Err(invalid!("PRIMARY KEY column '{}' cannot have IF conditions", def.name));
    }
    if def.ty == CqlType::Duration
        && matches!(condition.test, ConditionTest::Compare(operator, _) if operator.is_slice())
    {
        return Err(invalid!("Slice conditions ( {} ) are not supported on durations", operator_of(&condition.test)));
    }
    if condition.element.is_some() {
        match def.ty.unfrozen() {
            CqlType::Set(_) => return Err(invalid!("Invalid element access syntax for set column {}", def.name)),
            ty if !ty.is_collection() => {
                return Err(invalid!("Invalid element access syntax for non-collection column {}", def.name));
            }
            _ => {}
        }
    }
    let (element, ty, name) = Filter::subject(&def, condition.element.as_ref(), markers)?;
    let test = match &condition.test {
        ConditionTest::Compare(operator, term) => Test::Compare(*operator, Source::resolve(term, &ty, &name, markers)?),
        ConditionTest::In { values, negated } => {
            Test::In { values: InList::resolve(values, &ty, &name, *negated, markers)?, negated: *negated }
        }
        ConditionTest::Like(pattern) => return Filter::like(def, pattern, markers),
        ConditionTest::Contains { key, value } => return Filter::contains(def, *key, value, markers),
    };
    Ok(Filter { column: def, element, test })
}

fn operator_of(test: &ConditionTest) -> String {
    match test {
        ConditionTest::Compare(operator, _) => operator.to_string(),
        _ => String::new(),
    }
}
