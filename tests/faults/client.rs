//! A session with the cluster as a careful client has it: one question at a time, each with a deadline, over a
//! connection to one node that is given up when anything is wrong with it.

use std::net::SocketAddr;
use std::time::Duration;

use cql::frame::{self, BODY_MAX, HEADER_LEN};
use cql::request::Parameters;
use cql::response::{Error, ErrorKind};
use cql::values::ValuesBuffer;
use cql::{Compression, Consistency, Direction, Request, Response, Values};
use reactor::Buf;
use reactor::net::{self, Connection};
use reactor::time::timeout;

/// Longer than the servers' own time-outs, so that their answers are heard where they can be.
pub const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(400);

/// Why a question has no result.
#[derive(Debug)]
pub enum Trouble {
    /// The server's own error.
    Answered(Error),
    /// The connection or the time ended first.
    Lost(String),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Answered(error) => write!(f, "{error}"),
            Trouble::Lost(cause) => f.write_str(cause),
        }
    }
}

impl Trouble {
    /// Whether the server said that nothing has been done.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Trouble::Answered(Error { kind: ErrorKind::Unavailable { .. } | ErrorKind::Unprepared { .. }, .. })
        )
    }
}

/// A connection to one node, with the statements prepared on it.
pub struct Link {
    connection: Connection,
    received: Buf,
    statements: Vec<Vec<u8>>,
    /// A question was given up: its answer may still come, and nobody could tell whose it is.
    spoilt: bool,
}

impl Link {
    /// Connects and prepares `statements`, to be named by their place.
    pub async fn open(addr: SocketAddr, statements: &[&str]) -> Result<Self, Trouble> {
        let lost = |cause: &dyn std::fmt::Display| Trouble::Lost(format!("connecting: {cause}"));
        let connected = timeout(CONNECT_TIMEOUT, net::connect(addr)).await.map_err(|error| lost(&error))?;
        let connection = connected.map_err(|error| lost(&error))?;
        let mut link = Self { connection, received: Buf::with_capacity(4096), statements: Vec::new(), spoilt: false };
        link.ask(&Request::Startup(vec![("CQL_VERSION", "3.0.0")]), |_| ()).await?;
        for query in statements {
            let id = |response: &Response<'_>| match response {
                Response::Prepared(prepared) => prepared.id.to_vec(),
                other => panic!("PREPARE is answered by {other:?}"),
            };
            let id = link.ask(&Request::Prepare { query, keyspace: None }, id).await?;
            link.statements.push(id);
        }
        Ok(link)
    }

    pub fn is_spoilt(&self) -> bool {
        self.spoilt
    }

    pub async fn query<T>(&mut self, query: &str, read: impl FnOnce(&Response<'_>) -> T) -> Result<T, Trouble> {
        let parameters = Parameters::new(Consistency::One, Values::NONE);
        self.ask(&Request::Query { query, parameters }, read).await
    }

    /// Executes a prepared statement at QUORUM.
    pub async fn execute<T>(
        &mut self,
        statement: usize,
        values: &ValuesBuffer,
        read: impl FnOnce(&Response<'_>) -> T,
    ) -> Result<T, Trouble> {
        self.execute_at(Consistency::Quorum, statement, values, read).await
    }

    pub async fn execute_at<T>(
        &mut self,
        consistency: Consistency,
        statement: usize,
        values: &ValuesBuffer,
        read: impl FnOnce(&Response<'_>) -> T,
    ) -> Result<T, Trouble> {
        let id = self.statements[statement].clone();
        let parameters = Parameters::new(consistency, values.values());
        self.ask(&Request::Execute { id: &id, parameters }, read).await
    }

    async fn ask<T>(&mut self, request: &Request<'_>, read: impl FnOnce(&Response<'_>) -> T) -> Result<T, Trouble> {
        let answer = match timeout(ANSWER_TIMEOUT, self.dialogue(request, read)).await {
            Ok(Ok(answer)) => return answer.map_err(Trouble::Answered),
            Ok(Err(cause)) => Err(Trouble::Lost(cause)),
            Err(_) => Err(Trouble::Lost("no answer in time".into())),
        };
        self.spoilt = true;
        answer
    }

    async fn dialogue<T>(
        &mut self,
        request: &Request<'_>,
        read: impl FnOnce(&Response<'_>) -> T,
    ) -> Result<Result<T, Error>, String> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes, 0, Compression::None).map_err(|error| error.to_string())?;
        self.connection.send_all(Buf::from(bytes)).await.0.map_err(|error| format!("sending: {error}"))?;
        loop {
            let decoded = frame::decode(&self.received, Direction::Response, BODY_MAX).map_err(|e| e.to_string())?;
            if let Some((header, body)) = decoded {
                let whole = HEADER_LEN + body.len();
                let result = match Response::decode(&header, body).map_err(|error| error.to_string())? {
                    Response::Error(error) => Err(error),
                    response => Ok(read(&response)),
                };
                self.received.consume(whole);
                return Ok(result);
            }
            self.received.reserve(4096);
            let (result, received) = self.connection.recv(std::mem::take(&mut self.received)).await;
            self.received = received;
            match result {
                Ok(0) => return Err("the connection was closed".into()),
                Ok(_) => {}
                Err(error) => return Err(format!("receiving: {error}")),
            }
        }
    }
}
