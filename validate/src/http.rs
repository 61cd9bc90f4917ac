//! One question to a node's HTTP API, and its answer: a connection each.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// To connect; an answer may take as long as what was asked.
const CONNECT_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// `200` where all is well.
    pub status: String,
    pub body: String,
}

/// Asks for `target`, a path with its query.
pub fn ask(address: SocketAddr, method: &str, target: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_MAX)?;
    let head =
        format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split_ascii_whitespace().nth(1).unwrap_or("");
    Ok(Answer { status: status.into(), body: body.into() })
}
