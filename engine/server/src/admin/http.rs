//! HTTP/1.1 as the admin API needs it: requests without a body of note, one after the other on a connection, answered
//! with a length.
//!
//! A head or a body beyond its limit, a transfer encoding, or bytes that are not HTTP end the connection with an error
//! answer; nothing is guessed.

use reactor::Buf;
use reactor::net::Connection;

/// What a head may have: the longest are those of browsers, of some KiB.
const HEAD_MAX: usize = 16 << 10;
/// Nothing that is asked here needs a body; some clients send forms.
const BODY_MAX: usize = 1 << 20;
const HEADERS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    Delete,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub method: Method,
    /// Decoded, without empty ones.
    pub segments: Vec<String>,
    pub parameters: Vec<(String, String)>,
    pub keep_alive: bool,
}

impl Request {
    /// The value of a parameter that is there and not empty.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    pub fn flag(&self, name: &str, default: bool) -> bool {
        self.parameter(name).map_or(default, |value| matches!(value, "true" | "True" | "1" | "yes"))
    }

    /// The parts of a parameter that commas separate.
    pub fn list(&self, name: &str) -> Vec<String> {
        let value = self.parameter(name).unwrap_or("");
        value.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_string).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

impl Response {
    fn reason(&self) -> &'static str {
        match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            413 => "Content Too Large",
            _ => "Internal Server Error",
        }
    }

    pub fn encode(&self, keep_alive: bool) -> Vec<u8> {
        let head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n\r\n",
            self.status,
            self.reason(),
            self.content_type,
            self.body.len(),
            if keep_alive { "keep-alive" } else { "close" },
        );
        [head.as_bytes(), &self.body].concat()
    }
}

/// Why a request cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("not an HTTP/1 request")]
    Syntax,
    #[error("the method is none of GET, POST and DELETE")]
    Method,
    #[error("the request is too large")]
    TooLarge,
    #[error("bodies must come with a Content-Length")]
    TransferEncoding,
}

impl Malformed {
    pub fn status(self) -> u16 {
        match self {
            Malformed::Method => 405,
            Malformed::TooLarge => 413,
            _ => 400,
        }
    }
}

/// The first request in `bytes` and how many of them it takes; `None` when more must come.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let head_bytes = match head.parse(bytes) {
        Ok(httparse::Status::Complete(n)) => n,
        Ok(httparse::Status::Partial) if bytes.len() > HEAD_MAX => return Err(Malformed::TooLarge),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Malformed::Syntax),
    };
    let header = |name: &str| {
        let found = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| String::from_utf8_lossy(header.value).trim().to_string())
    };
    if header("Transfer-Encoding").is_some() {
        return Err(Malformed::TransferEncoding);
    }
    let body_bytes: usize = match header("Content-Length") {
        Some(length) => length.parse().map_err(|_| Malformed::Syntax)?,
        None => 0,
    };
    if body_bytes > BODY_MAX {
        return Err(Malformed::TooLarge);
    }
    let Some(body) = bytes.get(head_bytes..head_bytes + body_bytes) else { return Ok(None) };
    let method = match head.method {
        Some("GET") => Method::Get,
        Some("POST") => Method::Post,
        Some("DELETE") => Method::Delete,
        _ => return Err(Malformed::Method),
    };
    let (path, query) = head.path.map(|path| path.split_once('?').unwrap_or((path, ""))).unwrap_or_default();
    let mut parameters = pairs(query);
    if header("Content-Type").is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        parameters.extend(pairs(&String::from_utf8_lossy(body)));
    }
    let request = Request {
        method,
        segments: path.split('/').filter(|part| !part.is_empty()).map(|part| decoded(part, false)).collect(),
        parameters,
        keep_alive: !header("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
            && head.version == Some(1),
    };
    Ok(Some((request, head_bytes + body_bytes)))
}

fn pairs(query: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (decoded(key, true), decoded(value, true))
    };
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

/// Percent-encoding undone; what is none stays. In queries a plus is a space.
fn decoded(text: &str, plus_is_space: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|digit| (*digit as char).to_digit(16));
        rest = match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                &tail[2..]
            }
            (b'+', ..) if plus_is_space => {
                bytes.push(b' ');
                tail
            }
            (byte, ..) => {
                bytes.push(*byte);
                tail
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Requests of one connection, as they come.
pub(crate) struct Requests<'a> {
    connection: &'a Connection,
    received: Vec<u8>,
}

impl<'a> Requests<'a> {
    pub fn new(connection: &'a Connection) -> Self {
        Self { connection, received: Vec::new() }
    }

    /// `None` at the connection's end.
    pub async fn next(&mut self) -> std::io::Result<Option<Result<Request, Malformed>>> {
        let mut buf = Buf::with_capacity(4096);
        loop {
            match parse(&self.received) {
                Ok(Some((request, bytes))) => {
                    self.received.drain(..bytes);
                    return Ok(Some(Ok(request)));
                }
                Ok(None) => {}
                Err(error) => return Ok(Some(Err(error))),
            }
            buf.clear();
            let (result, returned) = self.connection.recv(buf).await;
            buf = returned;
            if result? == 0 {
                return Ok(None);
            }
            self.received.extend_from_slice(&buf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_apart() {
        let text = b"POST /storage_service//keyspace_flush/my%20ks?cf=a,b&sf=True&x HTTP/1.1\r\nHost: x\r\n\r\nGET";
        let (request, bytes) = parse(text).unwrap().unwrap();
        assert_eq!(bytes, text.len() - 3);
        assert_eq!(request.method, Method::Post);
        assert_eq!(request.segments, ["storage_service", "keyspace_flush", "my ks"]);
        assert_eq!(request.list("cf"), ["a", "b"]);
        assert!(request.flag("sf", false) && request.flag("absent", true) && request.parameter("x").is_none());
        assert!(request.keep_alive);
    }

    #[test]
    fn a_body_is_waited_for() {
        let head = "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n";
        assert_eq!(parse(format!("{head}a=").as_bytes()).unwrap(), None);
        let (request, _) = parse(format!("{head}a=b").as_bytes()).unwrap().unwrap();
        assert_eq!(request.parameter("a"), Some("b"));
    }

    #[test]
    fn what_is_not_http_is_refused() {
        let check = |text: &str, expected: Malformed| assert_eq!(parse(text.as_bytes()).unwrap_err(), expected);
        check("\x04\0\0\x01\x05\0\0\0\0", Malformed::Syntax);
        check("PUT / HTTP/1.1\r\n\r\n", Malformed::Method);
        check("POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", Malformed::TooLarge);
        check("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", Malformed::TransferEncoding);
        check(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(HEAD_MAX)), Malformed::TooLarge);
    }
}
