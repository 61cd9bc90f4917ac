//! What columns a result has, or what values a statement wants: names and types.

use std::sync::Arc;

use types::{CqlType, UserType};

use crate::wire::{self, DecodeError, Reader};

pub(super) const GLOBAL_TABLE: i32 = 0x01;
pub(super) const HAS_MORE_PAGES: i32 = 0x02;
pub(super) const NO_METADATA: i32 = 0x04;
/// v5: an id follows, for metadata that are not those of PREPARE.
pub(super) const METADATA_CHANGED: i32 = 0x08;

/// Types nested deeper than this are refused when decoding.
const DEPTH_MAX: u32 = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    pub keyspace: String,
    pub table: String,
    pub name: String,
    pub ty: CqlType,
}

impl ColumnSpec {
    pub fn new(keyspace: &str, table: &str, name: &str, ty: CqlType) -> ColumnSpec {
        ColumnSpec { keyspace: keyspace.to_string(), table: table.to_string(), name: name.to_string(), ty }
    }
}

/// Columns in the form that goes on the wire: made once when a statement is prepared, copied into every answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedMetadata {
    column_count: usize,
    /// [`GLOBAL_TABLE`] when all columns are of one table, which is then named once.
    flags: i32,
    specs: Vec<u8>,
}

impl EncodedMetadata {
    pub fn new(columns: &[ColumnSpec]) -> EncodedMetadata {
        let one_table =
            columns.windows(2).all(|pair| pair[0].keyspace == pair[1].keyspace && pair[0].table == pair[1].table);
        let mut specs = Vec::new();
        if let (true, Some(first)) = (one_table, columns.first()) {
            wire::put_string(&mut specs, &first.keyspace);
            wire::put_string(&mut specs, &first.table);
        }
        for column in columns {
            if !one_table {
                wire::put_string(&mut specs, &column.keyspace);
                wire::put_string(&mut specs, &column.table);
            }
            wire::put_string(&mut specs, &column.name);
            encode_type(&mut specs, &column.ty);
        }
        let flags = if one_table && !columns.is_empty() { GLOBAL_TABLE } else { 0 };
        EncodedMetadata { column_count: columns.len(), flags, specs }
    }

    pub fn column_count(&self) -> usize {
        self.column_count
    }

    pub(super) fn flags(&self) -> i32 {
        self.flags
    }

    /// The columns as sent: what an id of these metadata is made from.
    pub fn as_bytes(&self) -> &[u8] {
        &self.specs
    }

    pub(super) fn specs(&self) -> &[u8] {
        &self.specs
    }

    /// The `<metadata>` of a result.
    pub(super) fn encode(&self, out: &mut Vec<u8>, skip: bool, paging_state: Option<&[u8]>) {
        let mut flags = if skip { NO_METADATA } else { self.flags };
        if paging_state.is_some() {
            flags |= HAS_MORE_PAGES;
        }
        wire::put_i32(out, flags);
        wire::put_i32(out, self.column_count as i32);
        if let Some(state) = paging_state {
            wire::put_bytes(out, Some(state));
        }
        if !skip {
            out.extend_from_slice(&self.specs);
        }
    }
}

/// The columns that follow flags and counts.
pub(super) fn decode_specs(reader: &mut Reader<'_>, flags: i32, count: usize) -> Result<Vec<ColumnSpec>, DecodeError> {
    let table = |reader: &mut Reader<'_>| {
        Ok::<_, DecodeError>((reader.string("keyspace")?.to_string(), reader.string("table")?.to_string()))
    };
    let global = if flags & GLOBAL_TABLE != 0 { Some(table(reader)?) } else { None };
    let mut columns = Vec::with_capacity(count);
    for _ in 0..count {
        let (keyspace, table) = match &global {
            Some(global) => global.clone(),
            None => table(reader)?,
        };
        let name = reader.string("column name")?.to_string();
        columns.push(ColumnSpec { keyspace, table, name, ty: decode_type(reader, DEPTH_MAX)? });
    }
    Ok(columns)
}

