//! What an assignment does to its column: a value in one piece, or changes of the elements of a column of several
//! cells, or of a counter.

use cql::ast::{DeleteTarget, Operation, Term};
use types::{ColumnDef, CqlType};

use super::{Markers, Source};
use crate::error::{QueryError, invalid};

#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Of a column with one cell; null deletes it.
    Value(Source),
    /// In place of everything that a column of several cells has.
    Whole(Source),
    /// `DELETE column`, of several cells.
    Clear,
    /// Elements of a set, entries of a map, elements behind a list's others.
    Add(Source),
    /// Elements before a list's others.
    Prepend(Source),
    /// Elements of a set, keys of a map (as a set).
    Remove(Source),
    /// Every element of a list that equals one of these: needs the list.
    RemoveEqual(Source),
    /// An entry of a map.
    Put { key: Source, value: Source },
    /// An element of a set or an entry of a map.
    Discard(Source),
    /// An element of a list by its index: needs the list.
    PutAt { index: Source, value: Source },
    /// As [`Change::PutAt`].
    DiscardAt(Source),
    /// A field of a user type; null removes it.
    Field(u16, Source),
    /// Adds to a number that is no counter, or takes from it, of a conditional statement: needs the number.
    Sum { operand: Source, takes: bool },
    /// Adds to a counter, or takes from it.
    Count { delta: Source, takes: bool },
}

impl Change {
    /// Whether it depends on what the column has.
    pub fn needs_current(&self) -> bool {
        matches!(self, Change::RemoveEqual(_) | Change::PutAt { .. } | Change::DiscardAt(_) | Change::Sum { .. })
    }

    /// Whether it leaves nothing of what other assignments of the statement do to the column.
    pub fn is_whole(&self) -> bool {
        matches!(self, Change::Value(_) | Change::Whole(_) | Change::Clear | Change::Sum { .. })
    }

    /// `column = value`, also of INSERT.
    pub fn set(column: &ColumnDef, source: Source) -> Result<Change, QueryError> {
        if column.ty.is_counter() {
            return Err(invalid!(
                "Cannot set the value of counter column {} (counters can only be incremented/decremented, not set)",
                column.name
            ));
        }
        Ok(if column.ty.is_multi_cell() { Change::Whole(source) } else { Change::Value(source) })
    }

    /// `DELETE column`
    pub fn delete(column: &ColumnDef) -> Change {
        if column.ty.is_multi_cell() { Change::Clear } else { Change::Value(Source::Constant(None)) }
    }

