//! Values as JSON and back, as `toJson`, `fromJson`, `SELECT JSON` and `INSERT JSON` want them: Cassandra's
//! `AbstractType.toJSONString` and `fromJSONObject`.
//!
//! Numbers are numbers of any length, 64-bit and decimal ones included; times, UUIDs, addresses and blobs (`"0x.."`)
//! are strings. Keys of maps are strings that hold the JSON of the key.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use num_bigint::BigInt;

use crate::decimal::{decimal_from_text, decimal_parts};
use crate::error::{Error, marshal};
use crate::{CqlType, calendar, collection};

impl CqlType {
    /// The JSON of a value; an empty value of a type that has none is null.
    pub fn to_json(&self, bytes: &[u8]) -> Result<String, Error> {
        use CqlType::*;
        self.validate(bytes)?;
        if bytes.is_empty() && !matches!(self.unfrozen(), Text | Ascii | Blob) {
            return Ok("null".to_string());
        }
        let nullable =
            |ty: &CqlType, value: Option<&[u8]>| value.map_or(Ok("null".to_string()), |value| ty.to_json(value));
        Ok(match self.unfrozen() {
            Text | Ascii => json_string(&String::from_utf8_lossy(bytes)),
            Float | Double if !is_finite(bytes) => "null".to_string(),
            Boolean | TinyInt | SmallInt | Int | BigInt | Counter | Float | Double | VarInt | Decimal => {
                self.to_cql_literal(bytes)?
            }
            Timestamp => {
                let ms = bytes.try_into().map(i64::from_be_bytes).map_err(|_| marshal("eight bytes wanted"))?;
                // `yyyy-MM-dd HH:mm:ss.SSSZ`, where the literal has a T.
                json_string(&calendar::timestamp_to_text(ms).replace('T', " "))
            }
            List(element) | Set(element) => {
                let items = collection::elements(bytes)?.into_iter().map(|item| nullable(element, item));
                format!("[{}]", items.collect::<Result<Vec<_>, _>>()?.join(", "))
            }
            Map(key, value) => {
                let entry = |(k, v)| Ok(format!("{}: {}", json_key(&nullable(key, k)?), nullable(value, v)?));
                let entries = collection::entries(bytes)?.into_iter().map(entry);
                format!("{{{}}}", entries.collect::<Result<Vec<_>, Error>>()?.join(", "))
            }
            Tuple(types) => {
                let fields = collection::fields(bytes, types.len())?;
                let fields = fields.into_iter().zip(types).map(|(field, ty)| nullable(ty, field));
                format!("[{}]", fields.collect::<Result<Vec<_>, _>>()?.join(", "))
            }
            Udt(udt) => {
                let fields = collection::fields(bytes, udt.fields.len())?;
                let field = |(value, (name, ty)): (Option<&[u8]>, &(String, CqlType))| {
                    Ok(format!("{}: {}", json_name(name), nullable(ty, value)?))
                };
                let fields = fields.into_iter().zip(&udt.fields).map(field);
                format!("{{{}}}", fields.collect::<Result<Vec<_>, Error>>()?.join(", "))
            }
            Vector(element, dimension) => {
                let items = collection::vector_elements(bytes, element.fixed_len(), *dimension)?;
                let items = items.into_iter().map(|item| element.to_json(item));
                format!("[{}]", items.collect::<Result<Vec<_>, _>>()?.join(", "))
            }
            _ => {
                let literal = self.to_cql_literal(bytes)?;
                json_string(literal.trim_matches('\''))
            }
        })
    }

