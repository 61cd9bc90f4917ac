//! A RESULT, ready to be sent, and what the client is warned of.

use cql::response;

#[derive(Debug)]
pub enum Outcome {
    Void,
    /// The body.
    Body(Vec<u8>),
    /// A body with warnings, the rare case.
    Warned(Box<Warned>),
}

#[derive(Debug)]
pub struct Warned {
    body: Vec<u8>,
    warnings: Vec<String>,
}

impl Outcome {
    /// Appends the body of RESULT.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Outcome::Void => response::encode_void(out),
            Outcome::Body(body) => out.extend_from_slice(body),
            Outcome::Warned(warned) => out.extend_from_slice(&warned.body),
        }
    }

    pub(crate) fn of(encode: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut body = Vec::new();
        encode(&mut body);
        Outcome::Body(body)
    }

    /// Adds what the client is to be told beside the result.
    pub fn warn(self, warning: impl Into<String>) -> Self {
        let mut warned = match self {
            Outcome::Warned(warned) => warned,
            plain => {
                let mut body = Vec::new();
                plain.encode(&mut body);
                Box::new(Warned { body, warnings: Vec::new() })
            }
        };
        warned.warnings.push(warning.into());
        Outcome::Warned(warned)
    }

    pub fn warn_all(self, warnings: impl IntoIterator<Item = String>) -> Self {
        warnings.into_iter().fold(self, Outcome::warn)
    }

    pub fn warnings(&self) -> &[String] {
        match self {
            Outcome::Warned(warned) => &warned.warnings,
            _ => &[],
        }
    }

    /// Rows whose columns the client knows otherwise from PREPARE.
    pub(crate) fn with_new_metadata(mut self, id: &[u8]) -> Self {
        match &mut self {
            Outcome::Void => {}
            Outcome::Body(body) => response::announce_metadata(body, id),
            Outcome::Warned(warned) => response::announce_metadata(&mut warned.body, id),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_leave_the_body_as_it_is() {
        let outcome = Outcome::Void.warn("slow").warn("large");
        assert_eq!(outcome.warnings(), ["slow", "large"]);
        let (mut warned, mut plain) = (Vec::new(), Vec::new());
        outcome.encode(&mut warned);
        Outcome::Void.encode(&mut plain);
        assert_eq!(warned, plain);
    }
}
