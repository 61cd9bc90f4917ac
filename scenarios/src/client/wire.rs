//! One question and its answer on a connection that nothing else uses yet: handshake, schema, tokens, statements.

use std::net::SocketAddr;

use cql::frame::{self, BODY_MAX, HEADER_LEN};
use cql::request::Parameters;
use cql::{Compression, Consistency, Direction, Request, Response, Values};
use reactor::Buf;
use reactor::net::Connection;
use types::Token;

use crate::client::error::ClientError;
use crate::client::ring::Sharding;

const RECEIVE_BYTES: usize = 64 << 10;

pub(super) struct Dialogue {
    pub connection: Connection,
    pub addr: SocketAddr,
    received: Buf,
}

impl Dialogue {
    /// Connects and says STARTUP.
    pub async fn open(addr: SocketAddr) -> Result<Self, ClientError> {
        let connection =
            reactor::net::connect(addr).await.map_err(|source| ClientError::Unreachable { addr, source })?;
        let mut dialogue = Self { connection, addr, received: Buf::with_capacity(RECEIVE_BYTES) };
        let startup = Request::Startup(vec![("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "orrery")]);
        dialogue.ask(&startup, "STARTUP", |response| matches!(response, Response::Ready).then_some(())).await?;
        Ok(dialogue)
    }

    /// What has been received and not been read: nothing, once every question has its answer.
    pub fn into_parts(self) -> (Connection, Buf) {
        (self.connection, self.received)
    }

    /// Asks and reads the answer with `read`; any other answer is a refusal.
    async fn ask<T>(
        &mut self,
        request: &Request<'_>,
        name: &str,
        read: impl FnOnce(&Response<'_>) -> Option<T>,
    ) -> Result<T, ClientError> {
        let addr = self.addr;
        let lost = |source| ClientError::Lost { addr, source };
        let mut bytes = Vec::new();
        request.encode(&mut bytes, 0, Compression::None).map_err(|source| ClientError::Frame { addr, source })?;
        self.connection.send_all(Buf::from(bytes)).await.0.map_err(lost)?;
        loop {
            let decoded = frame::decode(&self.received, Direction::Response, BODY_MAX)
                .map_err(|source| ClientError::Frame { addr, source })?;
            if let Some((header, body)) = decoded {
                let whole = HEADER_LEN + body.len();
                if header.stream < 0 {
                    self.received.consume(whole); // an event
                    continue;
                }
                let response =
                    Response::decode(&header, body).map_err(|source| ClientError::Response { addr, source })?;
                let result = match &response {
                    Response::Error(error) => Err(error.message.clone()),
                    Response::Authenticate(_) => return Err(ClientError::Authentication { addr }),
                    response => read(response).ok_or_else(|| format!("an unexpected {:?}", header.opcode)),
                };
                self.received.consume(whole);
                return result.map_err(|message| ClientError::Refused { addr, request: name.to_string(), message });
            }
            self.received.reserve(RECEIVE_BYTES / 2);
            let (result, buf) = self.connection.recv(std::mem::take(&mut self.received)).await;
            self.received = buf;
            if result.map_err(lost)? == 0 {
                return Err(lost(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// A statement whose result does not matter.
    pub async fn execute(&mut self, text: &str) -> Result<(), ClientError> {
        let parameters = Parameters::new(Consistency::One, Values::NONE);
        self.ask(&Request::Query { query: text, parameters }, text, |_| Some(())).await
    }

    /// The tokens that this node owns; empty if it does not tell.
    pub async fn tokens(&mut self) -> Result<Vec<Token>, ClientError> {
        let query = "SELECT tokens FROM system.local";
        let parameters = Parameters::new(Consistency::One, Values::NONE);
        let answer = self
            .ask(&Request::Query { query, parameters }, query, |response| match response {
                Response::Rows(rows) => Some(
                    rows.iter()
                        .next()
                        .and_then(Result::ok)
                        .and_then(|row| row.cell(0).map(read_tokens))
                        .unwrap_or_default(),
                ),
                _ => None,
            })
            .await;
        match answer {
            Err(ClientError::Refused { .. }) => Ok(Vec::new()),
            other => other,
        }
    }

    /// The shard that serves this connection and how its node deals out partitions; `None` if it does not tell.
    pub async fn sharding(&mut self) -> Result<Option<(u32, Sharding)>, ClientError> {
        self.ask(&Request::Options, "OPTIONS", |response| match response {
            Response::Supported(options) => Some(read_sharding(options)),
            _ => None,
        })
        .await
    }

    /// The prepared statement's id.
    pub async fn prepare(&mut self, text: &str) -> Result<Vec<u8>, ClientError> {
        self.ask(&Request::Prepare { query: text, keyspace: None }, text, |response| match response {
            Response::Prepared(prepared) => Some(prepared.id.to_vec()),
            _ => None,
        })
        .await
    }
}

/// Scylla's extension of the protocol, `docs/dev/protocol-extensions.md`.
fn read_sharding(options: &[(&str, Vec<&str>)]) -> Option<(u32, Sharding)> {
    let told = |key: &str| options.iter().find(|(name, _)| *name == key)?.1.first()?.parse::<u32>().ok();
    let (shard, shards) = (told("SCYLLA_SHARD")?, told("SCYLLA_NR_SHARDS")?);
    let ignore_msb = u8::try_from(told("SCYLLA_SHARDING_IGNORE_MSB")?).ok()?;
    (shard < shards).then_some((shard, Sharding { shards, ignore_msb }))
}

/// A `set<text>` of decimal tokens (native_protocol_v4.spec section 6: count and lengths are `[int]`).
fn read_tokens(value: &[u8]) -> Vec<Token> {
    let mut reader = cql::wire::Reader::new(value);
    let count = reader.i32("count of tokens").unwrap_or(0);
    (0..count)
        .map_while(|_| reader.bytes("token").ok().flatten())
        .filter_map(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok().map(Token))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharding_is_taken_only_whole() {
        let told = |shard: &'static str| {
            let rest = [("SCYLLA_NR_SHARDS", vec!["14"]), ("SCYLLA_SHARDING_IGNORE_MSB", vec!["12"])];
            [vec![("SCYLLA_SHARD", vec![shard])], rest.to_vec()].concat()
        };
        assert_eq!(read_sharding(&told("3")), Some((3, Sharding { shards: 14, ignore_msb: 12 })));
        assert_eq!(read_sharding(&told("14")), None);
        assert_eq!(read_sharding(&[("CQL_VERSION", vec!["3.4.5"])]), None);
    }

    #[test]
    fn tokens_are_decimal_text() {
        let value = b"\0\0\0\x02\0\0\0\x02-7\0\0\0\x0212";
        assert_eq!(read_tokens(value), [Token(-7), Token(12)]);
        assert_eq!(read_tokens(b""), []);
    }
}
