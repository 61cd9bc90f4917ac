//! The types of CQL: names, binary forms, order.

use std::sync::Arc;

/// A CQL type. Scalars first. Values of the compound forms are handled in one piece here, whatever is frozen; what a
/// column of several cells is made of is in `multi_cell`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CqlType {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    SmallInt,
    Text,
    Time,
    Timestamp,
    TimeUuid,
    TinyInt,
    Uuid,
    VarInt,
    List(Box<CqlType>),
    Set(Box<CqlType>),
    Map(Box<CqlType>, Box<CqlType>),
    Tuple(Vec<CqlType>),
    Udt(Arc<UserType>),
    /// A fixed number of elements, none of them null.
    Vector(Box<CqlType>, u32),
    Frozen(Box<CqlType>),
}

/// A type that a user has named. Fields stay in the order of their definition: values and cell paths go by position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserType {
    pub keyspace: String,
    pub name: String,
    pub fields: Vec<(String, CqlType)>,
}

impl UserType {
    pub fn field_index(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(field, _)| field == name)
    }

    pub fn field_types(&self) -> impl Iterator<Item = &CqlType> {
        self.fields.iter().map(|(_, ty)| ty)
    }
}

impl CqlType {
    pub fn list(element: CqlType) -> CqlType {
        CqlType::List(Box::new(element))
    }

    pub fn set(element: CqlType) -> CqlType {
        CqlType::Set(Box::new(element))
    }

    pub fn map(key: CqlType, value: CqlType) -> CqlType {
        CqlType::Map(Box::new(key), Box::new(value))
    }

    pub fn vector(element: CqlType, dimension: u32) -> CqlType {
        CqlType::Vector(Box::new(element), dimension)
    }

    pub fn frozen(self) -> CqlType {
        match self {
            // A tuple has one cell anyway.
            CqlType::Frozen(_) | CqlType::Tuple(_) => self,
            other => CqlType::Frozen(Box::new(other)),
        }
    }

    /// The type without an outer `frozen<..>`, which changes neither bytes nor order.
    pub fn unfrozen(&self) -> &CqlType {
        match self {
            CqlType::Frozen(inner) => inner.unfrozen(),
            other => other,
        }
    }

    pub fn is_collection(&self) -> bool {
        matches!(self.unfrozen(), CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..))
    }

    /// A list, set, map or user type that is not frozen: it is stored as one cell per element.
    #[inline]
    pub fn is_multi_cell(&self) -> bool {
        matches!(self, CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) | CqlType::Udt(_))
    }

    #[inline]
    pub fn is_counter(&self) -> bool {
        matches!(self, CqlType::Counter)
    }

    /// Whether a partition or clustering key may have it, by order alone.
    pub fn is_comparable(&self) -> bool {
        match self.unfrozen() {
            CqlType::Duration | CqlType::Counter => false,
            CqlType::List(e) | CqlType::Set(e) => e.is_comparable(),
            CqlType::Map(k, v) => k.is_comparable() && v.is_comparable(),
            CqlType::Tuple(fields) => fields.iter().all(CqlType::is_comparable),
            CqlType::Udt(udt) => udt.field_types().all(CqlType::is_comparable),
            CqlType::Vector(element, _) => element.is_comparable(),
            _ => true,
        }
    }

    /// Length of every value where SSTables leave lengths out: Cassandra's `valueLengthIfFixed`. `date`, `time`,
    /// `smallint` and `tinyint` have one length too, but their classes do not override that method, so their
    /// cells carry a length.
    #[inline]
    pub fn fixed_len(&self) -> Option<usize> {
        match self {
            CqlType::Boolean => Some(1),
            CqlType::Int | CqlType::Float => Some(4),
            CqlType::BigInt | CqlType::Double | CqlType::Timestamp => Some(8),
            CqlType::Uuid | CqlType::TimeUuid => Some(16),
            CqlType::Vector(..) | CqlType::Frozen(_) => self.compound_fixed_len(),
            _ => None,
        }
    }

    /// Apart, so that the length of scalars, which is asked for each cell, needs no call.
    fn compound_fixed_len(&self) -> Option<usize> {
        match self {
            CqlType::Vector(element, dimension) => element.fixed_len()?.checked_mul(*dimension as usize),
            CqlType::Frozen(inner) => inner.fixed_len(),
            _ => None,
        }
    }

    /// The `[option]` id of the native protocol, v4 specification section 4.2.5.2. `duration` has its id in v5
    /// only: in v4 it goes as a custom type (0) with its marshal class, as Cassandra does for older clients. Vectors
    /// have none in any version.
    pub fn option_id(&self) -> u16 {
        match self.unfrozen() {
            CqlType::Duration | CqlType::Vector(..) => 0x00,
            CqlType::Ascii => 0x01,
            CqlType::BigInt => 0x02,
            CqlType::Blob => 0x03,
            CqlType::Boolean => 0x04,
            CqlType::Counter => 0x05,
            CqlType::Decimal => 0x06,
            CqlType::Double => 0x07,
            CqlType::Float => 0x08,
            CqlType::Int => 0x09,
            CqlType::Timestamp => 0x0B,
            CqlType::Uuid => 0x0C,
            CqlType::Text => 0x0D,
            CqlType::VarInt => 0x0E,
            CqlType::TimeUuid => 0x0F,
            CqlType::Inet => 0x10,
            CqlType::Date => 0x11,
            CqlType::Time => 0x12,
            CqlType::SmallInt => 0x13,
            CqlType::TinyInt => 0x14,
            CqlType::List(_) => 0x20,
            CqlType::Map(..) => 0x21,
            CqlType::Set(_) => 0x22,
            CqlType::Udt(_) => 0x30,
            CqlType::Tuple(_) => 0x31,
            CqlType::Frozen(_) => unreachable!("unfrozen() strips it"),
        }
    }

    /// The scalar with this protocol id; collections and tuples have parameters and are read by the protocol.
    pub fn scalar_from_option_id(id: u16) -> Option<CqlType> {
        Some(match id {
            0x01 => CqlType::Ascii,
            0x02 => CqlType::BigInt,
            0x03 => CqlType::Blob,
            0x04 => CqlType::Boolean,
            0x05 => CqlType::Counter,
            0x06 => CqlType::Decimal,
            0x07 => CqlType::Double,
            0x08 => CqlType::Float,
            0x09 => CqlType::Int,
            0x0B => CqlType::Timestamp,
            0x0C => CqlType::Uuid,
            // 0x0A was `text` in v1 and v2; drivers still know it.
            0x0A | 0x0D => CqlType::Text,
            0x0E => CqlType::VarInt,
            0x0F => CqlType::TimeUuid,
            0x10 => CqlType::Inet,
            0x11 => CqlType::Date,
            0x12 => CqlType::Time,
            0x13 => CqlType::SmallInt,
            0x14 => CqlType::TinyInt,
            0x15 => CqlType::Duration,
            _ => return None,
        })
    }

    /// Every scalar, for tests and tables of functions.
    pub const SCALARS: [CqlType; 20] = [
        CqlType::Ascii,
        CqlType::BigInt,
        CqlType::Blob,
        CqlType::Boolean,
        CqlType::Counter,
        CqlType::Date,
        CqlType::Decimal,
        CqlType::Double,
        CqlType::Duration,
        CqlType::Float,
        CqlType::Inet,
        CqlType::Int,
        CqlType::SmallInt,
        CqlType::Text,
        CqlType::Time,
        CqlType::Timestamp,
        CqlType::TimeUuid,
        CqlType::TinyInt,
        CqlType::Uuid,
        CqlType::VarInt,
    ];
}
