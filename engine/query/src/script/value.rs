//! Values of CQL as values of Lua, and back.
//!
//! Whole numbers are integers (of `varint` those that fit, others text), floats numbers, decimals and UUIDs and
//! addresses text, dates days since 1970, times nanoseconds, timestamps milliseconds, blobs strings. Lists and tuples
//! and vectors are tables by position, sets tables with their elements as keys, maps tables, user types tables by
//! field, durations tables of `months`, `days` and `nanoseconds`. What a function gives may be any of these, or text
//! that the type reads.

use mlua::{Lua, Table, Value};
use types::duration::CqlDuration;
use types::{CqlType, collection};

use super::ScriptError;

/// Half of the unsigned days of `date`: 1970-01-01.
const DATE_EPOCH: i64 = 1 << 31;

fn failed(error: mlua::Error) -> ScriptError {
    ScriptError::Run(error.to_string())
}

fn malformed(error: types::Error) -> ScriptError {
    ScriptError::Value(error.to_string())
}

/// Two's complement of up to eight bytes.
fn integer(bytes: &[u8]) -> Option<i64> {
    let fill = if bytes.first()? & 0x80 == 0 { 0u8 } else { 0xff };
    let mut wide = [fill; 8];
    wide.get_mut(8usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(i64::from_be_bytes(wide))
}

pub(super) fn to_lua(lua: &Lua, ty: &CqlType, bytes: Option<&[u8]>) -> Result<Value, ScriptError> {
    use CqlType::*;
    let Some(bytes) = bytes else { return Ok(Value::Nil) };
    let ty = ty.unfrozen();
    if bytes.is_empty() && !matches!(ty, Text | Ascii | Blob | Udt(_) | Tuple(_)) {
        return Ok(Value::Nil);
    }
    let text = |text: &[u8]| lua.create_string(text).map(Value::String).map_err(failed);
    let literal = || -> Result<Value, ScriptError> {
        let shown = ty.to_cql_literal(bytes).map_err(malformed)?;
        text(shown.trim_matches('\'').as_bytes())
    };
    Ok(match ty {
        Text | Ascii | Blob => text(bytes)?,
        Boolean => Value::Boolean(bytes != [0]),
        Float => Value::Number(f64::from(f32::from_be_bytes(bytes.try_into().unwrap_or_default()))),
        Double => Value::Number(f64::from_be_bytes(bytes.try_into().unwrap_or_default())),
        TinyInt | SmallInt | Int | BigInt | Counter | Time | Timestamp | VarInt => match integer(bytes) {
            Some(value) => Value::Integer(value),
            None => literal()?,
        },
        Date => {
            let days = u32::from_be_bytes(bytes.try_into().unwrap_or_default());
            Value::Integer(i64::from(days) - DATE_EPOCH)
        }
        Duration => {
            let duration = CqlDuration::from_bytes(bytes).map_err(malformed)?;
            let table = lua.create_table().map_err(failed)?;
            table.set("months", duration.months).map_err(failed)?;
            table.set("days", duration.days).map_err(failed)?;
            table.set("nanoseconds", duration.nanos).map_err(failed)?;
            Value::Table(table)
        }
        List(element) => by_position(lua, collection::elements(bytes).map_err(malformed)?, |_| Some(&**element))?,
        Vector(element, dimension) => {
            let items = collection::vector_elements(bytes, element.fixed_len(), *dimension).map_err(malformed)?;
            by_position(lua, items.into_iter().map(Some).collect(), |_| Some(&**element))?
        }
        Tuple(types) => {
            by_position(lua, collection::fields(bytes, types.len()).map_err(malformed)?, |at| types.get(at))?
        }
        Set(element) => {
            let table = lua.create_table().map_err(failed)?;
            for item in collection::elements(bytes).map_err(malformed)? {
                table.set(to_lua(lua, element, item)?, true).map_err(failed)?;
            }
            Value::Table(table)
        }
        Map(key_type, value_type) => {
            let table = lua.create_table().map_err(failed)?;
            for (key, value) in collection::entries(bytes).map_err(malformed)? {
                table.set(to_lua(lua, key_type, key)?, to_lua(lua, value_type, value)?).map_err(failed)?;
            }
            Value::Table(table)
        }
        Udt(udt) => {
            let table = lua.create_table().map_err(failed)?;
            let values = collection::fields(bytes, udt.fields.len()).map_err(malformed)?;
            for ((name, ty), value) in udt.fields.iter().zip(values) {
                table.set(name.as_str(), to_lua(lua, ty, value)?).map_err(failed)?;
            }
            Value::Table(table)
        }
        _ => literal()?,
    })
}

fn by_position<'t>(
    lua: &Lua,
    values: Vec<Option<&[u8]>>,
    ty: impl Fn(usize) -> Option<&'t CqlType>,
) -> Result<Value, ScriptError> {
    let table = lua.create_table().map_err(failed)?;
    for (at, value) in values.into_iter().enumerate() {
        if let Some(ty) = ty(at) {
            table.set(at + 1, to_lua(lua, ty, value)?).map_err(failed)?;
        }
    }
    Ok(Value::Table(table))
}

