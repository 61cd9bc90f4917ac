//! The native scalar functions: of times, UUIDs and blobs.

use types::{CqlType, calendar, uuid};

use super::Context;
use crate::error::{QueryError, invalid};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Function {
    /// A new time UUID of this moment.
    Now,
    /// A random UUID.
    Uuid,
    CurrentTimestamp,
    CurrentDate,
    /// `toTimestamp`, `toDate`, `toUnixTimestamp` of a time UUID, a timestamp or a date.
    Convert {
        from: CqlType,
        to: Moment,
    },
    MinTimeUuid,
    MaxTimeUuid,
    /// `intAsBlob` and its like: the bytes stay.
    AsBlob(CqlType),
    /// `blobAsInt` and its like: the bytes are checked.
    FromBlob(CqlType),
    /// The JSON of a value of the type.
    ToJson(CqlType),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Timestamp,
    Date,
    /// Milliseconds as a bigint.
    Unix,
}

/// The function by its name, and its arguments' types.
pub(crate) fn find(name: &str, argument_count: usize) -> Result<(Function, Vec<CqlType>), QueryError> {
    let name = name.to_ascii_lowercase();
    let convert = |to| Function::Convert { from: CqlType::TimeUuid, to };
    let (function, arguments) = match name.as_str() {
        "now" | "currenttimeuuid" | "current_timeuuid" => (Function::Now, vec![]),
        "uuid" => (Function::Uuid, vec![]),
        "currenttimestamp" | "current_timestamp" => (Function::CurrentTimestamp, vec![]),
        "currentdate" | "current_date" => (Function::CurrentDate, vec![]),
        "totimestamp" | "to_timestamp" | "dateof" => (convert(Moment::Timestamp), vec![CqlType::TimeUuid]),
        "todate" | "to_date" => (convert(Moment::Date), vec![CqlType::TimeUuid]),
        "tounixtimestamp" | "to_unix_timestamp" | "unixtimestampof" => (convert(Moment::Unix), vec![CqlType::TimeUuid]),
        "mintimeuuid" | "min_timeuuid" => (Function::MinTimeUuid, vec![CqlType::Timestamp]),
        "maxtimeuuid" | "max_timeuuid" => (Function::MaxTimeUuid, vec![CqlType::Timestamp]),
        "tojson" | "to_json" => (Function::ToJson(CqlType::Text), vec![CqlType::Text]),
        other => match (other.strip_suffix("asblob"), other.strip_prefix("blobas")) {
            (Some(ty), _) => blob_function(ty, &name, Function::AsBlob, |ty| vec![ty])?,
            (_, Some(ty)) => blob_function(ty, &name, Function::FromBlob, |_| vec![CqlType::Blob])?,
            _ => return Err(invalid!("Unknown function '{name}'")),
        },
    };
    if arguments.len() != argument_count {
        return Err(invalid!(
            "Invalid number of arguments in call to function {name}: {} required but {argument_count} provided",
            arguments.len()
        ));
    }
    Ok((function, arguments))
}

fn blob_function(
    ty: &str,
    name: &str,
    make: impl FnOnce(CqlType) -> Function,
    arguments: impl FnOnce(CqlType) -> Vec<CqlType>,
) -> Result<(Function, Vec<CqlType>), QueryError> {
    let ty = CqlType::scalar_from_name(ty).ok_or_else(|| invalid!("Unknown function '{name}'"))?;
    Ok((make(ty.clone()), arguments(ty)))
}

/// Distinguishes time UUIDs of one microsecond and of different nodes.
fn tail(context: &Context) -> u64 {
    (context.random)()
}

impl Function {
    pub fn name(&self) -> String {
        match self {
            Function::Now => "system.now".into(),
            Function::Uuid => "system.uuid".into(),
            Function::CurrentTimestamp => "system.currenttimestamp".into(),
            Function::CurrentDate => "system.currentdate".into(),
            Function::Convert { to: Moment::Timestamp, .. } => "system.totimestamp".into(),
            Function::Convert { to: Moment::Date, .. } => "system.todate".into(),
            Function::Convert { to: Moment::Unix, .. } => "system.tounixtimestamp".into(),
            Function::MinTimeUuid => "system.mintimeuuid".into(),
            Function::MaxTimeUuid => "system.maxtimeuuid".into(),
            Function::AsBlob(ty) => format!("system.{ty}asblob"),
            Function::FromBlob(ty) => format!("system.blobas{ty}"),
            Function::ToJson(_) => "system.tojson".into(),
        }
    }

