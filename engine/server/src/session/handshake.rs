//! Requests of the connection itself: OPTIONS, STARTUP, REGISTER.

use std::rc::Rc;

use cql::frame::{self, EVENT_STREAM};
use cql::request::EventKind;
use cql::response::{Error, Event, encode_auth_token, encode_authenticate, encode_supported};
use cql::{Compression, Header, Opcode, Request, Version};
use query::Authenticator;

use super::Session;

/// With it a client asks that conditional statements are marked when they are prepared.
const LWT_MARK: &str = "SCYLLA_LWT_ADD_METADATA_MARK";

/// How far a connection is. A request for a statement is taken only when it is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    New,
    /// STARTUP was answered by AUTHENTICATE.
    Authenticating,
    Ready,
}

impl Stage {
    pub fn unexpected(self, opcode: Opcode) -> Error {
        let wanted = match self {
            Stage::New => "STARTUP or OPTIONS",
            Stage::Authenticating => "AUTH_RESPONSE",
            Stage::Ready => "a statement",
        };
        Error::protocol(format!("Unexpected message {}, expecting {wanted}", opcode.name()))
    }
}

impl Session {
    pub(super) fn control(self: &Rc<Self>, header: Header, body: &[u8]) -> Option<(Version, Compression)> {
        let stream = header.stream;
        match Request::decode(&header, body) {
            Ok(Request::Startup(options)) if self.stage.get() == Stage::New => match self.startup(&options) {
                Ok(compression) => {
                    self.client.set_lwt_mark(options.iter().any(|(name, _)| *name == LWT_MARK));
                    if let Some(id) = self.registered {
                        self.node.clients.started(id, &options, header.version as u8);
                    }
                    return Some(self.started(stream, header.version, compression));
                }
                Err(error) => self.refuse(stream, error),
            },
            Ok(Request::Options) if self.stage.get() != Stage::Authenticating => self.supported(stream),
            Ok(Request::Register(kinds)) if self.stage.get() == Stage::Ready => {
                self.register(&kinds);
                self.reply(stream, Opcode::Ready, |_| ());
            }
            Ok(Request::AuthResponse(token)) if self.stage.get() == Stage::Authenticating => {
                self.authenticate(stream, token.unwrap_or_default().to_vec());
            }
            Ok(_) => self.refuse(stream, self.stage.get().unexpected(header.opcode)),
            Err(error) => self.refuse(stream, Error::protocol(error.to_string())),
        }
        None
    }

    /// SUPPORTED. Scylla's extensions let its drivers choose the connection of the shard that owns a token: see its
    /// `docs/dev/protocol-extensions.md`.
    fn supported(&self, stream: i16) {
        let (shard, shards) = reactor::shard_index();
        let (shard, shards) = (shard.to_string(), shards.to_string());
        let ignore_msb = self.node.config.ignore_msb.to_string();
        let host_id = types::uuid::to_text(&self.node.topology().local().host_id.to_be_bytes());
        let aware = |encrypted| self.serving.shard_aware_port(encrypted).map(|port| port.to_string());
        let (plain, encrypted) = (aware(false), aware(true));
        let options: [(&str, &[&str]); 12] = [
            ("CQL_VERSION", &[query::CQL_VERSION]),
            ("COMPRESSION", &["lz4", "snappy"]),
            ("PROTOCOL_VERSIONS", &Version::NAMES),
            ("SCYLLA_HOST_ID", &[&host_id]),
            (LWT_MARK, &[query::LWT_MARK_OPTION]),
            ("SCYLLA_NR_SHARDS", &[&shards]),
            ("SCYLLA_PARTITIONER", &["org.apache.cassandra.dht.Murmur3Partitioner"]),
            ("SCYLLA_SHARD", &[&shard]),
            ("SCYLLA_SHARDING_ALGORITHM", &["biased-token-round-robin"]),
            ("SCYLLA_SHARDING_IGNORE_MSB", &[&ignore_msb]),
            ("SCYLLA_SHARD_AWARE_PORT", &[plain.as_deref().unwrap_or_default()]),
            ("SCYLLA_SHARD_AWARE_PORT_SSL", &[encrypted.as_deref().unwrap_or_default()]),
        ];
        // A port that there is not is not told of.
        let told: Vec<_> = options.into_iter().filter(|(_, values)| *values != [""]).collect();
        self.reply(stream, Opcode::Supported, |out| encode_supported(out, &told));
    }