pub(super) fn from_lua(ty: &CqlType, value: &Value) -> Result<Option<Vec<u8>>, ScriptError> {
    use CqlType::*;
    let ty = ty.unfrozen();
    let unexpected = || ScriptError::Value(format!("unexpected value of type {} for {ty}", value.type_name()));
    if let Value::String(text) = value {
        return from_text(ty, &text.as_bytes()).map(Some);
    }
    Ok(Some(match (ty, value) {
        (_, Value::Nil) => return Ok(None),
        (Boolean, Value::Boolean(value)) => vec![u8::from(*value)],
        (Float, Value::Number(value)) => (*value as f32).to_be_bytes().to_vec(),
        (Double, Value::Number(value)) => value.to_be_bytes().to_vec(),
        (Float, Value::Integer(value)) => (*value as f32).to_be_bytes().to_vec(),
        (Double, Value::Integer(value)) => (*value as f64).to_be_bytes().to_vec(),
        (Text | Ascii, Value::Integer(_) | Value::Number(_)) => value.to_string().map_err(failed)?.into_bytes(),
        (Date, Value::Integer(days)) => {
            u32::try_from(days + DATE_EPOCH).map_err(|_| unexpected())?.to_be_bytes().to_vec()
        }
        (Decimal, Value::Integer(_) | Value::Number(_)) => {
            let text = value.to_string().map_err(failed)?;
            ty.from_text(&text).map_err(malformed)?
        }
        (TinyInt | SmallInt | Int | BigInt | Counter | Time | Timestamp | VarInt, Value::Integer(value)) => {
            whole(ty, *value).ok_or_else(|| ScriptError::Value(format!("value {value} is out of range for {ty}")))?
        }
        (TinyInt | SmallInt | Int | BigInt | Counter | Time | Timestamp | VarInt, Value::Number(number)) => {
            let exact = (*number as i64 as f64 == *number).then_some(*number as i64);
            let value = exact.and_then(|exact| whole(ty, exact));
            value.ok_or_else(|| ScriptError::Value(format!("value {number} is not an integer of type {ty}")))?
        }
        (Duration, Value::Table(table)) => {
            let part = |name: &str| table.get::<Option<i64>>(name).map_err(failed).map(Option::unwrap_or_default);
            let small = |value: i64| i32::try_from(value).map_err(|_| unexpected());
            let duration = CqlDuration {
                months: small(part("months")?)?,
                days: small(part("days")?)?,
                nanos: part("nanoseconds")?,
            };
            duration.to_bytes()
        }
        (List(element), Value::Table(table)) => {
            let items = positions(table, |_| Some(&**element))?;
            let items = items.into_iter().map(|item| item.ok_or_else(unexpected)).collect::<Result<Vec<_>, _>>()?;
            collection::write_collection(items.len(), items.iter().map(Vec::as_slice))
        }
        (Vector(element, dimension), Value::Table(table)) => {
            let items = positions(table, |_| Some(&**element))?;
            let items = items.into_iter().map(|item| item.ok_or_else(unexpected)).collect::<Result<Vec<_>, _>>()?;
            if items.len() != *dimension as usize {
                return Err(unexpected());
            }
            collection::write_vector(element.fixed_len(), items.iter().map(Vec::as_slice))
        }
        (Tuple(types), Value::Table(table)) => {
            let value = |(at, ty)| from_lua(ty, &table.get::<Value>(at).map_err(failed)?);
            let fields = (1usize..).zip(types).map(value).collect::<Result<Vec<_>, _>>()?;
            collection::write_tuple(fields.iter().map(Option::as_deref))
        }
        (Udt(udt), Value::Table(table)) => {
            let value =
                |(name, ty): &(String, CqlType)| from_lua(ty, &table.get::<Value>(name.as_str()).map_err(failed)?);
            let fields = udt.fields.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            collection::write_tuple(fields.iter().map(Option::as_deref))
        }
        (Set(element), Value::Table(table)) => {
            let mut items = Vec::new();
            for pair in table.pairs::<Value, Value>() {
                let (item, _) = pair.map_err(failed)?;
                items.push(from_lua(element, &item)?.ok_or_else(unexpected)?);
            }
            let made = collection::write_collection(items.len(), items.iter().map(Vec::as_slice));
            ty.canonical(&made).map_err(malformed)?.into_owned()
        }
        (Map(key_type, value_type), Value::Table(table)) => {
            let mut entries = Vec::new();
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair.map_err(failed)?;
                entries.push(from_lua(key_type, &key)?.ok_or_else(unexpected)?);
                entries.push(from_lua(value_type, &value)?.ok_or_else(unexpected)?);
            }
            let made = collection::write_collection(entries.len() / 2, entries.iter().map(Vec::as_slice));
            ty.canonical(&made).map_err(malformed)?.into_owned()
        }
        _ => return Err(unexpected()),
    }))
}

