//! The serialization header of an SSTable: what its rows' bytes are relative to, which columns and types they have.
//!
//! As `SerializationHeader.Component` and `EncodingStats.Serializer` of Apache Cassandra.

use types::{ColumnDef, CqlType, TableDef, vint};

use crate::data::codec::Reader;
use crate::{Malformed, NEVER_S};

/// 2015-09-22 00:00 UTC: what Cassandra's `EncodingStats` counts from.
const EPOCH_S: u32 = 1_442_880_000;
const EPOCH_US: i64 = EPOCH_S as i64 * 1_000_000;

/// The least timestamp, local deletion time and TTL: rows hold differences to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EncodingStats {
    pub min_timestamp: i64,
    pub min_local_deletion_s: u32,
    pub min_ttl_s: u32,
}

impl EncodingStats {
    /// Of nothing; [`EncodingStats::merge`] lowers it.
    pub const NONE: Self = Self { min_timestamp: i64::MAX, min_local_deletion_s: NEVER_S, min_ttl_s: u32::MAX };

    /// Takes in the times of one thing; TTL 0 is none.
    #[inline]
    pub fn see(&mut self, timestamp: i64, ttl_s: u32, local_deletion_s: u32) {
        self.min_timestamp = self.min_timestamp.min(timestamp);
        self.min_local_deletion_s = self.min_local_deletion_s.min(local_deletion_s);
        if ttl_s != 0 {
            self.min_ttl_s = self.min_ttl_s.min(ttl_s);
        }
    }

    pub fn merge(&mut self, other: &EncodingStats) {
        self.min_timestamp = self.min_timestamp.min(other.min_timestamp);
        self.min_local_deletion_s = self.min_local_deletion_s.min(other.min_local_deletion_s);
        self.min_ttl_s = self.min_ttl_s.min(other.min_ttl_s);
    }

