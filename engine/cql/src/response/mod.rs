//! Responses: encoded by the server straight into its send buffer, decoded by the client with rows left where they
//! lie.
//!
//! A server's answer is `frame::begin`, one of the encoders here, `frame::finish`. Rows are written cell by cell
//! through [`RowsWriter`]; nothing is allocated for a cell.

mod error;
mod event;
mod metadata;
mod prepared;
mod rows;

pub use error::{Error, ErrorKind, WriteType};
pub use event::{Change, Event, SchemaChange, SchemaTarget};
pub use metadata::{ColumnSpec, EncodedMetadata};
pub use prepared::{Prepared, PreparedForm, encode_prepared, encode_prepared_as};
pub use rows::{CellsIter, Row, Rows, RowsIter, RowsWriter, announce_metadata};

use crate::frame::{FLAG_CUSTOM_PAYLOAD, FLAG_TRACING, FLAG_WARNING, Header, Opcode};
use crate::wire::{self, DecodeError, Reader};

/// The `[int]` that a RESULT begins with.
mod result_kind {
    pub const VOID: i32 = 1;
    pub const ROWS: i32 = 2;
    pub const SET_KEYSPACE: i32 = 3;
    pub const PREPARED: i32 = 4;
    pub const SCHEMA_CHANGE: i32 = 5;
}

/// Body of RESULT Void.
pub fn encode_void(out: &mut Vec<u8>) {
    wire::put_i32(out, result_kind::VOID);
}

/// Body of RESULT Set_keyspace.
pub fn encode_set_keyspace(out: &mut Vec<u8>, keyspace: &str) {
    wire::put_i32(out, result_kind::SET_KEYSPACE);
    wire::put_string(out, keyspace);
}

/// Body of RESULT Schema_change.
pub fn encode_schema_change(out: &mut Vec<u8>, change: &SchemaChange) {
    wire::put_i32(out, result_kind::SCHEMA_CHANGE);
    change.encode(out);
}

/// Body of SUPPORTED, in the order given.
pub fn encode_supported(out: &mut Vec<u8>, options: &[(&str, &[&str])]) {
    wire::put_u16(out, options.len() as u16);
    for (key, values) in options {
        wire::put_string(out, key);
        wire::put_string_list(out, values.iter().copied());
    }
}

/// What comes before the body proper when the frame's flags say so, in this order.
pub fn encode_trace_id(out: &mut Vec<u8>, id: u128) {
    out.extend_from_slice(&id.to_be_bytes());
}

/// After the trace id. More than fit a list are left out.
pub fn encode_warnings(out: &mut Vec<u8>, warnings: &[String]) {
    let list = &warnings[..warnings.len().min(u16::MAX as usize)];
    wire::put_string_list(out, list.iter().map(String::as_str));
}

/// Body of AUTHENTICATE: the class whose client side the driver must be.
pub fn encode_authenticate(out: &mut Vec<u8>, authenticator: &str) {
    wire::put_string(out, authenticator);
}

/// Body of AUTH_SUCCESS and AUTH_CHALLENGE.
pub fn encode_auth_token(out: &mut Vec<u8>, token: Option<&[u8]>) {
    wire::put_bytes(out, token);
}

