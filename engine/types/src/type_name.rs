//! Types by name: as CQL writes them (`frozen<map<text, int>>`) and as Cassandra's classes name them in SSTables
//! and in the protocol (`org.apache.cassandra.db.marshal.MapType(...)`).

use std::fmt;

use crate::{CqlType, Error};

const MARSHAL_PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Types nested deeper than this are refused, so that parsing a hostile name cannot exhaust the stack.
const DEPTH_MAX: u32 = 32;

/// CQL name and marshal class of each scalar.
const SCALAR_NAMES: [(CqlType, &str, &str); 20] = [
    (CqlType::Ascii, "ascii", "AsciiType"),
    (CqlType::BigInt, "bigint", "LongType"),
    (CqlType::Blob, "blob", "BytesType"),
    (CqlType::Boolean, "boolean", "BooleanType"),
    (CqlType::Counter, "counter", "CounterColumnType"),
    (CqlType::Date, "date", "SimpleDateType"),
    (CqlType::Decimal, "decimal", "DecimalType"),
    (CqlType::Double, "double", "DoubleType"),
    (CqlType::Duration, "duration", "DurationType"),
    (CqlType::Float, "float", "FloatType"),
    (CqlType::Inet, "inet", "InetAddressType"),
    (CqlType::Int, "int", "Int32Type"),
    (CqlType::SmallInt, "smallint", "ShortType"),
    (CqlType::Text, "text", "UTF8Type"),
    (CqlType::Time, "time", "TimeType"),
    (CqlType::Timestamp, "timestamp", "TimestampType"),
    (CqlType::TimeUuid, "timeuuid", "TimeUUIDType"),
    (CqlType::TinyInt, "tinyint", "ByteType"),
    (CqlType::Uuid, "uuid", "UUIDType"),
    (CqlType::VarInt, "varint", "IntegerType"),
];

impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CqlType::List(element) => write!(f, "list<{element}>"),
            CqlType::Set(element) => write!(f, "set<{element}>"),
            CqlType::Map(key, value) => write!(f, "map<{key}, {value}>"),
            CqlType::Frozen(inner) => write!(f, "frozen<{inner}>"),
            CqlType::Tuple(fields) => {
                f.write_str("tuple<")?;
                for (at, field) in fields.iter().enumerate() {
                    write!(f, "{}{field}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str(">")
            }
            scalar => f.write_str(scalar_names(scalar).0),
        }
    }
}

fn scalar_names(ty: &CqlType) -> (&'static str, &'static str) {
    let row = SCALAR_NAMES.iter().find(|row| row.0 == *ty).expect("every scalar is in the table");
    (row.1, row.2)
}

impl std::str::FromStr for CqlType {
    type Err = Error;

    fn from_str(text: &str) -> Result<CqlType, Error> {
        CqlType::parse(text)
    }
}

impl CqlType {
    /// A native type by its CQL name, in any case; `varchar` is `text`.
    pub fn scalar_from_name(name: &str) -> Option<CqlType> {
        if name.eq_ignore_ascii_case("varchar") {
            return Some(CqlType::Text);
        }
        SCALAR_NAMES.iter().find(|row| row.1.eq_ignore_ascii_case(name)).map(|row| row.0.clone())
    }

    /// The form that `Display` writes; case and spaces do not matter.
    pub fn parse(text: &str) -> Result<CqlType, Error> {
        let mut names = Names { rest: text, whole: text, open: '<', close: '>' };
        let ty = names.cql(DEPTH_MAX)?;
        names.end()?;
        Ok(ty)
    }

    /// The class name that Cassandra writes, reversed for a descending clustering column.
    pub fn marshal_name(&self, reversed: bool) -> String {
        let mut out = String::new();
        if reversed {
            out.push_str(MARSHAL_PACKAGE);
            out.push_str("ReversedType(");
        }
        self.write_marshal(&mut out);
        if reversed {
            out.push(')');
        }
        out
    }

    fn write_marshal(&self, out: &mut String) {
        // Tuples are frozen by nature and have no FrozenType around them.
        if let CqlType::Frozen(inner) = self
            && !matches!(inner.unfrozen(), CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..))
        {
            return inner.write_marshal(out);
        }
        out.push_str(MARSHAL_PACKAGE);
        let mut with = |class: &str, parameters: &[&CqlType]| {
            out.push_str(class);
            for (at, parameter) in parameters.iter().enumerate() {
                out.push(if at == 0 { '(' } else { ',' });
                parameter.write_marshal(out);
            }
            out.push(')');
        };
        match self {
            CqlType::List(element) => with("ListType", &[element]),
            CqlType::Set(element) => with("SetType", &[element]),
            CqlType::Map(key, value) => with("MapType", &[key, value]),
            CqlType::Tuple(fields) => with("TupleType", &fields.iter().collect::<Vec<_>>()),
            CqlType::Frozen(inner) => with("FrozenType", &[inner]),
            scalar => out.push_str(scalar_names(scalar).1),
        }
    }

    /// Reads a class name, with or without its package. The flag says whether it was a `ReversedType`.
    pub fn from_marshal_name(text: &str) -> Result<(CqlType, bool), Error> {
        let mut names = Names { rest: text, whole: text, open: '(', close: ')' };
        let name = names.marshal_name();
        let result = if name == "ReversedType" {
            names.expect('(')?;
            let ty = names.marshal(DEPTH_MAX)?;
            names.expect(')')?;
            (ty, true)
        } else {
            (names.marshal_after(name, DEPTH_MAX)?, false)
        };
        names.end()?;
        Ok(result)
    }
}

/// A cursor over a type's name in either notation.
struct Names<'a> {
    rest: &'a str,
    whole: &'a str,
    open: char,
    close: char,
}

