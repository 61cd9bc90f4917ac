//! The native scalar functions: of times, UUIDs and blobs.

use types::{CqlType, calendar, uuid};

use super::super::Context;
use crate::error::{QueryError, invalid};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Native {
    /// A new time UUID of this moment.
    Now,
    /// A random UUID.
    Uuid,
    CurrentTimestamp,
    CurrentDate,
    /// Nanoseconds of the day.
    CurrentTime,
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

/// The functions of a name, each with its arguments' types; none when the name is unknown.
pub(super) fn named(name: &str) -> Vec<(Native, Vec<CqlType>)> {
    use CqlType::{Blob, Date, TimeUuid, Timestamp};
    let convert = |to, types: &[CqlType]| {
        types.iter().map(|from| (Native::Convert { from: from.clone(), to }, vec![from.clone()])).collect()
    };
    match name {
        "now" | "currenttimeuuid" | "current_timeuuid" => vec![(Native::Now, vec![])],
        "uuid" => vec![(Native::Uuid, vec![])],
        "currenttimestamp" | "current_timestamp" => vec![(Native::CurrentTimestamp, vec![])],
        "currentdate" | "current_date" => vec![(Native::CurrentDate, vec![])],
        "currenttime" | "current_time" => vec![(Native::CurrentTime, vec![])],
        "totimestamp" | "to_timestamp" => convert(Moment::Timestamp, &[TimeUuid, Date]),
        "dateof" => convert(Moment::Timestamp, &[TimeUuid]),
        "todate" | "to_date" => convert(Moment::Date, &[TimeUuid, Timestamp]),
        "tounixtimestamp" | "to_unix_timestamp" => convert(Moment::Unix, &[TimeUuid, Timestamp, Date]),
        "unixtimestampof" => convert(Moment::Unix, &[TimeUuid]),
        "mintimeuuid" | "min_timeuuid" => vec![(Native::MinTimeUuid, vec![Timestamp])],
        "maxtimeuuid" | "max_timeuuid" => vec![(Native::MaxTimeUuid, vec![Timestamp])],
        other => {
            let scalar = |ty: &str| CqlType::scalar_from_name(ty.trim_end_matches('_'));
            let of = other.strip_suffix("asblob").or_else(|| other.strip_suffix("_as_blob"));
            if let Some(ty) = of.and_then(scalar) {
                return vec![(Native::AsBlob(ty.clone()), vec![ty])];
            }
            let to = other.strip_prefix("blobas").or_else(|| other.strip_prefix("blob_as_"));
            match to.and_then(scalar) {
                Some(ty) => vec![(Native::FromBlob(ty), vec![Blob])],
                None => Vec::new(),
            }
        }
    }
}

/// Time UUIDs count 60 bits of 100 ns from 1582-10-15.
fn within_time_uuids(unix_ms: i64) -> Result<i64, QueryError> {
    const FIRST_MS: i64 = -12_219_292_800_000;
    const LAST_MS: i64 = FIRST_MS + ((1 << 60) - 1) / 10_000;
    match (FIRST_MS..LAST_MS).contains(&unix_ms) {
        true => Ok(unix_ms),
        false => Err(invalid!("Timestamp {unix_ms} is out of the range of time UUIDs")),
    }
}

/// Distinguishes time UUIDs of one microsecond and of different nodes.
fn tail(context: &Context) -> u64 {
    (context.random)()
}

impl Native {
    pub fn name(&self) -> String {
        match self {
            Native::Now => "system.now".into(),
            Native::Uuid => "system.uuid".into(),
            Native::CurrentTimestamp => "system.currenttimestamp".into(),
            Native::CurrentDate => "system.currentdate".into(),
            Native::CurrentTime => "system.currenttime".into(),
            Native::Convert { to: Moment::Timestamp, .. } => "system.totimestamp".into(),
            Native::Convert { to: Moment::Date, .. } => "system.todate".into(),
            Native::Convert { to: Moment::Unix, .. } => "system.tounixtimestamp".into(),
            Native::MinTimeUuid => "system.mintimeuuid".into(),
            Native::MaxTimeUuid => "system.maxtimeuuid".into(),
            Native::AsBlob(ty) => format!("system.{ty}asblob"),
            Native::FromBlob(ty) => format!("system.blobas{ty}"),
            Native::ToJson(_) => "system.tojson".into(),
        }
    }

    pub fn result(&self) -> CqlType {
        match self {
            Native::Now | Native::MinTimeUuid | Native::MaxTimeUuid => CqlType::TimeUuid,
            Native::Uuid => CqlType::Uuid,
            Native::CurrentTimestamp | Native::Convert { to: Moment::Timestamp, .. } => CqlType::Timestamp,
            Native::CurrentDate | Native::Convert { to: Moment::Date, .. } => CqlType::Date,
            Native::CurrentTime => CqlType::Time,
            Native::Convert { to: Moment::Unix, .. } => CqlType::BigInt,
            Native::AsBlob(_) => CqlType::Blob,
            Native::FromBlob(ty) => ty.clone(),
            Native::ToJson(_) => CqlType::Text,
        }
    }

    pub fn call(&self, arguments: &[Option<&[u8]>], context: &Context) -> Result<Option<Vec<u8>>, QueryError> {
        let now_ms = context.now_us.div_euclid(1000);
        let Some(first) = arguments.first() else {
            return Ok(Some(match self {
                Native::Uuid => {
                    let bits = u128::from((context.random)()) << 64 | u128::from((context.random)());
                    uuid::from_random(bits).to_vec()
                }
                Native::CurrentTimestamp => now_ms.to_be_bytes().to_vec(),
                Native::CurrentDate => calendar::date_of_timestamp(now_ms).to_be_bytes().to_vec(),
                Native::CurrentTime => {
                    const DAY_US: i64 = 24 * 60 * 60 * 1_000_000;
                    (context.now_us.rem_euclid(DAY_US) * 1000).to_be_bytes().to_vec()
                }
                _ => uuid::from_time(context.now_us, (tail(context) % 10) as u8, tail(context)).to_vec(),
            }));
        };
        if let Native::ToJson(ty) = self {
            let json = first.map_or(Ok("null".to_string()), |value| ty.to_json(value));
            return Ok(Some(json.map_err(|error| invalid!("{error}"))?.into_bytes()));
        }
        let Some(argument) = *first else { return Ok(None) };
        if let Native::AsBlob(_) = self {
            return Ok(Some(argument.to_vec()));
        }
        if let Native::FromBlob(ty) = self {
            ty.validate(argument).map_err(|_| {
                let hex: String = argument.iter().map(|byte| format!("{byte:02x}")).collect();
                invalid!(
                    "In call to function {}, value 0x{hex} is not a valid binary representation for type {ty}",
                    self.name()
                )
            })?;
            return Ok(Some(argument.to_vec()));
        }
        if argument.is_empty() {
            return Ok(None);
        }
        let bigint = |bytes: &[u8]| bytes.try_into().map(i64::from_be_bytes).map_err(|_| invalid!("not a timestamp"));
        Ok(Some(match self {
            Native::Convert { from, to } => {
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
            Native::MinTimeUuid => uuid::least_of_ms(within_time_uuids(bigint(argument)?)?).to_vec(),
            Native::MaxTimeUuid => uuid::greatest_of_ms(within_time_uuids(bigint(argument)?)?).to_vec(),
            _ => argument.to_vec(),
        }))
    }
}