    /// With Cassandra's stand-ins for what did not occur. Differences wrap, so any value is right; these are short.
    pub fn or_epoch(self) -> Self {
        Self {
            min_timestamp: if self.min_timestamp == i64::MAX { EPOCH_US } else { self.min_timestamp },
            min_local_deletion_s: match self.min_local_deletion_s {
                NEVER_S => EPOCH_S,
                early if early < EPOCH_S => EPOCH_S,
                // Read back as a signed 32-bit number.
                late => late.min(i32::MAX as u32),
            },
            min_ttl_s: if self.min_ttl_s == u32::MAX { 0 } else { self.min_ttl_s },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: String,
    pub ty: CqlType,
    /// Index in the table's definition; `None` for a column that it has no more.
    pub index: Option<u16>,
    /// Cells up to this time are those of a column of the same name that was dropped.
    pub hidden_us: i64,
    /// Of the type, which is not asked again for each cell.
    pub fixed_len: Option<usize>,
    /// Whether it is stored as a cell for each element.
    pub is_multi_cell: bool,
}

impl Column {
    fn new(name: String, ty: CqlType, index: Option<u16>) -> Self {
        Self { fixed_len: ty.fixed_len(), is_multi_cell: ty.is_multi_cell(), name, ty, index, hidden_us: i64::MIN }
    }

    /// Columns of several cells stand behind all others, both by name: `ColumnMetadata.comparisonOrder`.
    fn order(&self, other: &Column) -> std::cmp::Ordering {
        (self.is_multi_cell, &self.name).cmp(&(other.is_multi_cell, &other.name))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub stats: EncodingStats,
    /// Marshal class names.
    key_type: String,
    clustering_types: Vec<String>,
    pub clustering: Vec<CqlType>,
    pub statics: Vec<Column>,
    pub regulars: Vec<Column>,
    /// Where a column of the table's definition stands in `statics` and `regulars`; beyond their end when it does not.
    pub static_places: Vec<u16>,
    pub regular_places: Vec<u16>,
}

fn places(columns: &[Column], known: &[ColumnDef]) -> Vec<u16> {
    let place = |index: u16| columns.iter().position(|column| column.index == Some(index));
    (0..known.len() as u16).map(|index| place(index).map_or(u16::MAX, |place| place as u16)).collect()
}

fn key_type(table: &TableDef) -> String {
    match &*table.partition_key {
        [one] => one.ty.marshal_name(false),
        many => {
            let names: Vec<_> = many.iter().map(|column| column.ty.marshal_name(false)).collect();
            format!("org.apache.cassandra.db.marshal.CompositeType({})", names.join(","))
        }
    }
}

impl Header {
    pub fn of(table: &TableDef, stats: EncodingStats) -> Self {
        let columns = |columns: &[ColumnDef]| {
            let numbered = (0u16..).zip(columns);
            let column =
                |(index, column): (u16, &ColumnDef)| Column::new(column.name.clone(), column.ty.clone(), Some(index));
            let mut list: Vec<Column> = numbered.map(column).collect();
            list.sort_by(Column::order);
            list
        };
        let (statics, regulars) = (columns(&table.statics), columns(&table.regulars));
        Self {
            stats: stats.or_epoch(),
            key_type: key_type(table),
            clustering_types: table.clustering.iter().map(|c| c.ty.marshal_name(c.descending)).collect(),
            clustering: table.clustering.iter().map(|column| column.ty.clone()).collect(),
            static_places: places(&statics, &table.statics),
            regular_places: places(&regulars, &table.regulars),
            statics,
            regulars,
        }
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        vint::write_unsigned(self.stats.min_timestamp.wrapping_sub(EPOCH_US) as u64, out);
        vint::write_unsigned(u64::from(self.stats.min_local_deletion_s - EPOCH_S), out);
        vint::write_unsigned(u64::from(self.stats.min_ttl_s), out);
        write_string(&self.key_type, out);
        vint::write_unsigned(self.clustering_types.len() as u64, out);
        self.clustering_types.iter().for_each(|name| write_string(name, out));
        for columns in [&self.statics, &self.regulars] {
            vint::write_unsigned(columns.len() as u64, out);
            for column in columns {
                write_string(&column.name, out);
                write_string(&column.ty.marshal_name(false), out);
            }
        }
    }

    pub fn read(bytes: &[u8], table: &TableDef) -> Result<Self, String> {
        let mut reader = Reader::new(bytes);
        let header = Self::read_from(&mut reader, table)?;
        if !reader.rest.is_empty() {
            return Err("bytes left over behind the serialization header".into());
        }
        Ok(header)
    }

    fn read_from(reader: &mut Reader<'_>, table: &TableDef) -> Result<Self, String> {
        let text = |error: Malformed| format!("serialization header: {error}");
        let narrow =
            |value: u64| u32::try_from(value).map_err(|_| "serialization header: a time too large".to_string());
        let stats = EncodingStats {
            min_timestamp: EPOCH_US.wrapping_add(reader.vint("timestamp").map_err(text)? as i64),
            min_local_deletion_s: EPOCH_S.wrapping_add(narrow(reader.vint("deletion time").map_err(text)?)?),
            min_ttl_s: narrow(reader.vint("time to live").map_err(text)?)?,
        };
        let found = read_string(reader)?;
        if found != key_type(table) {
            return Err(format!("its partition key is {found}, the table's is {}", key_type(table)));
        }
        let count = reader.vint("clustering types").map_err(text)?;
        if count != table.clustering.len() as u64 {
            return Err(format!("it has {count} clustering columns, the table {}", table.clustering.len()));
        }
        let mut clustering_types = Vec::new();
        for column in &table.clustering {
            let found = read_string(reader)?;
            let wanted = column.ty.marshal_name(column.descending);
            if found != wanted {
                return Err(format!("clustering column {} is {found}, the table's is {wanted}", column.name));
            }
            clustering_types.push(found);
        }
        let mut lists = [Vec::new(), Vec::new()];
        for (list, known) in lists.iter_mut().zip([&table.statics, &table.regulars]) {
            for _ in 0..reader.vint("columns").map_err(text)? {
                let name = read_string(reader)?;
                let class = read_string(reader)?;
                let (ty, _) = CqlType::from_marshal_name(&class).map_err(|error| format!("column {name}: {error}"))?;
                let index = known.iter().position(|column| column.name == name);
                if let Some(index) = index
                    && !known[index].ty.reads_values_of(&ty)
                {
                    return Err(format!("column {name} is {class}, the table's is {}", known[index].ty));
                }
                let hidden_us = table.dropped.get(&name).map_or(i64::MIN, |dropped| dropped.dropped_us);
                list.push(Column { hidden_us, ..Column::new(name, ty, index.map(|index| index as u16)) });
            }
            // As `Columns.Builder` does, whatever the order of the names.
            list.sort_by(Column::order);
        }
        let [statics, regulars] = lists;
        Ok(Self {
            stats,
            key_type: found,
            clustering_types,
            clustering: table.clustering.iter().map(|column| column.ty.clone()).collect(),
            static_places: places(&statics, &table.statics),
            regular_places: places(&regulars, &table.regulars),
            statics,
            regulars,
        })
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    vint::write_unsigned(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

fn read_string(reader: &mut Reader<'_>) -> Result<String, String> {
    let bytes = reader.string("name").map_err(|error| format!("serialization header: {error}"))?;
    String::from_utf8(bytes.to_vec()).map_err(|_| "serialization header: a name that is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let table = TableDef::builder("k", "t")
            .partition_key("a", CqlType::Int)
            .partition_key("b", CqlType::Text)
            .clustering_ordered("c", CqlType::Int, true)
            .static_column("s", CqlType::Text)
            .regular("v", CqlType::list(CqlType::Int))
            .regular("w", CqlType::Blob)
            .regular("x", CqlType::list(CqlType::Int).frozen())
            .build();
        let stats = EncodingStats { min_timestamp: -7, min_local_deletion_s: 1_600_000_000, min_ttl_s: 60 };
        let header = Header::of(&table, stats);
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        assert_eq!(Header::read(&bytes, &table).unwrap(), header);
        assert!(Header::read(&bytes[..bytes.len() - 1], &table).is_err());

        let names = |header: &Header| header.regulars.iter().map(|c| c.name.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&header), "w x v", "columns of several cells stand behind the others");
        assert_eq!(header.regular_places, [2, 0, 1]);

        // A column that the table has no more, and one that it has got since.
        let mut altered = table.clone();
        altered.regulars.remove(0);
        altered.regulars.insert(0, types::ColumnDef { name: "n".into(), ..altered.regulars[0].clone() });
        let read = Header::read(&bytes, &altered).unwrap();
        let indices: Vec<_> = read.regulars.iter().map(|c| c.index).collect();
        assert_eq!(indices, [Some(1), Some(2), None]);
        assert_eq!(read.regular_places, [u16::MAX, 0, 1]);

        // One that is of another type now.
        let mut altered = table.clone();
        altered.regulars[0].ty = CqlType::list(CqlType::Int).frozen();
        assert!(Header::read(&bytes, &altered).unwrap_err().contains("column v is"));
    }
}
