//! Relations on several clustering columns at once: `(a, b) > (1, 2)`, `(a, b) IN ?`.

use std::cmp::Ordering;

use cql::ast::{InValues, Operator, Term};
use types::{ColumnDef, CqlType, TableDef, collection};

use super::{Context, Markers, Source, Values};
use crate::error::{QueryError, invalid};

/// One tuple of values.
#[derive(Clone, Debug)]
pub(crate) enum TupleSource {
    /// Value by value, maybe fewer than the columns.
    Each(Vec<Source>),
    /// A marker for the whole tuple of so many columns; only the first `used` count.
    Whole { source: Source, columns: usize, used: usize },
}

/// What a row's columns must be to one or several tuples.
#[derive(Clone, Debug)]
pub(crate) enum TupleTest {
    Compare(Operator, TupleSource),
    Any(Vec<TupleSource>),
    /// `IN ?`, a list of tuples of so many columns.
    AnyOf(Source, usize),
}

/// A test of clustering columns, from the one at `first` on.
#[derive(Clone, Debug)]
pub(crate) struct TupleFilter {
    pub first: usize,
    pub columns: usize,
    pub test: TupleTest,
}

fn tuple_type(defs: &[ColumnDef]) -> CqlType {
    CqlType::Tuple(defs.iter().map(|def| def.ty.clone()).collect())
}

fn names(defs: &[ColumnDef]) -> String {
    defs.iter().map(|def| def.name.as_str()).collect::<Vec<_>>().join(",")
}

/// The fields of a bound tuple, none of them null.
fn fields(bytes: &[u8], columns: &[ColumnDef], count: usize) -> Result<Vec<Vec<u8>>, QueryError> {
    let fields = collection::fields(bytes, count).map_err(|error| invalid!("{error}"))?;
    let field = |(at, field): (usize, Option<&[u8]>)| {
        let name = || columns.get(at).map_or("", |column| column.name.as_str());
        field.map(<[u8]>::to_vec).ok_or_else(|| invalid!("Invalid null value in condition for column {}", name()))
    };
    if fields.len() < count {
        return Err(invalid!("Expected {count} elements in value tuple, but got {}", fields.len()));
    }
    fields.into_iter().enumerate().map(field).collect()
}

impl TupleSource {
    pub fn resolve(term: &Term, defs: &[ColumnDef], markers: &mut Markers) -> Result<TupleSource, QueryError> {
        match term {
            Term::Tuple(terms) => {
                if terms.len() != defs.len() {
                    return Err(invalid!(
                        "Expected {} elements in value tuple, but got {}: {term}",
                        defs.len(),
                        terms.len()
                    ));
                }
                let resolve = |(term, def): (&Term, &ColumnDef)| {
                    let source = Source::resolve(term, &def.ty, &def.name, markers)?;
                    match source {
                        Source::Constant(None) => {
                            Err(invalid!("Invalid null value in condition for column {}", def.name))
                        }
                        source => Ok(source),
                    }
                };
                terms.iter().zip(defs).map(resolve).collect::<Result<_, _>>().map(TupleSource::Each)
            }
            Term::Marker(_) => {
                let source = Source::resolve(term, &tuple_type(defs), &format!("({})", names(defs)), markers)?;
                Ok(TupleSource::Whole { source, columns: defs.len(), used: defs.len() })
            }
            other => Err(invalid!("A tuple of {} values is expected for ({}), not {other}", defs.len(), names(defs))),
        }
    }

    /// The value of the first column alone.
    pub fn first_of(&self, defs: &[ColumnDef]) -> TupleSource {
        match self {
            TupleSource::Each(sources) => TupleSource::Each(sources[..1.min(sources.len())].to_vec()),
            TupleSource::Whole { source, .. } => {
                TupleSource::Whole { source: source.clone(), columns: defs.len(), used: 1 }
            }
        }
    }

    pub fn columns(&self) -> usize {
        match self {
            TupleSource::Each(sources) => sources.len(),
            TupleSource::Whole { used, .. } => *used,
        }
    }

