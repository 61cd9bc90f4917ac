//! ERROR: every code of the specification's section 9 with its further fields.

use crate::Consistency;
use crate::frame::Version;
use crate::wire::{self, DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    Server,
    Protocol,
    BadCredentials,
    Unavailable {
        consistency: Consistency,
        required: u32,
        alive: u32,
    },
    Overloaded,
    IsBootstrapping,
    Truncate,
    WriteTimeout {
        consistency: Consistency,
        received: u32,
        block_for: u32,
        write_type: WriteType,
    },
    ReadTimeout {
        consistency: Consistency,
        received: u32,
        block_for: u32,
        data_present: bool,
    },
    ReadFailure {
        consistency: Consistency,
        received: u32,
        block_for: u32,
        failures: u32,
        data_present: bool,
    },
    FunctionFailure {
        keyspace: String,
        function: String,
        argument_types: Vec<String>,
    },
    WriteFailure {
        consistency: Consistency,
        received: u32,
        block_for: u32,
        failures: u32,
        write_type: WriteType,
    },
    Syntax,
    Unauthorized,
    Invalid,
    Config,
    /// `table` is empty when it is the keyspace that exists.
    AlreadyExists {
        keyspace: String,
        table: String,
    },
    Unprepared {
        id: Vec<u8>,
    },
}

/// Which part of a write did not end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteType {
    Simple,
    Batch,
    UnloggedBatch,
    Counter,
    BatchLog,
    Cas,
    View,
    Cdc,
}

impl WriteType {
    const ALL: [WriteType; 8] = [
        WriteType::Simple,
        WriteType::Batch,
        WriteType::UnloggedBatch,
        WriteType::Counter,
        WriteType::BatchLog,
        WriteType::Cas,
        WriteType::View,
        WriteType::Cdc,
    ];

    pub fn name(self) -> &'static str {
        match self {
            WriteType::Simple => "SIMPLE",
            WriteType::Batch => "BATCH",
            WriteType::UnloggedBatch => "UNLOGGED_BATCH",
            WriteType::Counter => "COUNTER",
            WriteType::BatchLog => "BATCH_LOG",
            WriteType::Cas => "CAS",
            WriteType::View => "VIEW",
            WriteType::Cdc => "CDC",
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<WriteType, DecodeError> {
        let name = reader.string("write type")?;
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| DecodeError::Invalid(format!("Unknown write type {name}")))
    }
}