    fn startup(&self, options: &[(&str, &str)]) -> Result<Compression, Error> {
        let option = |key: &str| options.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        if option("CQL_VERSION").is_none() {
            return Err(Error::protocol("Missing value CQL_VERSION in STARTUP message"));
        }
        let Some(name) = option("COMPRESSION").filter(|name| !name.is_empty()) else { return Ok(Compression::None) };
        let compression = Compression::from_name(name)
            .ok_or_else(|| Error::protocol(format!("Unknown compression algorithm: {name}")))?;
        if compression == Compression::Snappy && self.client.version() >= Version::V5 {
            return Err(Error::protocol("Snappy compression is not part of protocol version 5"));
        }
        Ok(compression)
    }

    /// Answers STARTUP; after that, in v5, all goes in segments.
    fn started(&self, stream: i16, version: Version, compression: Compression) -> (Version, Compression) {
        match self.node.authenticator {
            Authenticator::AllowAll => {
                self.reply(stream, Opcode::Ready, |_| ());
                self.stage.set(Stage::Ready);
            }
            Authenticator::Certificate => match self.node.identify(self.certified.as_deref()) {
                Ok(role) => {
                    self.logged_in(&role);
                    self.reply(stream, Opcode::Ready, |_| ());
                }
                Err(error) => self.refuse(stream, error),
            },
            Authenticator::Password => {
                let class = Authenticator::PASSWORD_CLASS;
                self.reply(stream, Opcode::Authenticate, |out| encode_authenticate(out, class));
                self.stage.set(Stage::Authenticating);
            }
        }
        if version >= Version::V5 {
            self.outbox.begin_segments(compression == Compression::Lz4);
        } else {
            self.compression.set(compression);
        }
        (version, compression)
    }

    /// One attempt after another: a client may try again on the same connection.
    fn authenticate(self: &Rc<Self>, stream: i16, token: Vec<u8>) {
        self.run(async move |session| {
            let found = session.node.authenticate(&token).await;
            // The name that was said, for who looks after the node; the client is not told whether it exists.
            let said = token.split(|&byte| byte == 0).nth(1).map(String::from_utf8_lossy).unwrap_or_default();
            session.node.audit_login(&session.client, &said, found.is_err()).await;
            match found {
                Ok(role) => {
                    session.logged_in(&role);
                    session.reply(stream, Opcode::AuthSuccess, |out| encode_auth_token(out, None));
                }
                Err(error) => session.refuse(stream, error),
            }
        });
    }

    fn logged_in(&self, role: &str) {
        self.client.log_in(role);
        if let Some(id) = self.registered {
            self.node.clients.logged_in(id, role);
        }
        self.stage.set(Stage::Ready);
    }

    fn register(self: &Rc<Self>, kinds: &[EventKind]) {
        if !self.listeners.borrow().is_empty() {
            return;
        }
        // The outbox alone: the node must not keep the session alive.
        let (outbox, version) = (self.outbox.clone(), self.client.version());
        let send = move |event: &Event| {
            outbox.write(|out| {
                let start = frame::begin_version(out, version, Opcode::Event, EVENT_STREAM, 0);
                event.encode(out);
                if frame::finish(out, start, Compression::None).is_err() {
                    tracing::error!("an event of over 2 GiB");
                }
            });
        };
        let kinds = kinds.to_vec();
        let listener = Rc::new(move |event: &Event| {
            if kinds.contains(&event.kind()) {
                send(event);
            }
        });
        self.listeners.borrow_mut().push(self.node.listen(listener));
    }
}
