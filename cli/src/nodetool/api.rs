//! The admin API of a node, asked over HTTP: one request a connection.

use std::net::SocketAddr;

use ::validate::http;
use serde_json::Value;

use crate::exit::{Code, Failure};

pub struct Api {
    address: SocketAddr,
}

impl Api {
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    pub fn get(&self, path: &str) -> Result<Value, Failure> {
        self.ask("GET", path, &[])
    }

    pub fn get_with(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, Failure> {
        self.ask("GET", path, parameters)
    }

    pub fn post(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, Failure> {
        self.ask("POST", path, parameters)
    }

    pub fn delete(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, Failure> {
        self.ask("DELETE", path, parameters)
    }

    /// A number; 0 for what is none.
    pub fn number(&self, path: &str) -> Result<f64, Failure> {
        Ok(self.get(path)?.as_f64().unwrap_or(0.0))
    }

    /// A text; empty for what is none.
    pub fn text(&self, path: &str) -> Result<String, Failure> {
        Ok(self.get(path)?.as_str().unwrap_or_default().to_string())
    }

    fn ask(&self, method: &str, path: &str, parameters: &[(&str, &str)]) -> Result<Value, Failure> {
        let unreachable = |error: std::io::Error| {
            let text = format!("the node's API at {} does not answer: {error}", self.address);
            Failure::with_help(Code::Unreachable, text, "--host and --port say where `orrery serve` has its --api-port")
        };
        let mut target = path.to_string();
        for (at, (key, value)) in parameters.iter().enumerate() {
            target += &format!("{}{key}={}", if at == 0 { "?" } else { "&" }, encoded(value));
        }
        let http::Answer { status, body } = http::ask(self.address, method, &target).map_err(unreachable)?;
        let value = if body.is_empty() { Ok(Value::Null) } else { serde_json::from_str::<Value>(&body) };
        match value {
            Ok(value) if status == "200" => Ok(value),
            Ok(value) => {
                let message = value["message"].as_str().unwrap_or(&status);
                Err(Failure::unexpected(format!("{method} {path}: {message}")))
            }
            Err(error) => Err(Failure::unexpected(format!("{method} {path} is answered with no JSON: {error}"))),
        }
    }
}

/// What a query or a path may not have as it is, by percent.
pub fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b',' => (byte as char).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}
