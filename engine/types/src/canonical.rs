//! The one form of a value that equal values share.
//!
//! Clients may send the elements of sets and the entries of maps in any order, and twice; stored and compared they are
//! sorted, each once, as literals are.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::{CqlType, Error, collection};

impl CqlType {
    /// Whether values may come in several forms.
    pub fn has_canonical_form(&self) -> bool {
        matches!(self, CqlType::Set(_) | CqlType::Map(..)) || self.parts().into_iter().any(CqlType::has_canonical_form)
    }

    /// The canonical form of a valid value; borrowed when it has it already.
    pub fn canonical<'v>(&self, bytes: &'v [u8]) -> Result<Cow<'v, [u8]>, Error> {
        if bytes.is_empty() || !self.has_canonical_form() {
            return Ok(Cow::Borrowed(bytes));
        }
        let inner = |ty: &CqlType, value: Option<&'v [u8]>| value.map(|value| ty.canonical(value)).transpose();
        let made = match self {
            CqlType::Frozen(content) => return content.canonical(bytes),
            CqlType::Set(element) => {
                let mut items = present(element, collection::elements(bytes)?)?;
                items.sort_by(|a, b| element.compare(a, b));
                items.dedup_by(|a, b| element.compare(a, b) == Ordering::Equal);
                collection::write_collection(items.len(), items.iter().map(|item| &**item))
            }
            CqlType::List(element) => {
                let items = present(element, collection::elements(bytes)?)?;
                collection::write_collection(items.len(), items.iter().map(|item| &**item))
            }
            CqlType::Map(key, value) => {
                let (keys, values): (Vec<_>, Vec<_>) = collection::entries(bytes)?.into_iter().unzip();
                let mut entries: Vec<_> = present(key, keys)?.into_iter().zip(present(value, values)?).collect();
                // Of equal keys the later counts.
                entries.reverse();
                entries.sort_by(|(a, _), (b, _)| key.compare(a, b));
                entries.dedup_by(|(a, _), (b, _)| key.compare(a, b) == Ordering::Equal);
                collection::write_collection(entries.len(), entries.iter().flat_map(|(k, v)| [&**k, &**v]))
            }
            CqlType::Tuple(types) => fields(bytes, types.iter(), inner)?,
            CqlType::Udt(udt) => fields(bytes, udt.fields.iter().map(|(_, ty)| ty), inner)?,
            CqlType::Vector(element, dimension) => {
                let items = collection::vector_elements(bytes, element.fixed_len(), *dimension)?;
                let items = items.into_iter().map(|item| element.canonical(item)).collect::<Result<Vec<_>, _>>()?;
                collection::write_vector(element.fixed_len(), items.iter().map(|item| &**item))
            }
            _ => return Ok(Cow::Borrowed(bytes)),
        };
        Ok(if made == bytes { Cow::Borrowed(bytes) } else { Cow::Owned(made) })
    }
}

fn present<'v>(ty: &CqlType, values: Vec<Option<&'v [u8]>>) -> Result<Vec<Cow<'v, [u8]>>, Error> {
    values.into_iter().map(|value| ty.canonical(value.unwrap_or_default())).collect()
}

fn fields<'v, 't>(
    bytes: &'v [u8],
    types: impl ExactSizeIterator<Item = &'t CqlType>,
    inner: impl Fn(&CqlType, Option<&'v [u8]>) -> Result<Option<Cow<'v, [u8]>>, Error>,
) -> Result<Vec<u8>, Error> {
    let values = collection::fields(bytes, types.len())?.into_iter().zip(types);
    let values = values.map(|(value, ty)| inner(ty, value)).collect::<Result<Vec<_>, _>>()?;
    Ok(collection::write_tuple(values.iter().map(Option::as_deref)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_maps_are_sorted_inside_of_others_too() {
        let ty = CqlType::parse("list<frozen<map<int, frozen<set<int>>>>>").unwrap();
        let int = |n: i32| n.to_be_bytes();
        let set = |items: &[i32]| {
            let items: Vec<_> = items.iter().map(|n| int(*n)).collect();
            collection::write_collection(items.len(), items.iter().map(|item| &item[..]))
        };
        let (two, one) = (int(2), int(1));
        let (loose, tidy, other) = (set(&[3, -1, 3]), set(&[-1, 3]), set(&[]));
        let list = |map: Vec<u8>| collection::write_collection(1, [&map[..]]);
        let given = list(collection::write_collection(3, [&two[..], &loose, &one, &other, &one, &loose]));
        let wanted = list(collection::write_collection(2, [&one[..], &tidy, &two, &tidy]));
        assert_eq!(ty.canonical(&given).unwrap(), wanted);
        assert!(matches!(ty.canonical(&wanted).unwrap(), Cow::Borrowed(_)));
    }
}