#[derive(Clone, Debug, PartialEq)]
pub enum Response<'a> {
    Error(Error),
    Ready,
    Authenticate(&'a str),
    Supported(Vec<(&'a str, Vec<&'a str>)>),
    AuthChallenge(Option<&'a [u8]>),
    AuthSuccess(Option<&'a [u8]>),
    Void,
    Rows(Rows<'a>),
    SetKeyspace(&'a str),
    Prepared(Prepared<'a>),
    SchemaChange(SchemaChange),
    Event(Event),
}

impl<'a> Response<'a> {
    /// `body` is plain: see [`crate::frame::plain_body`]. A trace id, warnings and a custom payload are passed over.
    pub fn decode(header: &Header, body: &'a [u8]) -> Result<Response<'a>, DecodeError> {
        let mut reader = Reader::new(body);
        if header.flags & FLAG_TRACING != 0 {
            reader.take(16, "trace id")?;
        }
        if header.flags & FLAG_WARNING != 0 {
            reader.string_list("warnings")?;
        }
        if header.flags & FLAG_CUSTOM_PAYLOAD != 0 {
            reader.skip_bytes_map("custom payload")?;
        }
        let reader = &mut reader;
        Ok(match header.opcode {
            Opcode::Result => Self::decode_result(reader)?,
            Opcode::Error => Response::Error(Error::decode(reader)?),
            Opcode::Ready => Response::Ready,
            Opcode::Authenticate => Response::Authenticate(reader.string("authenticator")?),
            Opcode::Supported => {
                let count = reader.u16("count of options")?;
                let option = |_| Ok((reader.string("option")?, reader.string_list("values of an option")?));
                Response::Supported((0..count).map(option).collect::<Result<_, DecodeError>>()?)
            }
            Opcode::AuthChallenge => Response::AuthChallenge(reader.bytes("token")?),
            Opcode::AuthSuccess => Response::AuthSuccess(reader.bytes("token")?),
            Opcode::Event => Response::Event(Event::decode(reader)?),
            other => return Err(DecodeError::Unknown { what: "As a response, opcode", value: other as i64 }),
        })
    }

    fn decode_result(reader: &mut Reader<'a>) -> Result<Response<'a>, DecodeError> {
        Ok(match reader.i32("kind of result")? {
            result_kind::VOID => Response::Void,
            result_kind::ROWS => Response::Rows(Rows::decode(reader)?),
            result_kind::SET_KEYSPACE => Response::SetKeyspace(reader.string("keyspace")?),
            result_kind::PREPARED => Response::Prepared(Prepared::decode(reader)?),
            result_kind::SCHEMA_CHANGE => Response::SchemaChange(SchemaChange::decode(reader)?),
            kind => return Err(DecodeError::Unknown { what: "The kind of result", value: kind as i64 }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::{Compression, Direction};
    use proptest::prelude::*;

    fn header(opcode: Opcode, body: &[u8]) -> Header {
        Header { version: frame::Version::V4, flags: 0, stream: 0, opcode, body_len: body.len() as u32 }
    }

    #[test]
    fn small_bodies() {
        let check = |opcode, encode: &dyn Fn(&mut Vec<u8>), expect: Response<'_>| {
            let mut out = Vec::new();
            let start = frame::begin(&mut out, opcode, 1);
            encode(&mut out);
            frame::finish(&mut out, start, Compression::Lz4).unwrap();
            let (header, body) = frame::decode(&out, Direction::Response, 1 << 20).unwrap().unwrap();
            assert_eq!(Response::decode(&header, body), Ok(expect));
        };
        check(Opcode::Result, &encode_void, Response::Void);
        check(Opcode::Ready, &|_| {}, Response::Ready);
        check(Opcode::Result, &|out| encode_set_keyspace(out, "ks"), Response::SetKeyspace("ks"));
        check(
            Opcode::Supported,
            &|out| encode_supported(out, &[("CQL_VERSION", &["3.4.5"]), ("COMPRESSION", &["lz4"])]),
            Response::Supported(vec![("CQL_VERSION", vec!["3.4.5"]), ("COMPRESSION", vec!["lz4"])]),
        );
        check(Opcode::Authenticate, &|out| encode_authenticate(out, "A"), Response::Authenticate("A"));
        check(Opcode::AuthSuccess, &|out| encode_auth_token(out, None), Response::AuthSuccess(None));
    }

    #[test]
    fn trace_and_warnings_are_passed_over() {
        let mut body = vec![0; 16];
        wire::put_string_list(&mut body, ["slow"].into_iter());
        encode_void(&mut body);
        let header = Header { flags: FLAG_TRACING | FLAG_WARNING, ..header(Opcode::Result, &body) };
        assert_eq!(Response::decode(&header, &body), Ok(Response::Void));
    }

    proptest! {
        #[test]
        fn never_panics(opcode in 0u8..0x11, flags: u8, kind in 0i32..7, mut body in proptest::collection::vec(any::<u8>(), 4..200)) {
            body[..4].copy_from_slice(&kind.to_be_bytes());
            if let Some(opcode) = Opcode::from_code(opcode) {
                let header = Header { flags, ..header(opcode, &body) };
                if let Ok(Response::Rows(rows)) = Response::decode(&header, &body) {
                    for row in rows.iter().take(1_000).flatten() {
                        let _ = row.cells().count();
                    }
                }
            }
        }
    }
}