fn from_text(ty: &CqlType, text: &[u8]) -> Result<Vec<u8>, ScriptError> {
    if matches!(ty, CqlType::Blob | CqlType::Text | CqlType::Ascii) {
        ty.validate(text).map_err(malformed)?;
        return Ok(text.to_vec());
    }
    let text = std::str::from_utf8(text).map_err(|error| ScriptError::Value(error.to_string()))?;
    ty.from_text(text).map_err(malformed)
}

/// The bytes of an integer; `None` when it is out of the type's range.
fn whole(ty: &CqlType, value: i64) -> Option<Vec<u8>> {
    let bytes = value.to_be_bytes();
    Some(match ty {
        CqlType::VarInt => {
            let redundant =
                |at: &usize| (bytes[*at] == 0 && bytes[at + 1] < 0x80) || (bytes[*at] == 0xff && bytes[at + 1] >= 0x80);
            let skipped = (0..7).take_while(redundant).count();
            bytes[skipped..].to_vec()
        }
        CqlType::TinyInt => i8::try_from(value).ok()?.to_be_bytes().to_vec(),
        CqlType::SmallInt => i16::try_from(value).ok()?.to_be_bytes().to_vec(),
        CqlType::Int => i32::try_from(value).ok()?.to_be_bytes().to_vec(),
        _ => bytes.to_vec(),
    })
}

/// The values at 1, 2, .. up to the last.
fn positions<'t>(
    table: &Table,
    ty: impl Fn(usize) -> Option<&'t CqlType>,
) -> Result<Vec<Option<Vec<u8>>>, ScriptError> {
    let value = |at: usize| match ty(at) {
        Some(ty) => from_lua(ty, &table.get::<Value>(at + 1).map_err(failed)?),
        None => Ok(None),
    };
    (0..table.raw_len()).map(value).collect()
}