    /// The value that a piece of JSON stands for; `None` is null.
    pub fn from_json(&self, json: &str) -> Result<Option<Vec<u8>>, Error> {
        use CqlType::*;
        let json = json.trim();
        if json == "null" {
            return Ok(None);
        }
        let required = |ty: &CqlType, json: &str, what: &str| {
            ty.from_json(json)?.ok_or_else(|| marshal(format!("Invalid null {what}")))
        };
        Ok(Some(match self.unfrozen() {
            List(element) => {
                let items = items(json, "a list")?;
                let items = items.iter().map(|item| required(element, item.get(), "element in list"));
                let items = items.collect::<Result<Vec<_>, _>>()?;
                collection::write_collection(items.len(), items.iter().map(Vec::as_slice))
            }
            Set(element) => {
                let items = items(json, "a list (representing a set)")?;
                let items = items.iter().map(|item| required(element, item.get(), "element in set"));
                let mut items = items.collect::<Result<Vec<_>, _>>()?;
                items.sort_by(|a, b| element.compare(a, b));
                items.dedup();
                collection::write_collection(items.len(), items.iter().map(Vec::as_slice))
            }
            Map(key, value) => {
                let mut entries = Vec::new();
                for (k, v) in object(json, "a map")? {
                    // A key that is no string by itself stands in the string as JSON.
                    let quoted = serde_json::to_string(&k).map_err(|error| marshal(error.to_string()))?;
                    let k = key.from_json(&quoted).or_else(|first| key.from_json(&k).map_err(|_| first))?;
                    let k = k.ok_or_else(|| marshal("Invalid null key in map"))?;
                    entries.push((k, required(value, v.get(), "value in map")?));
                }
                entries.sort_by(|(a, _), (b, _)| key.compare(a, b));
                let parts = entries.iter().flat_map(|(k, v)| [k.as_slice(), v.as_slice()]);
                collection::write_collection(entries.len(), parts)
            }
            Tuple(types) => {
                let items = items(json, "a list representation of a tuple")?;
                let expected = types.len();
                match items.len().cmp(&expected) {
                    Ordering::Greater => {
                        return Err(marshal(format!("Tuple contains extra items (expected {expected}): {json}")));
                    }
                    Ordering::Less => {
                        return Err(marshal(format!("Tuple is missing items (expected {expected}): {json}")));
                    }
                    Ordering::Equal => {}
                }
                let fields: Vec<Option<Vec<u8>>> =
                    items.iter().zip(types).map(|(item, ty)| ty.from_json(item.get())).collect::<Result<_, _>>()?;
                collection::write_tuple(fields.iter().map(Option::as_deref))
            }
            Udt(udt) => {
                let given = object(json, "a map")?.into_iter();
                let mut given: BTreeMap<String, &RawValue> =
                    given.map(|(name, value)| (name_of_json(&name).into_owned(), value)).collect();
                let mut fields = Vec::with_capacity(udt.fields.len());
                for (name, ty) in &udt.fields {
                    fields.push(given.remove(name).map_or(Ok(None), |json| ty.from_json(json.get()))?);
                }
                if let Some(unknown) = given.keys().next() {
                    return Err(marshal(format!(
                        "Unknown field '{unknown}' in value of user defined type {}",
                        udt.name
                    )));
                }
                collection::write_tuple(fields.iter().map(Option::as_deref))
            }
            Vector(element, dimension) => {
                let items = items(json, "a list (representing a vector)")?;
                if items.len() != *dimension as usize {
                    return Err(marshal(format!("Expected {dimension} elements of a vector, got {}", items.len())));
                }
                let items = items.iter().map(|item| required(element, item.get(), "element in list"));
                let items = items.collect::<Result<Vec<_>, _>>()?;
                collection::write_vector(element.fixed_len(), items.iter().map(Vec::as_slice))
            }
            scalar => scalar.scalar_from_json(json)?,
        }))
    }

    fn scalar_from_json(&self, json: &str) -> Result<Vec<u8>, Error> {
        use CqlType::*;
        let is_string = json.starts_with('"');
        let text = match is_string {
            true => serde_json::from_str::<String>(json).map_err(|error| marshal(error.to_string()))?,
            false => json.to_string(),
        };
        let refuse = |what: &str| Err(marshal(format!("Expected {what}, but got a {}: {text}", java_class(json))));
        let is_number = json.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        match self {
            Boolean if is_string || matches!(json, "true" | "false") => self.from_text(&text),
            Boolean => refuse("a boolean value"),
            Timestamp if !is_string && is_number => Ok(BigInt.from_text(&text)?),
            ty if is_number && json.contains(['e', 'E']) && (ty.integer_len().is_some() || *ty == VarInt) => {
                self.from_text(&whole_of_scientific(json)?)
            }
            ty if ty.is_number() => {
                let wanted = if *self == Int { "an int value".to_string() } else { format!("a {self} value") };
                match is_string || is_number {
                    true if is_string => self.from_text(&text),
                    true => self.from_text(&text).or_else(|error| match ty.integer_len() {
                        Some(4..) => refuse(&wanted),
                        _ => Err(error),
                    }),
                    false => refuse(&wanted),
                }
            }
            Blob if is_string => match text.strip_prefix("0x") {
                Some(digits) => self.from_text(digits),
                None => Err(marshal(format!("String representation of blob is missing 0x prefix: {text}"))),
            },
            _ if is_string => self.from_text(&text),
            Text => refuse("a UTF-8 string"),
            Ascii => refuse("an ascii string"),
            Uuid | TimeUuid | Duration => refuse(&format!("a string representation of a {self}")),
            Inet => refuse("a string representation of an inet value"),
            _ => refuse(&format!("a string representation of a {self} value")),
        }
    }
}

/// What Java makes of a piece of JSON, for messages.
fn java_class(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'"') => "String",
        Some(b'[') => "ArrayList",
        Some(b'{') => "LinkedHashMap",
        Some(b't' | b'f') => "Boolean",
        _ if json.contains(['.', 'e', 'E']) => "Double",
        _ if json.parse::<i32>().is_ok() => "Integer",
        _ if json.parse::<i64>().is_ok() => "Long",
        _ => "BigInteger",
    }
}

/// The column or field that a member's name stands for: without regard to case unless it has quotes inside.
pub fn name_of_json(name: &str) -> Cow<'_, str> {
    match name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => Cow::Borrowed(quoted),
        None => Cow::Owned(name.to_ascii_lowercase()),
    }
}