impl<'a> Names<'a> {
    fn word(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        let len =
            self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest;
        word
    }

    fn take(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: char) -> Result<(), Error> {
        if self.take(wanted) { Ok(()) } else { Err(self.error()) }
    }

    fn end(&mut self) -> Result<(), Error> {
        if self.rest.trim().is_empty() { Ok(()) } else { Err(self.error()) }
    }

    fn error(&self) -> Error {
        Error::TypeName(format!("Cannot parse type {}", self.whole))
    }

    fn parameters(&mut self, one: impl Fn(&mut Self) -> Result<CqlType, Error>) -> Result<Vec<CqlType>, Error> {
        self.expect(self.open)?;
        let mut list = vec![one(self)?];
        while self.take(',') {
            list.push(one(self)?);
        }
        self.expect(self.close)?;
        Ok(list)
    }

    fn cql(&mut self, depth: u32) -> Result<CqlType, Error> {
        if depth == 0 {
            return Err(self.error());
        }
        let word = self.word();
        if let Some(scalar) = CqlType::scalar_from_name(word) {
            return Ok(scalar);
        }
        let class = match word.to_ascii_lowercase().as_str() {
            "list" => "ListType",
            "set" => "SetType",
            "map" => "MapType",
            "tuple" => "TupleType",
            "frozen" => "FrozenType",
            _ => return Err(Error::TypeName(format!("Unknown type {word}"))),
        };
        let parameters = self.parameters(|names| names.cql(depth - 1))?;
        compound(class, parameters).ok_or_else(|| self.error())
    }

    fn marshal_name(&mut self) -> &'a str {
        let word = self.word();
        word.strip_prefix(MARSHAL_PACKAGE).unwrap_or(word)
    }

    fn marshal(&mut self, depth: u32) -> Result<CqlType, Error> {
        let name = self.marshal_name();
        self.marshal_after(name, depth)
    }

    fn marshal_after(&mut self, name: &str, depth: u32) -> Result<CqlType, Error> {
        if depth == 0 {
            return Err(self.error());
        }
        // DateType was `timestamp` before Cassandra 2.0 and LexicalUUIDType an older order of `uuid`.
        if name == "DateType" {
            return Ok(CqlType::Timestamp);
        }
        if let Some(row) = SCALAR_NAMES.iter().find(|row| row.2 == name) {
            return Ok(row.0.clone());
        }
        if !matches!(name, "ListType" | "SetType" | "MapType" | "TupleType" | "FrozenType") {
            return Err(Error::TypeName(format!("Unable to find abstract-type class '{MARSHAL_PACKAGE}{name}'")));
        }
        let parameters = self.parameters(|names| names.marshal(depth - 1))?;
        compound(name, parameters).ok_or_else(|| self.error())
    }
}

fn compound(class: &str, parameters: Vec<CqlType>) -> Option<CqlType> {
    if class == "TupleType" {
        return Some(CqlType::Tuple(parameters));
    }
    let mut parameters = parameters.into_iter();
    let first = parameters.next()?;
    let second = parameters.next();
    if parameters.next().is_some() {
        return None;
    }
    Some(match (class, second) {
        ("ListType", None) => CqlType::list(first),
        ("SetType", None) => CqlType::set(first),
        ("MapType", Some(value)) => CqlType::map(first, value),
        ("FrozenType", None) => first.frozen(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cql_names_round_trip() {
        for scalar in CqlType::SCALARS {
            assert_eq!(CqlType::parse(&scalar.to_string()), Ok(scalar));
        }
        let check = |text: &str, canonical: &str| {
            let ty = CqlType::parse(text).unwrap();
            assert_eq!(ty.to_string(), canonical);
            assert_eq!(CqlType::parse(canonical), Ok(ty));
        };
        check("frozen<map<text, int>>", "frozen<map<text, int>>");
        check(" MAP < varchar,list<Frozen<set<UUID>>> >", "map<text, list<frozen<set<uuid>>>>");
        check("tuple<int,tuple<int>,blob>", "tuple<int, tuple<int>, blob>");
        for bad in ["", "list", "list<>", "map<int>", "int>", "list<int", "wat", "set<int, int>", "int int"] {
            assert!(CqlType::parse(bad).is_err(), "{bad}");
        }
        assert!(CqlType::parse(&("list<".repeat(10_000) + "int" + &">".repeat(10_000))).is_err());
    }

    #[test]
    fn marshal_names_round_trip() {
        let check = |cql: &str, reversed: bool, expect: &str| {
            let ty = CqlType::parse(cql).unwrap();
            let expect = expect.replace('@', MARSHAL_PACKAGE);
            assert_eq!(ty.marshal_name(reversed), expect);
            assert_eq!(CqlType::from_marshal_name(&expect), Ok((ty, reversed)));
        };
        check("int", false, "@Int32Type");
        check("timeuuid", true, "@ReversedType(@TimeUUIDType)");
        check("list<text>", false, "@ListType(@UTF8Type)");
        check("frozen<map<text, bigint>>", false, "@FrozenType(@MapType(@UTF8Type,@LongType))");
        check("tuple<int, date>", false, "@TupleType(@Int32Type,@SimpleDateType)");
        assert_eq!(CqlType::from_marshal_name("UTF8Type"), Ok((CqlType::Text, false)));
        assert!(CqlType::from_marshal_name("FooType").is_err());
        assert!(CqlType::from_marshal_name("ListType(UTF8Type").is_err());
    }

    #[test]
    fn protocol_ids_round_trip() {
        for scalar in CqlType::SCALARS {
            let id = if scalar == CqlType::Duration { 0x15 } else { scalar.option_id() };
            assert_eq!(CqlType::scalar_from_option_id(id), Some(scalar));
        }
    }
}
