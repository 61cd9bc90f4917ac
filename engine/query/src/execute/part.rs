//! Elements and fields taken out of values, and the cells that they have in columns of several cells.

use std::borrow::Cow;

use storage::{Cell, ComplexColumn};
use types::{CqlType, collection, multi_cell};

use crate::error::{QueryError, invalid, server};
use crate::plan::{Bound, Context, Part, Source, Values};

/// The part of a whole value; `None` when there is no such element.
pub(super) fn of_value(
    value: &[u8],
    ty: &CqlType,
    part: &Part,
    values: &Values<'_>,
    context: &Context,
) -> Result<Option<Vec<u8>>, QueryError> {
    let key = match part {
        Part::Field(at) => {
            let CqlType::Udt(udt) = ty.unfrozen() else { return Ok(None) };
            let fields = collection::fields(value, udt.fields.len()).map_err(server)?;
            return Ok(fields.get(usize::from(*at)).copied().flatten().map(<[u8]>::to_vec));
        }
        Part::Element(key) => match key.bind(values, context)? {
            Bound::Bytes(key) => key,
            _ => return Ok(None),
        },
        Part::Slice(from, to) => {
            let (from, to) = (end(from.as_ref(), values, context)?, end(to.as_ref(), values, context)?);
            return slice(value, ty, from.as_deref(), to.as_deref());
        }
    };
    Ok(match ty.unfrozen() {
        CqlType::Map(key_type, _) => {
            let entries = collection::entries(value).map_err(server)?;
            let is_it = |(known, _): &(Option<&[u8]>, Option<&[u8]>)| {
                known.is_some_and(|known| key_type.compare(known, &key).is_eq())
            };
            entries.into_iter().find(is_it).and_then(|(_, value)| value).map(<[u8]>::to_vec)
        }
        CqlType::Set(element) => {
            let mut elements = collection::elements(value).map_err(server)?.into_iter().flatten();
            elements.find(|known| element.compare(known, &key).is_eq()).map(<[u8]>::to_vec)
        }
        CqlType::List(_) => {
            let index = key[..].try_into().map(i32::from_be_bytes).ok().and_then(|index| usize::try_from(index).ok());
            let elements = collection::elements(value).map_err(server)?;
            index.and_then(|index| elements.get(index).copied().flatten()).map(<[u8]>::to_vec)
        }
        _ => None,
    })
}

/// One end of a slice; unset is open.
fn end<'v>(
    source: Option<&'v Source>,
    values: &Values<'v>,
    context: &Context,
) -> Result<Option<Cow<'v, [u8]>>, QueryError> {
    match source.map(|source| source.bind(values, context)).transpose()? {
        Some(Bound::Bytes(key)) => Ok(Some(key)),
        Some(Bound::Null) => Err(invalid!("Invalid null value for the end of a slice")),
        Some(Bound::Unset) | None => Ok(None),
    }
}

/// What of a map or a set lies between; of a collection that is not frozen there is no empty one.
fn slice(value: &[u8], ty: &CqlType, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Option<Vec<u8>>, QueryError> {
    let inside = |key_type: &CqlType, key: Option<&[u8]>| {
        key.is_some_and(|key| {
            from.is_none_or(|from| key_type.compare(key, from).is_ge())
                && to.is_none_or(|to| key_type.compare(key, to).is_le())
        })
    };
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut count = 0;
    match ty.unfrozen() {
        CqlType::Map(key_type, _) => {
            for (key, value) in collection::entries(value).map_err(server)? {
                if inside(key_type, key) {
                    parts.extend([key.unwrap_or_default(), value.unwrap_or_default()]);
                    count += 1;
                }
            }
        }
        CqlType::Set(element) => {
            let elements = collection::elements(value).map_err(server)?;
            parts.extend(elements.into_iter().filter(|one| inside(element, *one)).flatten());
            count = parts.len();
        }
        _ => return Ok(None),
    }
    Ok((count > 0 || !ty.is_multi_cell()).then(|| collection::write_collection(count, parts)))
}

/// The live cell of a part of a column of several cells.
pub(super) fn cell<'a>(
    column: &'a ComplexColumn,
    ty: &CqlType,
    part: &Part,
    now_s: u32,
    values: &Values<'_>,
    context: &Context,
) -> Result<Option<&'a Cell>, QueryError> {
    let path: Cow<'_, [u8]> = match part {
        Part::Field(at) => Cow::Owned(multi_cell::path_of_field(*at).to_vec()),
        Part::Element(key) => match key.bind(values, context)? {
            Bound::Bytes(key) => key,
            _ => return Ok(None),
        },
        // No cell is that of several elements, and none was planned to be.
        Part::Slice(..) => return Ok(None),
    };
    if let CqlType::List(_) = ty {
        let index = path[..].try_into().map(i32::from_be_bytes).ok().and_then(|index| usize::try_from(index).ok());
        return Ok(index.and_then(|index| column.live_cells(now_s).nth(index)).map(|(_, cell)| cell));
    }
    Ok(column.cell(&path, ty).filter(|cell| cell.is_live(now_s)))
}