    /// Takes the argument as it is: the conversions accept times in several forms.
    pub fn with_argument(self, ty: &CqlType) -> Result<Function, QueryError> {
        match self {
            Function::Convert { to, .. } => match ty {
                CqlType::TimeUuid | CqlType::Timestamp | CqlType::Date => {
                    Ok(Function::Convert { from: ty.clone(), to })
                }
                other => Err(invalid!("Type error: a time is wanted, not a {other}")),
            },
            Function::ToJson(_) => Ok(Function::ToJson(ty.clone())),
            other => Ok(other),
        }
    }

    pub fn result(&self) -> CqlType {
        match self {
            Function::Now | Function::MinTimeUuid | Function::MaxTimeUuid => CqlType::TimeUuid,
            Function::Uuid => CqlType::Uuid,
            Function::CurrentTimestamp | Function::Convert { to: Moment::Timestamp, .. } => CqlType::Timestamp,
            Function::CurrentDate | Function::Convert { to: Moment::Date, .. } => CqlType::Date,
            Function::Convert { to: Moment::Unix, .. } => CqlType::BigInt,
            Function::AsBlob(_) => CqlType::Blob,
            Function::FromBlob(ty) => ty.clone(),
            Function::ToJson(_) => CqlType::Text,
        }
    }

    /// Whether its result fits a place of type `ty`. A time UUID is a UUID; a blob fits nothing else.
    pub fn returns(&self, ty: &CqlType) -> bool {
        let result = self.result();
        result == *ty.unfrozen() || (result == CqlType::TimeUuid && *ty == CqlType::Uuid)
    }

    pub fn call(&self, arguments: &[Option<&[u8]>], context: &Context) -> Result<Option<Vec<u8>>, QueryError> {
        let now_ms = context.now_us.div_euclid(1000);
        let Some(first) = arguments.first() else {
            return Ok(Some(match self {
                Function::Uuid => {
                    let bits = u128::from((context.random)()) << 64 | u128::from((context.random)());
                    uuid::from_random(bits).to_vec()
                }
                Function::CurrentTimestamp => now_ms.to_be_bytes().to_vec(),
                Function::CurrentDate => calendar::date_of_timestamp(now_ms).to_be_bytes().to_vec(),
                _ => uuid::from_time(context.now_us, (tail(context) % 10) as u8, tail(context)).to_vec(),
            }));
        };
        if let Function::ToJson(ty) = self {
            let json = first.map_or(Ok("null".to_string()), |value| ty.to_json(value));
            return Ok(Some(json.map_err(|error| invalid!("{error}"))?.into_bytes()));
        }
        let Some(argument) = first.filter(|bytes| !bytes.is_empty()) else { return Ok(None) };
        let bigint = |bytes: &[u8]| bytes.try_into().map(i64::from_be_bytes).map_err(|_| invalid!("not a timestamp"));
        Ok(Some(match self {
            Function::Convert { from, to } => {
                let ms = match from {
                    CqlType::TimeUuid => {
                        let id: &[u8; 16] = argument.try_into().map_err(|_| invalid!("not a timeuuid"))?;
                        uuid::unix_ms(id)
                    }
                    CqlType::Date => {
                        let date = argument.try_into().map_err(|_| invalid!("not a date"))?;
                        calendar::timestamp_of_date(u32::from_be_bytes(date))
                    }
                    _ => bigint(argument)?,
                };
                match to {
                    Moment::Date => calendar::date_of_timestamp(ms).to_be_bytes().to_vec(),
                    Moment::Timestamp | Moment::Unix => ms.to_be_bytes().to_vec(),
                }
            }
            Function::MinTimeUuid => uuid::least_of_ms(bigint(argument)?).to_vec(),
            Function::MaxTimeUuid => uuid::greatest_of_ms(bigint(argument)?).to_vec(),
            Function::FromBlob(ty) => {
                ty.validate(argument).map_err(|error| invalid!("{error}"))?;
                argument.to_vec()
            }
            _ => argument.to_vec(),
        }))
    }
}
