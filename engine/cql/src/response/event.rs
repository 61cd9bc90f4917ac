//! EVENT, and RESULT Schema_change, which has the same form.

use std::net::SocketAddr;

use crate::request::EventKind;
use crate::wire::{self, DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    NewNode(SocketAddr),
    RemovedNode(SocketAddr),
    Up(SocketAddr),
    Down(SocketAddr),
    Schema(SchemaChange),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Created,
    Updated,
    Dropped,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    pub change: Change,
    pub keyspace: String,
    pub target: SchemaTarget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaTarget {
    Keyspace,
    Table(String),
    Type(String),
    Function { name: String, argument_types: Vec<String> },
    Aggregate { name: String, argument_types: Vec<String> },
}

impl Event {
    /// What a client must have registered for to be sent it.
    pub fn kind(&self) -> EventKind {
        match self {
            Event::NewNode(_) | Event::RemovedNode(_) => EventKind::TopologyChange,
            Event::Up(_) | Event::Down(_) => EventKind::StatusChange,
            Event::Schema(_) => EventKind::SchemaChange,
        }
    }

    /// Appends the body of EVENT; its stream is [`crate::frame::EVENT_STREAM`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        wire::put_string(out, self.kind().name());
        let (change, address) = match self {
            Event::NewNode(address) => ("NEW_NODE", address),
            Event::RemovedNode(address) => ("REMOVED_NODE", address),
            Event::Up(address) => ("UP", address),
            Event::Down(address) => ("DOWN", address),
            Event::Schema(change) => return change.encode(out),
        };
        wire::put_string(out, change);
        wire::put_inet(out, *address);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Event, DecodeError> {
        let kind = reader.string("event type")?;
        if EventKind::from_name(kind) == Some(EventKind::SchemaChange) {
            return Ok(Event::Schema(SchemaChange::decode(reader)?));
        }
        let change = reader.string("change")?;
        let address = reader.inet("address")?;
        Ok(match (kind, change) {
            ("TOPOLOGY_CHANGE", "NEW_NODE") => Event::NewNode(address),
            ("TOPOLOGY_CHANGE", "REMOVED_NODE") => Event::RemovedNode(address),
            ("STATUS_CHANGE", "UP") => Event::Up(address),
            ("STATUS_CHANGE", "DOWN") => Event::Down(address),
            _ => return Err(DecodeError::Invalid(format!("Unknown event {kind} {change}"))),
        })
    }
}

impl SchemaChange {
    pub fn keyspace(change: Change, keyspace: &str) -> SchemaChange {
        SchemaChange { change, keyspace: keyspace.to_string(), target: SchemaTarget::Keyspace }
    }

    pub fn table(change: Change, keyspace: &str, table: &str) -> SchemaChange {
        let target = SchemaTarget::Table(table.to_string());
        SchemaChange { change, keyspace: keyspace.to_string(), target }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        wire::put_string(
            out,
            match self.change {
                Change::Created => "CREATED",
                Change::Updated => "UPDATED",
                Change::Dropped => "DROPPED",
            },
        );
        let mut named = |target: &str, names: &[&str]| {
            wire::put_string(out, target);
            wire::put_string(out, &self.keyspace);
            for name in names {
                wire::put_string(out, name);
            }
        };
        match &self.target {
            SchemaTarget::Keyspace => named("KEYSPACE", &[]),
            SchemaTarget::Table(name) => named("TABLE", &[name]),
            SchemaTarget::Type(name) => named("TYPE", &[name]),
            SchemaTarget::Function { name, argument_types } => {
                named("FUNCTION", &[name]);
                wire::put_string_list(out, argument_types.iter().map(String::as_str));
            }
            SchemaTarget::Aggregate { name, argument_types } => {
                named("AGGREGATE", &[name]);
                wire::put_string_list(out, argument_types.iter().map(String::as_str));
            }
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<SchemaChange, DecodeError> {
        let change = match reader.string("change")? {
            "CREATED" => Change::Created,
            "UPDATED" => Change::Updated,
            "DROPPED" => Change::Dropped,
            other => return Err(DecodeError::Invalid(format!("Unknown schema change {other}"))),
        };
        let target = reader.string("target")?;
        let keyspace = reader.string("keyspace")?.to_string();
        let mut name = || Ok::<_, DecodeError>(reader.string("name")?.to_string());
        let target = match target {
            "KEYSPACE" => SchemaTarget::Keyspace,
            "TABLE" => SchemaTarget::Table(name()?),
            "TYPE" => SchemaTarget::Type(name()?),
            "FUNCTION" | "AGGREGATE" => {
                let name = name()?;
                let argument_types = reader.string_list("argument types")?.into_iter().map(str::to_string).collect();
                if target == "FUNCTION" {
                    SchemaTarget::Function { name, argument_types }
                } else {
                    SchemaTarget::Aggregate { name, argument_types }
                }
            }
            other => return Err(DecodeError::Invalid(format!("Unknown target of a schema change {other}"))),
        };
        Ok(SchemaChange { change, keyspace, target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_round_trip() {
        let address = "127.0.0.3:9042".parse().unwrap();
        let function = SchemaTarget::Function {
            name: "f".to_string(),
            argument_types: vec!["int".to_string(), "text".to_string()],
        };
        for event in [
            Event::NewNode(address),
            Event::RemovedNode(address),
            Event::Up(address),
            Event::Down(address),
            Event::Schema(SchemaChange::keyspace(Change::Dropped, "k")),
            Event::Schema(SchemaChange::table(Change::Created, "k", "t")),
            Event::Schema(SchemaChange { change: Change::Updated, keyspace: "k".to_string(), target: function }),
        ] {
            let mut out = Vec::new();
            event.encode(&mut out);
            let mut reader = Reader::new(&out);
            assert_eq!(Event::decode(&mut reader), Ok(event));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn golden_table_created() {
        let mut out = Vec::new();
        SchemaChange::table(Change::Created, "k", "t").encode(&mut out);
        assert_eq!(out, b"\0\x07CREATED\0\x05TABLE\0\x01k\0\x01t");
    }
}