/// `[option]`
pub(super) fn encode_type(out: &mut Vec<u8>, ty: &CqlType) {
    let ty = ty.unfrozen();
    wire::put_u16(out, ty.option_id());
    match ty {
        CqlType::List(element) | CqlType::Set(element) => encode_type(out, element),
        CqlType::Map(key, value) => {
            encode_type(out, key);
            encode_type(out, value);
        }
        CqlType::Tuple(fields) => {
            wire::put_u16(out, fields.len() as u16);
            for field in fields {
                encode_type(out, field);
            }
        }
        CqlType::Udt(udt) => {
            wire::put_string(out, &udt.keyspace);
            wire::put_string(out, &udt.name);
            wire::put_u16(out, udt.fields.len() as u16);
            for (name, field) in &udt.fields {
                wire::put_string(out, name);
                encode_type(out, field);
            }
        }
        // Have no id of their own, or none before v5: go as a custom type.
        CqlType::Duration | CqlType::Vector(..) => wire::put_string(out, &ty.marshal_name(false)),
        _ => {}
    }
}

fn decode_type(reader: &mut Reader<'_>, depth: u32) -> Result<CqlType, DecodeError> {
    if depth == 0 {
        return Err(DecodeError::Invalid("The type is nested too deeply".to_string()));
    }
    let inner = |reader: &mut Reader<'_>| decode_type(reader, depth - 1);
    Ok(match reader.u16("type")? {
        0x00 => {
            let class = reader.string("custom type")?;
            let (ty, _) = CqlType::from_marshal_name(class).map_err(|error| DecodeError::Invalid(error.to_string()))?;
            ty
        }
        0x20 => CqlType::list(inner(reader)?),
        0x21 => CqlType::map(inner(reader)?, inner(reader)?),
        0x22 => CqlType::set(inner(reader)?),
        0x30 => {
            let keyspace = reader.string("keyspace")?.to_string();
            let name = reader.string("type name")?.to_string();
            let count = reader.u16("count of fields")?;
            let mut fields = Vec::new();
            for _ in 0..count {
                fields.push((reader.string("field name")?.to_string(), inner(reader)?));
            }
            CqlType::Udt(Arc::new(UserType { keyspace, name, fields }))
        }
        0x31 => {
            let count = reader.u16("count of fields")?;
            CqlType::Tuple((0..count).map(|_| inner(reader)).collect::<Result<_, _>>()?)
        }
        id => CqlType::scalar_from_option_id(id).ok_or(DecodeError::Unknown { what: "The type", value: id as i64 })?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(columns: &[ColumnSpec]) {
        let metadata = EncodedMetadata::new(columns);
        let mut reader = Reader::new(metadata.specs());
        assert_eq!(decode_specs(&mut reader, metadata.flags(), columns.len()).unwrap(), columns);
        assert!(reader.is_empty());
    }

    #[test]
    fn specs_round_trip() {
        let columns: Vec<_> =
            CqlType::SCALARS.iter().map(|ty| ColumnSpec::new("k", "t", &ty.to_string(), ty.clone())).collect();
        round_trip(&columns);
        let nested = CqlType::parse("map<text, list<tuple<int, set<duration>>>>").unwrap();
        round_trip(&[ColumnSpec::new("k", "t", "a", nested), ColumnSpec::new("k", "u", "b", CqlType::Int)]);
        let fields = vec![("a".to_string(), CqlType::Int), ("b".to_string(), CqlType::vector(CqlType::Float, 3))];
        let udt = CqlType::Udt(Arc::new(UserType { keyspace: "k".into(), name: "u".into(), fields }));
        round_trip(&[ColumnSpec::new("k", "t", "c", CqlType::list(udt))]);
        round_trip(&[]);
    }

    #[test]
    fn frozen_does_not_show() {
        let mut plain = Vec::new();
        let mut frozen = Vec::new();
        encode_type(&mut plain, &CqlType::list(CqlType::Int));
        encode_type(&mut frozen, &CqlType::list(CqlType::Int.frozen()).frozen());
        assert_eq!(plain, [0, 0x20, 0, 9]);
        assert_eq!(plain, frozen);
    }
}