    /// The values for `columns`, which begin with the tuple's first.
    pub fn bind(
        &self,
        columns: &[ColumnDef],
        values: &Values<'_>,
        context: &Context,
    ) -> Result<Vec<Vec<u8>>, QueryError> {
        match self {
            TupleSource::Each(sources) => {
                let bind = |(source, column): (&Source, &ColumnDef)| {
                    Ok(source.bind(values, context)?.required(&column.name)?.into_owned())
                };
                sources.iter().zip(columns).map(bind).collect()
            }
            TupleSource::Whole { source, columns: count, used } => {
                let bytes = source.bind(values, context)?.required(&format!("({})", names(columns)))?;
                let mut fields = fields(&bytes, columns, *count)?;
                fields.truncate(*used);
                Ok(fields)
            }
        }
    }
}

impl TupleTest {
    pub fn any_of(list: &InValues, defs: &[ColumnDef], markers: &mut Markers) -> Result<TupleTest, QueryError> {
        match list {
            InValues::Terms(terms) => {
                let tuples = terms.iter().map(|term| TupleSource::resolve(term, defs, markers));
                tuples.collect::<Result<_, _>>().map(TupleTest::Any)
            }
            InValues::Marker(marker) => {
                let ty = CqlType::list(tuple_type(defs));
                let name = markers.name_of_list(&names(defs), false);
                let source = Source::resolve(&Term::Marker(*marker), &ty, &name, markers)?;
                Ok(TupleTest::AnyOf(source, defs.len()))
            }
        }
    }

    pub fn bind(
        &self,
        columns: &[ColumnDef],
        values: &Values<'_>,
        context: &Context,
    ) -> Result<Vec<Vec<Vec<u8>>>, QueryError> {
        match self {
            TupleTest::Compare(_, tuple) => Ok(vec![tuple.bind(columns, values, context)?]),
            TupleTest::Any(tuples) => tuples.iter().map(|tuple| tuple.bind(columns, values, context)).collect(),
            TupleTest::AnyOf(source, count) => {
                let list = source.bind(values, context)?.required(&format!("in({})", names(columns)))?;
                let items = collection::elements(&list).map_err(|error| invalid!("{error}"))?;
                let refuse = || invalid!("Invalid null value in condition for columns ({})", names(columns));
                items.into_iter().map(|item| fields(item.ok_or_else(refuse)?, columns, *count)).collect()
            }
        }
    }
}

/// A [`TupleFilter`] with the values of one execution.
pub(crate) struct BoundTuples<'v> {
    filter: &'v TupleFilter,
    wanted: Vec<Vec<Vec<u8>>>,
}

impl TupleFilter {
    pub fn bind(
        &self,
        table: &TableDef,
        values: &Values<'_>,
        context: &Context,
    ) -> Result<BoundTuples<'_>, QueryError> {
        let wanted = self.test.bind(&table.clustering[self.first..], values, context)?;
        Ok(BoundTuples { filter: self, wanted })
    }
}

impl BoundTuples<'_> {
    /// `component` gives the row's clustering columns by position; the values are compared in their types' own order.
    pub fn holds<'r>(&self, table: &TableDef, component: impl Fn(usize) -> Option<&'r [u8]>) -> bool {
        let first = self.filter.first;
        let compare = |tuple: &Vec<Vec<u8>>| -> Option<Ordering> {
            for (at, wanted) in tuple.iter().enumerate().take(self.filter.columns) {
                let order = table.clustering[first + at].ty.compare(component(first + at)?, wanted);
                if order.is_ne() {
                    return Some(order);
                }
            }
            Some(Ordering::Equal)
        };
        match &self.filter.test {
            TupleTest::Compare(operator, _) => {
                self.wanted.first().and_then(compare).is_some_and(|order| match operator {
                    Operator::Less => order.is_lt(),
                    Operator::LessOrEqual => order.is_le(),
                    Operator::Greater => order.is_gt(),
                    Operator::GreaterOrEqual => order.is_ge(),
                    Operator::Equal => order.is_eq(),
                    Operator::NotEqual => order.is_ne(),
                })
            }
            _ => self.wanted.iter().any(|tuple| compare(tuple) == Some(Ordering::Equal)),
        }
    }
}