    /// An assignment of UPDATE.
    pub fn resolve(column: &ColumnDef, operation: &Operation, markers: &mut Markers) -> Result<Change, QueryError> {
        let (name, ty) = (column.name.as_str(), &column.ty);
        let value = |term: &Term, ty: &CqlType, markers: &mut Markers| Source::resolve(term, ty, name, markers);
        match operation {
            Operation::Set(term) => Change::set(column, value(term, ty, markers)?),
            Operation::Add(term) => match ty {
                CqlType::Counter => Ok(Change::Count { delta: value(term, ty, markers)?, takes: false }),
                CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) => Ok(Change::Add(value(term, ty, markers)?)),
                ty if ty.is_number() => Ok(Change::Sum { operand: value(term, ty, markers)?, takes: false }),
                _ => Err(refusal(column, &format!("{name} = {name} + {term}"), "counter")),
            },
            Operation::Subtract(term) => match ty {
                CqlType::Counter => Ok(Change::Count { delta: value(term, ty, markers)?, takes: true }),
                CqlType::List(_) => Ok(Change::RemoveEqual(value(term, ty, markers)?)),
                ty if ty.is_number() => Ok(Change::Sum { operand: value(term, ty, markers)?, takes: true }),
                CqlType::Set(_) => Ok(Change::Remove(value(term, ty, markers)?)),
                CqlType::Map(..) if matches!(term, Term::Map(_)) => {
                    Err(invalid!("Value for a map substraction has to be a set, but was: '{term}'"))
                }
                CqlType::Map(key, _) => Ok(Change::Remove(value(term, &CqlType::Set(key.clone()), markers)?)),
                _ => Err(refusal(column, &format!("{name} = {name} - {term}"), "counter")),
            },
            Operation::Prepend(term) => match ty {
                CqlType::List(_) => Ok(Change::Prepend(value(term, ty, markers)?)),
                _ => Err(refusal(column, &format!("{name} = {term} + {name}"), "list")),
            },
            Operation::SetElement { key, value } => match ty {
                CqlType::Map(key_type, value_type) => Ok(Change::Put {
                    key: Source::resolve(key, key_type, &format!("key({name})"), markers)?,
                    value: Source::resolve(value, value_type, &format!("value({name})"), markers)?,
                }),
                CqlType::List(element) => Ok(Change::PutAt {
                    index: Source::resolve(key, &CqlType::Int, &format!("idx({name})"), markers)?,
                    value: Source::resolve(value, element, &format!("value({name})"), markers)?,
                }),
                CqlType::Set(_) => Err(invalid!("Invalid operation ({name}[{key}] = {value}) for set column {name}")),
                _ => Err(refusal(column, &format!("{name}[{key}] = {value}"), "collection")),
            },
            Operation::SetField { field, value } => {
                let (at, ty) = field_of(column, field, &format!("{name}.{field} = {value}"))?;
                Ok(Change::Field(at, Source::resolve(value, &ty, &format!("{name}.{field}"), markers)?))
            }
        }
    }

    /// `DELETE m['k']`, `DELETE address.street`.
    pub fn delete_part(column: &ColumnDef, target: &DeleteTarget, markers: &mut Markers) -> Result<Change, QueryError> {
        let name = column.name.as_str();
        match target {
            DeleteTarget::Column(_) => Ok(Change::delete(column)),
            DeleteTarget::Element { key, .. } => match &column.ty {
                CqlType::Map(key_type, _) | CqlType::Set(key_type) => {
                    Ok(Change::Discard(Source::resolve(key, key_type, &format!("key({name})"), markers)?))
                }
                CqlType::List(_) => {
                    Ok(Change::DiscardAt(Source::resolve(key, &CqlType::Int, &format!("idx({name})"), markers)?))
                }
                ty if ty.is_collection() => {
                    Err(invalid!("Invalid deletion operation for frozen collection column {name}"))
                }
                _ => Err(invalid!("Invalid deletion operation for non collection column {name}")),
            },
            DeleteTarget::Field { field, .. } => {
                let (at, _) = field_of(column, field, "deletion")?;
                Ok(Change::Field(at, Source::Constant(None)))
            }
        }
    }
}

/// The position and type of a field of a column that is a user type in several cells.
fn field_of(column: &ColumnDef, field: &str, operation: &str) -> Result<(u16, CqlType), QueryError> {
    let name = &column.name;
    match &column.ty {
        CqlType::Udt(udt) => match udt.field_index(field) {
            Some(at) => Ok((at as u16, udt.fields[at].1.clone())),
            None => Err(invalid!("UDT column {name} does not have a field named {field}")),
        },
        ty if operation == "deletion" && matches!(ty.unfrozen(), CqlType::Udt(_)) => {
            Err(invalid!("Frozen UDT column {name} does not support field deletions"))
        }
        ty if matches!(ty.unfrozen(), CqlType::Udt(_)) => {
            Err(invalid!("Invalid operation ({operation}) for frozen UDT column {name}"))
        }
        _ => Err(invalid!("Invalid operation ({operation}) for non-UDT column {name}")),
    }
}

fn refusal(column: &ColumnDef, operation: &str, wanted: &str) -> QueryError {
    let (name, ty) = (&column.name, &column.ty);
    if ty.is_collection() && !ty.is_multi_cell() {
        return invalid!("Invalid operation ({operation}) for frozen collection column {name}");
    }
    invalid!("Invalid operation ({operation}) for non {wanted} column {name}")
}
