//! Types by name: as CQL writes them (`frozen<map<text, int>>`) and as Cassandra's classes name them in SSTables
//! and in the protocol (`org.apache.cassandra.db.marshal.MapType(...)`).

use std::fmt;
use std::sync::Arc;

use crate::validate::hex;
use crate::{CqlType, Error, UserType, quote_identifier};

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
            CqlType::Udt(udt) => f.write_str(&quote_identifier(&udt.name)),
            CqlType::Vector(element, dimension) => write!(f, "vector<{element}, {dimension}>"),
            CqlType::Tuple(fields) => {
                f.write_str("frozen<tuple<")?;
                for (at, field) in fields.iter().enumerate() {
                    write!(f, "{}{field}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str(">>")
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

    /// The form that `Display` writes; case and spaces do not matter. User types are unknown.
    pub fn parse(text: &str) -> Result<CqlType, Error> {
        CqlType::parse_with(text, &|_, _| None)
    }

    /// As [`CqlType::parse`], with the user types that `known` finds by keyspace, when one is written, and name.
    pub fn parse_with(text: &str, known: &UserTypes<'_>) -> Result<CqlType, Error> {
        let mut names = Names { rest: text, whole: text, open: '<', close: '>' };
        let ty = names.cql(DEPTH_MAX, known)?;
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
        self.write_marshal(false, &mut out);
        if reversed {
            out.push(')');
        }
        out
    }

    /// `inside_frozen`: there, everything is frozen without saying so, as `AbstractType.toString(ignoreFreezing)`.
    fn write_marshal(&self, inside_frozen: bool, out: &mut String) {
        if let CqlType::Frozen(inner) = self {
            // Only what could be in several cells has a FrozenType around it: tuples are frozen by nature.
            let says_so = inner.unfrozen().is_multi_cell();
            if inside_frozen || !says_so {
                return inner.write_marshal(inside_frozen || says_so, out);
            }
            out.push_str(MARSHAL_PACKAGE);
            out.push_str("FrozenType(");
            inner.write_marshal(true, out);
            return out.push(')');
        }
        out.push_str(MARSHAL_PACKAGE);
        let mut with = |class: &str, parameters: &mut dyn Iterator<Item = &CqlType>, inside_frozen: bool| {
            out.push_str(class);
            for (at, parameter) in parameters.enumerate() {
                out.push(if at == 0 { '(' } else { ',' });
                parameter.write_marshal(inside_frozen, out);
            }
            out.push(')');
        };
        match self {
            CqlType::List(element) => with("ListType", &mut [&**element].into_iter(), inside_frozen),
            CqlType::Set(element) => with("SetType", &mut [&**element].into_iter(), inside_frozen),
            CqlType::Map(key, value) => with("MapType", &mut [&**key, &**value].into_iter(), inside_frozen),
            CqlType::Tuple(fields) => with("TupleType", &mut fields.iter(), true),
            CqlType::Udt(udt) => {
                out.push_str("UserType(");
                out.push_str(&udt.keyspace);
                out.push(',');
                out.push_str(&hex(udt.name.as_bytes()));
                for (name, ty) in &udt.fields {
                    out.push(',');
                    out.push_str(&hex(name.as_bytes()));
                    out.push(':');
                    ty.write_marshal(inside_frozen, out);
                }
                out.push(')');
            }
            CqlType::Vector(element, dimension) => {
                out.push_str("VectorType(");
                element.write_marshal(inside_frozen, out);
                // The spaces are `TypeParser.stringifyVectorParameters`'s.
                out.push_str(&format!(" , {dimension})"));
            }
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

/// Finds a user type by keyspace, when one is written, and name.
pub type UserTypes<'a> = dyn Fn(Option<&str>, &str) -> Option<Arc<UserType>> + 'a;

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

    fn cql(&mut self, depth: u32, known: &UserTypes<'_>) -> Result<CqlType, Error> {
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
            "vector" => {
                self.expect(self.open)?;
                let element = self.cql(depth - 1, known)?;
                return self.dimension_of(element);
            }
            _ => return self.user_type(word, known),
        };
        let parameters = self.parameters(|names| names.cql(depth - 1, known))?;
        compound(class, parameters).ok_or_else(|| self.error())
    }

    /// A name, bare or in double quotes, behind a keyspace or not. What [`Names::word`] took of it is `word`.
    fn user_type(&mut self, word: &'a str, known: &UserTypes<'_>) -> Result<CqlType, Error> {
        let mut parts = Vec::new();
        let mut bare = word.split('.');
        let last = bare.next_back().unwrap_or_default();
        parts.extend(bare.map(str::to_ascii_lowercase));
        parts.push(if last.is_empty() { self.quoted()? } else { last.to_ascii_lowercase() });
        if self.rest.starts_with('.') && word.is_empty() {
            self.rest = &self.rest[1..];
            let word = self.word();
            parts.push(if word.is_empty() { self.quoted()? } else { word.to_ascii_lowercase() });
        }
        let found = match &*parts {
            [name] => known(None, name),
            [keyspace, name] => known(Some(keyspace), name),
            _ => None,
        };
        found.map(CqlType::Udt).ok_or_else(|| Error::TypeName(format!("Unknown type {}", parts.join("."))))
    }

    /// A name in double quotes, which stand for themselves when doubled.
    fn quoted(&mut self) -> Result<String, Error> {
        let mut name = String::new();
        let mut rest = self.rest.strip_prefix('"').ok_or_else(|| self.error())?;
        loop {
            let (part, behind) = rest.split_once('"').ok_or_else(|| self.error())?;
            name.push_str(part);
            match behind.strip_prefix('"') {
                Some(behind) => {
                    name.push('"');
                    rest = behind;
                }
                None => {
                    self.rest = behind;
                    return Ok(name);
                }
            }
        }
    }

    /// After a vector's element type.
    fn dimension_of(&mut self, element: CqlType) -> Result<CqlType, Error> {
        self.expect(',')?;
        let dimension = self.word().parse().map_err(|_| self.error())?;
        self.expect(self.close)?;
        if dimension == 0 { Err(self.error()) } else { Ok(CqlType::vector(element, dimension)) }
    }

    /// After `UserType`: keyspace, name and fields, names in hexadecimal.
    fn marshal_user_type(&mut self, depth: u32) -> Result<CqlType, Error> {
        self.expect('(')?;
        let keyspace = self.word().to_string();
        self.expect(',')?;
        let name = self.hex_name()?;
        let mut fields = Vec::new();
        while self.take(',') {
            let field = self.hex_name()?;
            self.expect(':')?;
            fields.push((field, self.marshal(depth - 1)?));
        }
        self.expect(')')?;
        Ok(CqlType::Udt(Arc::new(UserType { keyspace, name, fields })))
    }

    fn hex_name(&mut self) -> Result<String, Error> {
        let bytes = CqlType::Blob.from_text(self.word()).map_err(|_| self.error())?;
        String::from_utf8(bytes).map_err(|_| self.error())
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
        match name {
            "UserType" => return self.marshal_user_type(depth),
            "VectorType" => {
                self.expect('(')?;
                let element = self.marshal(depth - 1)?;
                return self.dimension_of(element);
            }
            _ => {}
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
        check("tuple<int,tuple<int>,blob>", "frozen<tuple<int, frozen<tuple<int>>, blob>>");
        check("Vector<float,3>", "vector<float, 3>");
        for bad in [
            "vector<int>",
            "vector<int, 0>",
            "vector<int, x>",
            "vector<int, 3",
            "\"a",
            "a.b.c",
            "a.\"b",
            "",
            "list",
            "list<>",
            "map<int>",
            "int>",
            "list<int",
            "wat",
            "set<int, int>",
            "int int",
        ] {
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
        check("counter", false, "@CounterColumnType");
        check("vector<float, 3>", false, "@VectorType(@FloatType , 3)");
        check("list<frozen<set<int>>>", true, "@ReversedType(@ListType(@FrozenType(@SetType(@Int32Type))))");
        assert_eq!(CqlType::from_marshal_name("UTF8Type"), Ok((CqlType::Text, false)));
        assert!(CqlType::from_marshal_name("FooType").is_err());
        assert!(CqlType::from_marshal_name("ListType(UTF8Type").is_err());
    }

    #[test]
    fn freezing_is_said_once_in_marshal_names() {
        let name = |cql: &str| CqlType::parse(cql).unwrap().marshal_name(false).replace(MARSHAL_PACKAGE, "@");
        assert_eq!(name("frozen<list<frozen<list<int>>>>"), "@FrozenType(@ListType(@ListType(@Int32Type)))");
        assert_eq!(name("tuple<frozen<list<int>>, int>"), "@TupleType(@ListType(@Int32Type),@Int32Type)");
        assert_eq!(name("frozen<tuple<frozen<list<int>>>>"), "@TupleType(@ListType(@Int32Type))");
        assert_eq!(name("map<int, frozen<map<int, frozen<set<int>>>>>"), {
            "@MapType(@Int32Type,@FrozenType(@MapType(@Int32Type,@SetType(@Int32Type))))"
        });
    }

    #[test]
    fn user_types() {
        let fields =
            vec![("street".to_string(), CqlType::Text), ("phones".to_string(), CqlType::set(CqlType::Text).frozen())];
        let address = UserType { keyspace: "ks".into(), name: "Address".into(), fields };
        let known = |keyspace: Option<&str>, name: &str| {
            let found = keyspace.is_none_or(|keyspace| keyspace == "ks") && name == "Address";
            found.then(|| Arc::new(address.clone()))
        };
        // The field's own freezing is said where the type itself is not frozen.
        let check = |cql: &str, canonical: &str, marshal: &str| {
            let ty = CqlType::parse_with(cql, &known).unwrap();
            assert_eq!(ty.to_string(), canonical);
            assert_eq!(CqlType::parse_with(canonical, &known), Ok(ty.clone()));
            let user = |phones| format!("@UserType(ks,41646472657373,737472656574:@UTF8Type,70686f6e6573:{phones})");
            let marshal = marshal.replace("USER", &user("@FrozenType(@SetType(@UTF8Type))"));
            let marshal = marshal.replace("INNER", &user("@SetType(@UTF8Type)")).replace('@', MARSHAL_PACKAGE);
            assert_eq!(ty.marshal_name(false), marshal);
            assert_eq!(CqlType::from_marshal_name(&marshal).unwrap().0.marshal_name(false), marshal);
        };
        check("\"Address\"", "\"Address\"", "USER");
        check("ks.\"Address\"", "\"Address\"", "USER");
        check("\"ks\".\"Address\"", "\"Address\"", "USER");
        check("frozen<\"Address\">", "frozen<\"Address\">", "@FrozenType(INNER)");
        check(
            "map<int, frozen<ks.\"Address\">>",
            "map<int, frozen<\"Address\">>",
            "@MapType(@Int32Type,@FrozenType(INNER))",
        );
        for bad in ["address", "other.\"Address\"", "\"Address", "ks.", "ks.\"Address"] {
            assert!(CqlType::parse_with(bad, &known).is_err(), "{bad}");
        }
        for bad in [
            "UserType",
            "UserType(ks",
            "UserType(ks,zz)",
            "UserType(ks,6)",
            "UserType(ks,61,62)",
            "VectorType(Int32Type)",
        ] {
            assert!(CqlType::from_marshal_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn protocol_ids_round_trip() {
        for scalar in CqlType::SCALARS {
            let id = if scalar == CqlType::Duration { 0x15 } else { scalar.option_id() };
            assert_eq!(CqlType::scalar_from_option_id(id), Some(scalar));
        }
    }
}
