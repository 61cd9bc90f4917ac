//! Changes of elements made into cells: of sets, maps, lists and user types that are not frozen, and what is to be added
//! to a counter.

use std::borrow::Cow;

use storage::{ComplexColumn, Stamp};
use types::{ColumnDef, CqlType, collection, multi_cell};

use crate::error::{QueryError, invalid};
use crate::node::Node;
use crate::plan::{Bound, Change, Context, Source, Values};

/// One column of several cells under construction.
pub(super) struct Elements<'w> {
    column: &'w ColumnDef,
    cells: ComplexColumn,
    stamp: Stamp,
    node: &'w Node,
    current: Option<&'w ComplexColumn>,
}

/// Where an element is missing, which no map and no set has room for.
fn key<'v>(
    source: &'v Source,
    values: &Values<'v>,
    context: &Context,
    what: &str,
) -> Result<Cow<'v, [u8]>, QueryError> {
    match source.bind(values, context)? {
        Bound::Bytes(bytes) => Ok(bytes),
        Bound::Null => Err(invalid!("Invalid null value for {what}")),
        Bound::Unset => Err(invalid!("Invalid unset value for {what}")),
    }
}

fn malformed(error: types::Error) -> QueryError {
    invalid!("{error}")
}

impl<'w> Elements<'w> {
    pub fn new(
        column: &'w ColumnDef,
        index: u16,
        stamp: Stamp,
        node: &'w Node,
        current: Option<&'w ComplexColumn>,
    ) -> Self {
        Self { column, cells: ComplexColumn::new(index), stamp, node, current }
    }

    pub fn finish(mut self) -> ComplexColumn {
        self.cells.sort(&self.column.ty);
        self.cells
    }

    fn set_all(&mut self, value: &[u8], context: &Context) -> Result<(), QueryError> {
        let (node, now_us) = (self.node, context.now_us);
        let path = || node.list_paths.borrow_mut().append(now_us);
        self.cells.set_all(&self.column.ty, value, self.stamp, path).map_err(malformed)
    }

    pub fn apply(&mut self, change: &Change, values: &Values<'_>, context: &Context) -> Result<(), QueryError> {
        let (name, ty) = (&self.column.name, &self.column.ty);
        match change {
            Change::Clear => self.cells.delete(self.stamp),
            Change::Whole(source) => match source.bind(values, context)? {
                Bound::Unset => {}
                Bound::Null => self.cells.replace(self.stamp),
                Bound::Bytes(value) => {
                    self.cells.replace(self.stamp);
                    self.set_all(&value, context)?;
                }
            },
            Change::Add(source) => {
                if let Bound::Bytes(value) = source.bind(values, context)? {
                    self.set_all(&value, context)?;
                }
            }
            Change::Prepend(source) => {
                if let Bound::Bytes(value) = source.bind(values, context)? {
                    let elements = collection::elements(&value).map_err(malformed)?;
                    let paths = self.node.list_paths.borrow_mut().prepend(context.now_us, elements.len());
                    for (path, element) in paths.into_iter().zip(elements) {
                        self.cells.set(&path, element.unwrap_or_default(), self.stamp);
                    }
                }
            }
            Change::Remove(source) => {
                if let Bound::Bytes(value) = source.bind(values, context)? {
                    for element in collection::elements(&value).map_err(malformed)? {
                        self.cells.remove(element.unwrap_or_default(), self.stamp);
                    }
                }
            }
            Change::RemoveEqual(source) => {
                if let (Bound::Bytes(value), CqlType::List(element)) = (source.bind(values, context)?, ty) {
                    let unwanted = collection::elements(&value).map_err(malformed)?;
                    for (path, current) in self.list() {
                        if unwanted.iter().flatten().any(|one| element.compare(one, current).is_eq()) {
                            self.cells.remove(path, self.stamp);
                        }
                    }
                }
            }
            Change::Put { key: of, value } => {
                let path = key(of, values, context, &format!("map key of {name}"))?;
                match value.bind(values, context)? {
                    Bound::Unset => {}
                    Bound::Null => self.cells.remove(&*path, self.stamp),
                    Bound::Bytes(value) => self.cells.set(&*path, &*value, self.stamp),
                }
            }
            Change::Discard(source) => {
                let path = key(source, values, context, &format!("collection element of {name}"))?;
                self.cells.remove(&*path, self.stamp);
            }
            Change::PutAt { index, value } => {
                let path = self.path_at(index, values, context, "set an element on")?;
                match value.bind(values, context)? {
                    Bound::Unset => {}
                    Bound::Null => self.cells.remove(path, self.stamp),
                    Bound::Bytes(value) => self.cells.set(path, &*value, self.stamp),
                }
            }
            Change::DiscardAt(index) => {
                let path = self.path_at(index, values, context, "delete an element from")?;
                self.cells.remove(path, self.stamp);
            }
            Change::Field(field, source) => {
                let path = &multi_cell::path_of_field(*field);
                match source.bind(values, context)? {
                    Bound::Unset => {}
                    Bound::Null => self.cells.remove(path, self.stamp),
                    Bound::Bytes(value) => self.cells.set(path, &*value, self.stamp),
                }
            }
            // Of columns with one cell.
            Change::Value(_) | Change::Count { .. } | Change::Sum { .. } => {}
        }
        Ok(())
    }

    /// Paths and values of the list as it is.
    fn list(&self) -> Vec<(&'w [u8], &'w [u8])> {
        let live = self.current.into_iter().flat_map(|list| list.live_cells(self.stamp.now_s));
        live.map(|(path, cell)| (path, cell.value.as_deref().unwrap_or_default())).collect()
    }

    fn path_at(
        &self,
        index: &Source,
        values: &Values<'_>,
        context: &Context,
        what: &str,
    ) -> Result<&'w [u8], QueryError> {
        let index = key(index, values, context, "list index")?;
        let index = index[..].try_into().map(i32::from_be_bytes).map_err(|_| invalid!("Invalid list index"))?;
        let list = self.list();
        if list.is_empty() {
            return Err(invalid!("Attempted to {what} a list which is null"));
        }
        let found = usize::try_from(index).ok().and_then(|at| list.get(at));
        let (path, _) =
            found.ok_or_else(|| invalid!("List index {index} out of bound, list has size {}", list.len()))?;
        Ok(path)
    }
}

/// What the changes of one counter come to; `None` when nothing is to be done.
pub(super) fn delta(
    changes: &[(u16, Change)],
    values: &Values<'_>,
    context: &Context,
) -> Result<Option<i64>, QueryError> {
    let mut sum: Option<i64> = None;
    for (_, change) in changes {
        let Change::Count { delta, takes } = change else { continue };
        let bytes = match delta.bind(values, context)? {
            Bound::Unset => continue,
            Bound::Null => return Err(invalid!("Invalid null value for counter increment/decrement")),
            Bound::Bytes(bytes) => bytes,
        };
        let by = bytes[..].try_into().map(i64::from_be_bytes).map_err(|_| invalid!("Invalid counter increment"))?;
        if *takes && by == i64::MIN {
            return Err(invalid!(
                "The negation of {by} overflows supported counter precision (signed 8 bytes integer)"
            ));
        }
        sum = Some(sum.unwrap_or(0).wrapping_add(if *takes { -by } else { by }));
    }
    Ok(sum)
}
