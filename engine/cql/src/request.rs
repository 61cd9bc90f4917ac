//! Requests: decoded by the server without copying, encoded by the loading client. Decoding an encoded request gives
//! it back.

use crate::consistency::{Consistency, SerialConsistency};
use crate::frame::{self, FLAG_CUSTOM_PAYLOAD, Header, Opcode, Version};
use crate::values::Values;
use crate::wire::{self, DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    Startup(Vec<(&'a str, &'a str)>),
    Options,
    AuthResponse(Option<&'a [u8]>),
    Query {
        query: &'a str,
        parameters: Parameters<'a>,
    },
    /// `keyspace` (v5) stands in for the session's.
    Prepare {
        query: &'a str,
        keyspace: Option<&'a str>,
    },
    Execute {
        id: &'a [u8],
        parameters: Parameters<'a>,
    },
    Batch(Batch<'a>),
    Register(Vec<EventKind>),
}

/// What QUERY and EXECUTE say beside the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<'a> {
    pub consistency: Consistency,
    pub values: Values<'a>,
    /// The client has the result's metadata from PREPARE.
    pub skip_metadata: bool,
    /// Rows a page; `None` asks for all.
    pub page_size: Option<u32>,
    pub paging_state: Option<&'a [u8]>,
    pub serial_consistency: Option<SerialConsistency>,
    /// Microseconds since 1970 for what the statement writes.
    pub timestamp: Option<i64>,
    /// v5: stands in for the session's keyspace.
    pub keyspace: Option<&'a str>,
    /// v5: the time that expiry is seen at, in seconds since 1970.
    pub now_s: Option<i32>,
    /// v5, EXECUTE alone: which result metadata the client has.
    pub metadata_id: Option<&'a [u8]>,
}

impl<'a> Parameters<'a> {
    pub fn new(consistency: Consistency, values: Values<'a>) -> Parameters<'a> {
        Parameters {
            consistency,
            values,
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_s: None,
            metadata_id: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    pub kind: BatchKind,
    pub statements: Vec<BatchStatement<'a>>,
    pub consistency: Consistency,
    pub serial_consistency: Option<SerialConsistency>,
    pub timestamp: Option<i64>,
    /// v5: as in [`Parameters`].
    pub keyspace: Option<&'a str>,
    pub now_s: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchStatement<'a> {
    pub statement: QueryOrId<'a>,
    pub values: Values<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryOrId<'a> {
    Query(&'a str),
    Id(&'a [u8]),
}

/// What REGISTER asks to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    TopologyChange,
    StatusChange,
    SchemaChange,
}

impl EventKind {
    pub fn name(self) -> &'static str {
        match self {
            EventKind::TopologyChange => "TOPOLOGY_CHANGE",
            EventKind::StatusChange => "STATUS_CHANGE",
            EventKind::SchemaChange => "SCHEMA_CHANGE",
        }
    }

    pub fn from_name(name: &str) -> Option<EventKind> {
        [EventKind::TopologyChange, EventKind::StatusChange, EventKind::SchemaChange]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

const WITH_VALUES: u32 = 0x01;
const SKIP_METADATA: u32 = 0x02;
const WITH_PAGE_SIZE: u32 = 0x04;
const WITH_PAGING_STATE: u32 = 0x08;
const WITH_SERIAL_CONSISTENCY: u32 = 0x10;
const WITH_TIMESTAMP: u32 = 0x20;
const WITH_NAMES: u32 = 0x40;
/// From v5 on, where the flags are four bytes.
const WITH_KEYSPACE: u32 = 0x80;
const WITH_NOW_IN_SECONDS: u32 = 0x100;
/// The only flag of PREPARE, which has flags from v5 on.
const PREPARE_WITH_KEYSPACE: u32 = 0x01;

impl<'a> Request<'a> {
    /// `body` is plain: see [`frame::plain_body`].
    pub fn decode(header: &Header, body: &'a [u8]) -> Result<Request<'a>, DecodeError> {
        let mut reader = Reader::new(body);
        if header.flags & FLAG_CUSTOM_PAYLOAD != 0 {
            reader.skip_bytes_map("custom payload")?;
        }
        let reader = &mut reader;
        let version = header.version;
        Ok(match header.opcode {
            Opcode::Execute => {
                let id = reader.short_bytes("statement id")?;
                let metadata_id =
                    if version >= Version::V5 { Some(reader.short_bytes("result metadata id")?) } else { None };
                let parameters = Parameters { metadata_id, ..Parameters::decode(reader, version)? };
                Request::Execute { id, parameters }
            }
            Opcode::Query => {
                Request::Query { query: reader.long_string("query")?, parameters: Parameters::decode(reader, version)? }
            }
            Opcode::Prepare => {
                let query = reader.long_string("query")?;
                let flags = if version >= Version::V5 { reader.i32("prepare flags")? as u32 } else { 0 };
                let named = flags & PREPARE_WITH_KEYSPACE != 0;
                Request::Prepare { query, keyspace: if named { Some(reader.string("keyspace")?) } else { None } }
            }
            Opcode::Batch => Request::Batch(Batch::decode(reader, version)?),
            Opcode::Startup => Request::Startup(reader.string_map("startup options")?),
            Opcode::Options => Request::Options,
            Opcode::AuthResponse => Request::AuthResponse(reader.bytes("authentication token")?),
            Opcode::Register => {
                let names = reader.string_list("event types")?;
                let kinds = names.into_iter().map(|name| {
                    EventKind::from_name(name)
                        .ok_or_else(|| DecodeError::Invalid(format!("Invalid value '{name}' for Type")))
                });
                Request::Register(kinds.collect::<Result<_, _>>()?)
            }
            other => return Err(DecodeError::Unknown { what: "As a request, opcode", value: other as i64 }),
        })
    }

    pub fn opcode(&self) -> Opcode {
        match self {
            Request::Startup(_) => Opcode::Startup,
            Request::Options => Opcode::Options,
            Request::AuthResponse(_) => Opcode::AuthResponse,
            Request::Query { .. } => Opcode::Query,
            Request::Prepare { .. } => Opcode::Prepare,
            Request::Execute { .. } => Opcode::Execute,
            Request::Batch(_) => Opcode::Batch,
            Request::Register(_) => Opcode::Register,
        }
    }

    /// Appends the body, as v4 has it: what came with v5 is left out.
    pub fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Request::Startup(options) => wire::put_string_map(out, options.iter().copied()),
            Request::Options => {}
            Request::AuthResponse(token) => wire::put_bytes(out, *token),
            Request::Query { query, parameters } => {
                wire::put_long_string(out, query);
                parameters.encode(out);
            }
            Request::Prepare { query, .. } => wire::put_long_string(out, query),
            Request::Execute { id, parameters } => {
                wire::put_short_bytes(out, id);
                parameters.encode(out);
            }
            Request::Batch(batch) => batch.encode(out),
            Request::Register(kinds) => wire::put_string_list(out, kinds.iter().map(|kind| kind.name())),
        }
    }

    /// Appends a whole frame. STARTUP and OPTIONS are never compressed, for the peer cannot know yet.
    pub fn encode(
        &self,
        out: &mut Vec<u8>,
        stream: i16,
        compression: crate::Compression,
    ) -> Result<(), frame::FrameError> {
        let start = frame::begin(out, self.opcode(), stream);
        self.encode_body(out);
        let plain = matches!(self, Request::Startup(_) | Request::Options);
        frame::finish(out, start, if plain { crate::Compression::None } else { compression })
    }
}

fn decode_flags(reader: &mut Reader<'_>, version: Version, what: &'static str) -> Result<u32, DecodeError> {
    if version >= Version::V5 {
        return Ok(reader.i32(what)? as u32);
    }
    let flags = u32::from(reader.u8(what)?);
    if flags & WITH_KEYSPACE != 0 {
        return Err(DecodeError::Invalid("A keyspace with a statement needs protocol version 5".to_string()));
    }
    Ok(flags)
}

/// What v5 puts last: a keyspace and a time.
fn decode_keyspace_and_now<'a>(
    reader: &mut Reader<'a>,
    flags: u32,
) -> Result<(Option<&'a str>, Option<i32>), DecodeError> {
    let keyspace = if flags & WITH_KEYSPACE != 0 { Some(reader.string("keyspace")?) } else { None };
    let now_s = if flags & WITH_NOW_IN_SECONDS != 0 { Some(reader.i32("now in seconds")?) } else { None };
    Ok((keyspace, now_s))
}

impl<'a> Parameters<'a> {
    fn decode(reader: &mut Reader<'a>, version: Version) -> Result<Parameters<'a>, DecodeError> {
        let consistency = Consistency::from_code(reader.u16("consistency")?)?;
        let flags = decode_flags(reader, version, "query flags")?;
        let mut parameters = Parameters::new(consistency, Values::NONE);
        parameters.skip_metadata = flags & SKIP_METADATA != 0;
        if flags & WITH_VALUES != 0 {
            parameters.values = Values::decode(reader, flags & WITH_NAMES != 0)?;
        }
        if flags & WITH_PAGE_SIZE != 0 {
            // Zero and less turn paging off, as in Cassandra.
            parameters.page_size = u32::try_from(reader.i32("page size")?).ok().filter(|&size| size > 0);
        }
        if flags & WITH_PAGING_STATE != 0 {
            parameters.paging_state = reader.bytes("paging state")?;
        }
        if flags & WITH_SERIAL_CONSISTENCY != 0 {
            parameters.serial_consistency = Some(SerialConsistency::from_code(reader.u16("serial consistency")?)?);
        }
        if flags & WITH_TIMESTAMP != 0 {
            parameters.timestamp = Some(decode_timestamp(reader)?);
        }
        (parameters.keyspace, parameters.now_s) = decode_keyspace_and_now(reader, flags)?;
        Ok(parameters)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        wire::put_u16(out, self.consistency.code());
        let set = |given: bool, flag: u32| if given { flag as u8 } else { 0 };
        out.push(
            set(!self.values.is_empty(), WITH_VALUES)
                | set(self.values.are_named(), WITH_NAMES)
                | set(self.skip_metadata, SKIP_METADATA)
                | set(self.page_size.is_some(), WITH_PAGE_SIZE)
                | set(self.paging_state.is_some(), WITH_PAGING_STATE)
                | set(self.serial_consistency.is_some(), WITH_SERIAL_CONSISTENCY)
                | set(self.timestamp.is_some(), WITH_TIMESTAMP),
        );
        if !self.values.is_empty() {
            self.values.encode(out);
        }
        if let Some(size) = self.page_size {
            wire::put_i32(out, size.min(i32::MAX as u32) as i32);
        }
        if let Some(state) = self.paging_state {
            wire::put_bytes(out, Some(state));
        }
        encode_serial_and_timestamp(self.serial_consistency, self.timestamp, out);
    }
}

fn decode_timestamp(reader: &mut Reader<'_>) -> Result<i64, DecodeError> {
    match reader.i64("timestamp")? {
        // Cassandra keeps it for "no timestamp" inside.
        i64::MIN => {
            Err(DecodeError::Invalid(format!("Out of bound timestamp, must be in [{}, {}]", -i64::MAX, i64::MAX)))
        }
        timestamp => Ok(timestamp),
    }
}

fn encode_serial_and_timestamp(serial: Option<SerialConsistency>, timestamp: Option<i64>, out: &mut Vec<u8>) {
    if let Some(serial) = serial {
        wire::put_u16(out, serial.level().code());
    }
    if let Some(timestamp) = timestamp {
        wire::put_i64(out, timestamp);
    }
}

impl<'a> Batch<'a> {
    fn decode(reader: &mut Reader<'a>, version: Version) -> Result<Batch<'a>, DecodeError> {
        let kind = match reader.u8("batch type")? {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            other => return Err(DecodeError::Invalid(format!("Invalid BATCH message type {other}"))),
        };
        let count = reader.u16("count of statements")?;
        // A statement takes at least five bytes: a count that lies does not size the vector.
        let mut statements = Vec::with_capacity((count as usize).min(reader.rest().len() / 5));
        for _ in 0..count {
            let statement = match reader.u8("kind of a statement")? {
                0 => QueryOrId::Query(reader.long_string("query")?),
                1 => QueryOrId::Id(reader.short_bytes("statement id")?),
                _ => {
                    return Err(DecodeError::Invalid(
                        "Invalid query kind in BATCH messages. Must be 0 or 1 but got something else".to_string(),
                    ));
                }
            };
            statements.push(BatchStatement { statement, values: Values::decode(reader, false)? });
        }
        let consistency = Consistency::from_code(reader.u16("consistency")?)?;
        let flags = decode_flags(reader, version, "batch flags")?;
        if flags & WITH_NAMES != 0 {
            // The flag comes after the values it is about: the specification itself says it cannot work.
            return Err(DecodeError::Invalid("Named values are not possible in a BATCH message".to_string()));
        }
        let mut batch = Batch {
            kind,
            statements,
            consistency,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_s: None,
        };
        if flags & WITH_SERIAL_CONSISTENCY != 0 {
            batch.serial_consistency = Some(SerialConsistency::from_code(reader.u16("serial consistency")?)?);
        }
        if flags & WITH_TIMESTAMP != 0 {
            batch.timestamp = Some(decode_timestamp(reader)?);
        }
        (batch.keyspace, batch.now_s) = decode_keyspace_and_now(reader, flags)?;
        Ok(batch)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self.kind {
            BatchKind::Logged => 0,
            BatchKind::Unlogged => 1,
            BatchKind::Counter => 2,
        });
        wire::put_u16(out, self.statements.len() as u16);
        for BatchStatement { statement, values } in &self.statements {
            match statement {
                QueryOrId::Query(query) => {
                    out.push(0);
                    wire::put_long_string(out, query);
                }
                QueryOrId::Id(id) => {
                    out.push(1);
                    wire::put_short_bytes(out, id);
                }
            }
            values.encode(out);
        }
        wire::put_u16(out, self.consistency.code());
        let mut flags = 0;
        if self.serial_consistency.is_some() {
            flags |= WITH_SERIAL_CONSISTENCY;
        }
        if self.timestamp.is_some() {
            flags |= WITH_TIMESTAMP;
        }
        out.push(flags as u8);
        encode_serial_and_timestamp(self.serial_consistency, self.timestamp, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{Value, ValuesBuffer};
    use crate::{Compression, Direction};
    use proptest::prelude::*;

    fn round_trip(request: &Request<'_>) {
        let mut out = Vec::new();
        request.encode(&mut out, 3, Compression::None).unwrap();
        let (header, body) = frame::decode(&out, Direction::Request, 1 << 20).unwrap().unwrap();
        assert_eq!(Request::decode(&header, body).as_ref(), Ok(request));
    }

    #[test]
    fn golden_execute() {
        // consistency QUORUM; values, skip metadata, page size 5000.
        let body = b"\x00\x02id\x00\x04\x07\x00\x01\x00\x00\x00\x01x\x00\x00\x13\x88";
        let body_len = body.len() as u32;
        let header = Header { version: Version::V4, flags: 0, stream: 0, opcode: Opcode::Execute, body_len };
        let Request::Execute { id, parameters } = Request::decode(&header, body).unwrap() else {
            panic!("not EXECUTE");
        };
        assert_eq!((id, parameters.consistency, parameters.page_size), (&b"id"[..], Consistency::Quorum, Some(5000)));
        assert!(parameters.skip_metadata);
        assert_eq!(parameters.values.iter().collect::<Vec<_>>(), [Value::Bytes(b"x")]);
        let mut out = Vec::new();
        Request::Execute { id, parameters }.encode_body(&mut out);
        assert_eq!(out, body);
    }

    #[test]
    fn every_request_round_trips() {
        let mut values = ValuesBuffer::default();
        values.push_bytes(b"v").push(Value::Null).push(Value::Unset);
        let parameters = Parameters {
            consistency: Consistency::LocalQuorum,
            values: values.values(),
            skip_metadata: true,
            page_size: Some(100),
            paging_state: Some(b"state"),
            serial_consistency: Some(SerialConsistency::LocalSerial),
            timestamp: Some(-5),
            ..Parameters::new(Consistency::LocalQuorum, values.values())
        };
        round_trip(&Request::Startup(vec![("CQL_VERSION", "3.0.0"), ("COMPRESSION", "lz4")]));
        round_trip(&Request::Options);
        round_trip(&Request::AuthResponse(Some(b"\0user\0password")));
        round_trip(&Request::Query { query: "SELECT * FROM t", parameters });
        round_trip(&Request::Query { query: "", parameters: Parameters::new(Consistency::One, Values::NONE) });
        round_trip(&Request::Prepare { query: "SELECT é", keyspace: None });
        round_trip(&Request::Execute { id: b"0123456789abcdef", parameters });
        round_trip(&Request::Register(vec![EventKind::SchemaChange, EventKind::StatusChange]));
        round_trip(&Request::Batch(Batch {
            kind: BatchKind::Unlogged,
            statements: vec![
                BatchStatement { statement: QueryOrId::Query("INSERT"), values: Values::NONE },
                BatchStatement { statement: QueryOrId::Id(b"id"), values: values.values() },
            ],
            consistency: Consistency::Two,
            serial_consistency: Some(SerialConsistency::Serial),
            timestamp: Some(7),
            keyspace: None,
            now_s: None,
        }));
    }

    #[test]
    fn what_came_with_v5() {
        let decode = |opcode, body: &'static [u8]| {
            let header = Header { version: Version::V5, flags: 0, stream: 0, opcode, body_len: body.len() as u32 };
            Request::decode(&header, body).unwrap()
        };
        let Request::Execute { id, parameters } =
            decode(Opcode::Execute, b"\0\x01i\0\x01m\0\x01\0\0\x01\x80\0\x01k\0\0\0\x09")
        else {
            panic!("not EXECUTE");
        };
        assert_eq!((id, parameters.metadata_id), (&b"i"[..], Some(&b"m"[..])));
        assert_eq!((parameters.keyspace, parameters.now_s), (Some("k"), Some(9)));
        assert_eq!(
            decode(Opcode::Prepare, b"\0\0\0\x01q\0\0\0\x01\0\x01k"),
            Request::Prepare { query: "q", keyspace: Some("k") }
        );
        let Request::Batch(batch) = decode(Opcode::Batch, b"\0\0\0\0\x01\0\0\0\x80\0\x01k") else {
            panic!("not BATCH");
        };
        assert_eq!(batch.keyspace, Some("k"));
    }

    #[test]
    fn refusals() {
        let decode = |opcode, flags, body: &[u8]| {
            let header = Header { version: Version::V4, flags, stream: 0, opcode, body_len: body.len() as u32 };
            Request::decode(&header, body).map(|_| ()).map_err(|e| e.to_string())
        };
        let keyspace = decode(Opcode::Query, 0, b"\0\0\0\x01x\0\x01\x80").unwrap_err();
        assert_eq!(keyspace, "A keyspace with a statement needs protocol version 5");
        assert!(decode(Opcode::Query, 0, b"\0\0\0\x01x\0\x63\0").unwrap_err().contains("consistency level 99"));
        assert!(decode(Opcode::Batch, 0, b"\x03\0\0\0\x01\0").unwrap_err().contains("Invalid BATCH message type 3"));
        assert!(decode(Opcode::Register, 0, b"\0\x01\0\x01x").is_err());
        // A custom payload is passed over.
        assert_eq!(decode(Opcode::Prepare, FLAG_CUSTOM_PAYLOAD, b"\0\x01\0\x01k\0\0\0\x01v\0\0\0\x01q"), Ok(()));
    }

    proptest! {
        #[test]
        fn never_panics(opcode in 0u8..0x11, flags: u8, body: Vec<u8>) {
            if let Some(opcode) = Opcode::from_code(opcode) {
                let header = Header { version: Version::V4, flags, stream: 0, opcode, body_len: body.len() as u32 };
                if let Ok(Request::Execute { parameters, .. } | Request::Query { parameters, .. }) = Request::decode(&header, &body) {
                    prop_assert_eq!(parameters.values.iter().count(), parameters.values.len());
                }
            }
        }

        #[test]
        fn executes_round_trip(id in proptest::collection::vec(any::<u8>(), 0..20),
                               values in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..50)), 0..20),
                               page_size in proptest::option::of(1u32..100_000), timestamp in proptest::option::of(-i64::MAX..=i64::MAX)) {
            let mut buffer = ValuesBuffer::default();
            for value in &values {
                buffer.push(value.as_deref().into());
            }
            let parameters = Parameters { page_size, timestamp, ..Parameters::new(Consistency::One, buffer.values()) };
            round_trip(&Request::Execute { id: &id, parameters });
        }
    }
}