impl ErrorKind {
    /// What metrics call it.
    pub fn metric(&self) -> &'static str {
        match self {
            ErrorKind::Server => "server",
            ErrorKind::Protocol => "protocol_error",
            ErrorKind::BadCredentials => "authentication",
            ErrorKind::Unavailable { .. } => "unavailable",
            ErrorKind::Overloaded => "overloaded",
            ErrorKind::IsBootstrapping => "is_bootstrapping",
            ErrorKind::Truncate => "truncate",
            ErrorKind::WriteTimeout { .. } => "write_timeout",
            ErrorKind::ReadTimeout { .. } => "read_timeout",
            ErrorKind::ReadFailure { .. } => "read_failure",
            ErrorKind::FunctionFailure { .. } => "function_failure",
            ErrorKind::WriteFailure { .. } => "write_failure",
            ErrorKind::Syntax => "syntax_error",
            ErrorKind::Unauthorized => "unauthorized",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Config => "config",
            ErrorKind::AlreadyExists { .. } => "already_exists",
            ErrorKind::Unprepared { .. } => "unprepared",
        }
    }

    pub fn code(&self) -> i32 {
        match self {
            ErrorKind::Server => 0x0000,
            ErrorKind::Protocol => 0x000A,
            ErrorKind::BadCredentials => 0x0100,
            ErrorKind::Unavailable { .. } => 0x1000,
            ErrorKind::Overloaded => 0x1001,
            ErrorKind::IsBootstrapping => 0x1002,
            ErrorKind::Truncate => 0x1003,
            ErrorKind::WriteTimeout { .. } => 0x1100,
            ErrorKind::ReadTimeout { .. } => 0x1200,
            ErrorKind::ReadFailure { .. } => 0x1300,
            ErrorKind::FunctionFailure { .. } => 0x1400,
            ErrorKind::WriteFailure { .. } => 0x1500,
            ErrorKind::Syntax => 0x2000,
            ErrorKind::Unauthorized => 0x2100,
            ErrorKind::Invalid => 0x2200,
            ErrorKind::Config => 0x2300,
            ErrorKind::AlreadyExists { .. } => 0x2400,
            ErrorKind::Unprepared { .. } => 0x2500,
        }
    }
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    pub fn server(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Server, message)
    }

    pub fn protocol(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Protocol, message)
    }

    pub fn syntax(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Syntax, message)
    }

    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message)
    }

    pub fn config(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Config, message)
    }

    pub fn overloaded(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Overloaded, message)
    }

    /// In the words of Cassandra's `UnavailableException`.
    pub fn unavailable(consistency: Consistency, required: u32, alive: u32) -> Error {
        let message = format!("Cannot achieve consistency level {consistency}");
        Error::new(ErrorKind::Unavailable { consistency, required, alive }, message)
    }

    pub fn write_timeout(consistency: Consistency, received: u32, block_for: u32, write_type: WriteType) -> Error {
        let message = timed_out(received);
        Error::new(ErrorKind::WriteTimeout { consistency, received, block_for, write_type }, message)
    }

    pub fn read_timeout(consistency: Consistency, received: u32, block_for: u32, data_present: bool) -> Error {
        let message = timed_out(received);
        Error::new(ErrorKind::ReadTimeout { consistency, received, block_for, data_present }, message)
    }

    pub fn already_exists(keyspace: &str, table: &str) -> Error {
        let message = if table.is_empty() {
            format!("Cannot add existing keyspace \"{keyspace}\"")
        } else {
            format!("Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\"")
        };
        let kind = ErrorKind::AlreadyExists { keyspace: keyspace.to_string(), table: table.to_string() };
        Error::new(kind, message)
    }

    /// Clients prepare the statement again and repeat the request.
    pub fn unprepared(id: &[u8]) -> Error {
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let message = format!(
            "Prepared query with ID {hex} not found (either the query was not prepared on this host \
             (maybe the host has been restarted?) or you have prepared too many queries and it has been evicted \
             from the internal cache)"
        );
        Error::new(ErrorKind::Unprepared { id: id.to_vec() }, message)
    }

    pub fn code(&self) -> i32 {
        self.kind.code()
    }

    /// Appends the body of ERROR, as v4 has it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as(out, Version::V4);
    }

    /// v3 knows no failures, only timeouts; v5 has a map of nodes and reasons in place of their count.
    pub fn encode_as(&self, out: &mut Vec<u8>, version: Version) {
        let mut known_to_v3 = |kind| Error { kind, message: self.message.clone() }.encode_as(out, version);
        match self.kind.clone() {
            ErrorKind::ReadFailure { consistency, received, block_for, data_present, .. } if version < Version::V4 => {
                return known_to_v3(ErrorKind::ReadTimeout { consistency, received, block_for, data_present });
            }
            ErrorKind::WriteFailure { consistency, received, block_for, write_type, .. } if version < Version::V4 => {
                return known_to_v3(ErrorKind::WriteTimeout { consistency, received, block_for, write_type });
            }
            ErrorKind::FunctionFailure { .. } if version < Version::V4 => return known_to_v3(ErrorKind::Invalid),
            _ => {}
        }
        // Which node failed how is not told: an empty map.
        let failures_of = |failures: u32| if version >= Version::V5 { 0 } else { failures };
        wire::put_i32(out, self.code());
        wire::put_string(out, &self.message);
        let counts = |out: &mut Vec<u8>, consistency: Consistency, counts: &[u32]| {
            wire::put_u16(out, consistency.code());
            for &count in counts {
                wire::put_i32(out, count as i32);
            }
        };
        match &self.kind {
            ErrorKind::Unavailable { consistency, required, alive } => counts(out, *consistency, &[*required, *alive]),
            ErrorKind::WriteTimeout { consistency, received, block_for, write_type } => {
                counts(out, *consistency, &[*received, *block_for]);
                wire::put_string(out, write_type.name());
            }
            ErrorKind::ReadTimeout { consistency, received, block_for, data_present } => {
                counts(out, *consistency, &[*received, *block_for]);
                out.push(u8::from(*data_present));
            }
            ErrorKind::ReadFailure { consistency, received, block_for, failures, data_present } => {
                counts(out, *consistency, &[*received, *block_for, failures_of(*failures)]);
                out.push(u8::from(*data_present));
            }
            ErrorKind::WriteFailure { consistency, received, block_for, failures, write_type } => {
                counts(out, *consistency, &[*received, *block_for, failures_of(*failures)]);
                wire::put_string(out, write_type.name());
            }
            ErrorKind::FunctionFailure { keyspace, function, argument_types } => {
                wire::put_string(out, keyspace);
                wire::put_string(out, function);
                wire::put_string_list(out, argument_types.iter().map(String::as_str));
            }
            ErrorKind::AlreadyExists { keyspace, table } => {
                wire::put_string(out, keyspace);
                wire::put_string(out, table);
            }
            ErrorKind::Unprepared { id } => wire::put_short_bytes(out, id),
            _ => {}
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Error, DecodeError> {
        let code = reader.i32("error code")?;
        let message = reader.string("error message")?.to_string();
        let consistency = |reader: &mut Reader<'_>| Consistency::from_code(reader.u16("consistency")?);
        let count = |reader: &mut Reader<'_>| Ok(reader.i32("count of replicas")?.max(0) as u32);
        let kind = match code {
            0x0000 => ErrorKind::Server,
            0x000A => ErrorKind::Protocol,
            0x0100 => ErrorKind::BadCredentials,
            0x1000 => ErrorKind::Unavailable {
                consistency: consistency(reader)?,
                required: count(reader)?,
                alive: count(reader)?,
            },
            0x1001 => ErrorKind::Overloaded,
            0x1002 => ErrorKind::IsBootstrapping,
            0x1003 => ErrorKind::Truncate,
            0x1100 => ErrorKind::WriteTimeout {
                consistency: consistency(reader)?,
                received: count(reader)?,
                block_for: count(reader)?,
                write_type: WriteType::decode(reader)?,
            },
            0x1200 => ErrorKind::ReadTimeout {
                consistency: consistency(reader)?,
                received: count(reader)?,
                block_for: count(reader)?,
                data_present: reader.u8("data present")? != 0,
            },
            0x1300 => ErrorKind::ReadFailure {
                consistency: consistency(reader)?,
                received: count(reader)?,
                block_for: count(reader)?,
                failures: count(reader)?,
                data_present: reader.u8("data present")? != 0,
            },
            0x1400 => ErrorKind::FunctionFailure {
                keyspace: reader.string("keyspace")?.to_string(),
                function: reader.string("function")?.to_string(),
                argument_types: reader.string_list("argument types")?.into_iter().map(str::to_string).collect(),
            },
            0x1500 => ErrorKind::WriteFailure {
                consistency: consistency(reader)?,
                received: count(reader)?,
                block_for: count(reader)?,
                failures: count(reader)?,
                write_type: WriteType::decode(reader)?,
            },
            0x2000 => ErrorKind::Syntax,
            0x2100 => ErrorKind::Unauthorized,
            0x2200 => ErrorKind::Invalid,
            0x2300 => ErrorKind::Config,
            0x2400 => ErrorKind::AlreadyExists {
                keyspace: reader.string("keyspace")?.to_string(),
                table: reader.string("table")?.to_string(),
            },
            0x2500 => ErrorKind::Unprepared { id: reader.short_bytes("statement id")?.to_vec() },
            code => return Err(DecodeError::Unknown { what: "The error code", value: code as i64 }),
        };
        Ok(Error { kind, message })
    }
}

/// As Cassandra's `RequestTimeoutException`.
fn timed_out(received: u32) -> String {
    format!("Operation timed out - received only {received} responses.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips() {
        let (consistency, received, block_for, failures) = (Consistency::Quorum, 1, 2, 1);
        let text = |s: &str| s.to_string();
        let kinds = [
            ErrorKind::Server,
            ErrorKind::Protocol,
            ErrorKind::BadCredentials,
            ErrorKind::Unavailable { consistency, required: 2, alive: 1 },
            ErrorKind::Overloaded,
            ErrorKind::IsBootstrapping,
            ErrorKind::Truncate,
            ErrorKind::WriteTimeout { consistency, received, block_for, write_type: WriteType::UnloggedBatch },
            ErrorKind::ReadTimeout { consistency, received, block_for, data_present: true },
            ErrorKind::ReadFailure { consistency, received, block_for, failures, data_present: false },
            ErrorKind::FunctionFailure { keyspace: text("k"), function: text("f"), argument_types: vec![text("int")] },
            ErrorKind::WriteFailure { consistency, received, block_for, failures, write_type: WriteType::Simple },
            ErrorKind::Syntax,
            ErrorKind::Unauthorized,
            ErrorKind::Invalid,
            ErrorKind::Config,
            ErrorKind::AlreadyExists { keyspace: text("k"), table: text("t") },
            ErrorKind::Unprepared { id: vec![1, 2, 3] },
        ];
        for kind in kinds {
            let error = Error::new(kind, "because");
            let mut out = Vec::new();
            error.encode(&mut out);
            let mut reader = Reader::new(&out);
            assert_eq!(Error::decode(&mut reader), Ok(error));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn golden_unavailable() {
        let mut out = Vec::new();
        Error { message: "x".to_string(), ..Error::unavailable(Consistency::Quorum, 2, 1) }.encode(&mut out);
        assert_eq!(out, b"\0\0\x10\0\0\x01x\0\x04\0\0\0\x02\0\0\0\x01");
    }
}
