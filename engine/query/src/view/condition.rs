//! The WHERE of a view: constants that the key columns of the view are held against.

use std::cmp::Ordering;

use cql::ast::{InValues, Operator, Relation, Statement, Term};
use cql::term::literal_to_bytes;
use types::{ColumnDef, ColumnKind, CqlType, TableDef, Token, serialize_partition_key};

use crate::error::{QueryError, invalid};

/// One column held against one or several values.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    subject: Subject,
    operator: Operator,
    /// For `=`, any of them.
    values: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
enum Subject {
    Column(ColumnDef),
    Token,
}

impl Condition {
    /// What a relation asks for; of IS NOT NULL nothing, for columns of the view's key are never null.
    pub fn of(relation: &Relation, base: &TableDef) -> Result<Vec<Condition>, QueryError> {
        let column = |name: &String| {
            base.column(name).ok_or_else(|| invalid!("Undefined column name {name} in table {}", base.name))
        };
        let one = |name: &String, operator: Operator, terms: &[&Term]| -> Result<Condition, QueryError> {
            let column = column(name)?.clone();
            let value = |term: &&Term| {
                let bytes = literal_to_bytes(term, &column.ty, name)?;
                bytes.ok_or_else(|| invalid!("Invalid null value in condition for column {name}"))
            };
            let values = terms.iter().map(value).collect::<Result<_, QueryError>>()?;
            Ok(Condition { subject: Subject::Column(column), operator, values })
        };
        match relation {
            Relation::IsNotNull { .. } => Ok(Vec::new()),
            Relation::Column { column, operator, value } => Ok(vec![one(column, *operator, &[value])?]),
            Relation::In { column, values: InValues::Terms(terms), negated: false } => {
                Ok(vec![one(column, Operator::Equal, &terms.iter().collect::<Vec<_>>())?])
            }
            Relation::Tuple { columns, operator: Operator::Equal, value: Term::Tuple(terms) }
                if terms.len() == columns.len() =>
            {
                columns.iter().zip(terms).map(|(column, term)| one(column, Operator::Equal, &[term])).collect()
            }
            Relation::Token { operator, value, .. } => {
                let bytes = literal_to_bytes(value, &CqlType::BigInt, "token")?;
                let value = bytes.ok_or_else(|| invalid!("Invalid null value for token"))?;
                Ok(vec![Condition { subject: Subject::Token, operator: *operator, values: vec![value] }])
            }
            _ => Err(invalid!("This relation is not supported in the SELECT statement of a materialized view")),
        }
    }

    /// Those of a filter that has been accepted once.
    pub fn all(filter: &str, base: &TableDef) -> Option<Vec<Condition>> {
        let parsed = cql::parse(&format!("SELECT * FROM t WHERE {filter}")).ok()?;
        let Statement::Select(select) = parsed.statement else { return None };
        let conditions = select.filter.iter().map(|relation| Condition::of(relation, base));
        Some(conditions.collect::<Result<Vec<_>, _>>().ok()?.into_iter().flatten().collect())
    }

    /// `value` gives the values of columns.
    pub fn holds(&self, components: &[&[u8]], value: impl Fn(&ColumnDef) -> Option<Vec<u8>>) -> bool {
        let (value, ty) = match &self.subject {
            Subject::Token => {
                let token = Token::of_key(&serialize_partition_key(components)).0;
                (token.to_be_bytes().to_vec(), &CqlType::BigInt)
            }
            Subject::Column(column) => match column.kind {
                ColumnKind::PartitionKey(at) => {
                    let Some(component) = components.get(usize::from(at)) else { return false };
                    (component.to_vec(), &column.ty)
                }
                _ => match value(column) {
                    Some(value) => (value, &column.ty),
                    None => return false,
                },
            },
        };
        self.values.iter().any(|wanted| {
            let order = ty.compare(&value, wanted);
            match self.operator {
                Operator::Equal => order == Ordering::Equal,
                Operator::NotEqual => order != Ordering::Equal,
                Operator::Less => order == Ordering::Less,
                Operator::LessOrEqual => order != Ordering::Greater,
                Operator::Greater => order == Ordering::Greater,
                Operator::GreaterOrEqual => order != Ordering::Less,
            }
        })
    }
}