/// The digits of a whole number like `1.5e3`.
fn whole_of_scientific(json: &str) -> Result<String, Error> {
    // More digits than any 64-bit number has are some `varint`'s only; they are not written out without bound.
    const DIGITS_MAX: i64 = 1_000;
    let refuse = || marshal(format!("Unable to make a whole number from '{json}'"));
    let (scale, unscaled) = decimal_parts(&decimal_from_text(json)?)?;
    if scale.abs() > DIGITS_MAX {
        return Err(refuse());
    }
    let power = BigInt::from(10).pow(scale.unsigned_abs() as u32);
    if scale <= 0 {
        return Ok((unscaled * power).to_string());
    }
    let whole = &unscaled / &power;
    if &whole * &power == unscaled { Ok(whole.to_string()) } else { Err(refuse()) }
}

/// A string of JSON, quotes included.
pub fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A column's or field's name as a key of JSON: names that CQL must quote keep their quotes inside.
pub fn json_name(name: &str) -> String {
    if name.chars().any(|c| c.is_ascii_uppercase()) { json_string(&format!("\"{name}\"")) } else { json_string(name) }
}

/// The JSON of a map's key, as a string.
fn json_key(json: &str) -> String {
    if json.starts_with('"') { json.to_string() } else { json_string(json) }
}

fn is_finite(bytes: &[u8]) -> bool {
    match (<[u8; 4]>::try_from(bytes), <[u8; 8]>::try_from(bytes)) {
        (Ok(float), _) => f32::from_be_bytes(float).is_finite(),
        (_, Ok(double)) => f64::from_be_bytes(double).is_finite(),
        _ => false,
    }
}

fn items<'a>(json: &'a str, what: &str) -> Result<Vec<&'a RawValue>, Error> {
    serde_json::from_str(json).map_err(|_| other_than(what, json))
}

/// Members of an object by name; of several with one name the last.
pub fn object<'a>(json: &'a str, what: &str) -> Result<BTreeMap<String, &'a RawValue>, Error> {
    serde_json::from_str(json).map_err(|_| other_than(what, json))
}

fn other_than(what: &str, json: &str) -> Error {
    match serde_json::from_str::<&RawValue>(json) {
        Ok(_) => marshal(format!("Expected {what}, but got a {}: {json}", java_class(json))),
        Err(_) => marshal(format!("Expected {what}, but got: {json}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ty: &str, json: &str) {
        let ty = CqlType::parse(ty).unwrap();
        let bytes = ty.from_json(json).unwrap_or_else(|error| panic!("{ty} {json}: {error}")).unwrap();
        assert_eq!(ty.to_json(&bytes).unwrap(), json, "{ty}");
    }

    #[test]
    fn values_come_back() {
        for (ty, json) in [
            ("text", r#""it's \"so\" \n""#),
            ("int", "-7"),
            ("bigint", "9007199254740993"),
            ("varint", "123456789012345678901234567890"),
            ("decimal", "1.10"),
            ("double", "1.5"),
            ("boolean", "true"),
            ("blob", r#""0x00ff""#),
            ("inet", r#""127.0.0.1""#),
            ("date", r#""2014-05-13""#),
            ("time", r#""08:10:30.000000001""#),
            ("timestamp", r#""2014-05-13 07:53:20.001Z""#),
            ("uuid", r#""d2177dd0-eaa2-41de-a572-001b779c76e3""#),
            ("list<int>", "[3, 1, 2]"),
            ("set<text>", r#"["a", "b"]"#),
            ("map<int, text>", r#"{"1": "a", "2": "b"}"#),
            ("map<text, list<int>>", r#"{"a": [1], "b": []}"#),
            ("tuple<int, text>", r#"[1, null]"#),
        ] {
            check(ty, json);
        }
    }

    #[test]
    fn other_forms_are_taken() {
        let same = |ty: CqlType, a: &str, b: &str| assert_eq!(ty.from_json(a).unwrap(), ty.from_json(b).unwrap());
        same(CqlType::Int, "\"5\"", "5");
        same(CqlType::Boolean, "\"true\"", "true");
        same(CqlType::Timestamp, "\"1970-01-01 00:00:01.000Z\"", "1000");
        same(CqlType::set(CqlType::Int), "[2, 1, 2]", "[1, 2]");
        assert_eq!(CqlType::Int.from_json(" null ").unwrap(), None);
        let infinite = f64::INFINITY.to_be_bytes();
        assert_eq!(CqlType::Double.to_json(&infinite).unwrap(), "null");
    }

    #[test]
    fn refusals() {
        for (ty, json) in [
            ("int", "\"abc\""),
            ("int", "1.5"),
            ("int", "[1]"),
            ("text", "1"),
            ("blob", "\"00\""),
            ("list<int>", "[null]"),
            ("list<int>", "{}"),
            ("map<int, int>", "[]"),
            ("tuple<int>", "[1, 2]"),
            ("boolean", "1"),
            ("uuid", "5"),
            ("int", "{"),
        ] {
            assert!(CqlType::parse(ty).unwrap().from_json(json).is_err(), "{ty} {json}");
        }
    }
}
