//! One question to a node of a cluster that the asker is not of: a connection, a frame, an answer.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use reactor::net::{Connection, connect_from};
use reactor::{Buf, time};

use super::frame::{self, ERROR, RESPONSE};
use super::link::{Link, LinkError};
use super::messenger::Messenger;
use super::{Payload, Verb, remote_code};

/// A document and a list of nodes fit many times.
const ANSWER_MAX_BYTES: u32 = 32 << 20;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("{to} cannot be reached: {cause}")]
    Unreachable { to: SocketAddr, cause: io::Error },
    #[error("{to} does not answer as a node of a cluster: {cause}")]
    Protocol { to: SocketAddr, cause: String },
    #[error("{to} has not answered within {} s", .after.as_secs())]
    Timeout { to: SocketAddr, after: Duration },
    /// The node's own words.
    #[error("{0}")]
    Refused(String),
}

/// Asks a node that need not know the asker, whose address is `from`.
pub async fn ask(to: SocketAddr, from: Option<IpAddr>, question: &[u8], within: Duration) -> Result<Vec<u8>, AskError> {
    let dialogue = async {
        let connected = connect_from(to, from.map(|from| (from, 0).into())).await;
        let connection = connected.map_err(|cause| AskError::Unreachable { to, cause })?;
        let link = Link::new();
        let mut out = Buf::new();
        frame::encode(&mut out, 0, Verb::ASK.0, 0, 0, question);
        let asked = async {
            link.send_first(&connection, out).await?;
            link.receive_first(&connection, ANSWER_MAX_BYTES).await
        };
        let (header, payload, _) =
            asked.await.map_err(|cause: LinkError| AskError::Protocol { to, cause: cause.to_string() })?;
        match header.flags & ERROR {
            0 => Ok(payload.to_vec()),
            _ => Err(AskError::Refused(String::from_utf8_lossy(&payload).into_owned())),
        }
    };
    time::timeout(within, dialogue).await.unwrap_or(Err(AskError::Timeout { to, after: within }))
}

impl Messenger {
    pub(super) async fn answer_stranger(&self, connection: &Connection, id: u64, question: Payload) {
        let answer = match self.handler() {
            Some(handler) => handler.answer_stranger(question).await,
            None => Err("the node is stopping".to_string()),
        };
        let mut out = Buf::new();
        match answer {
            Ok(answer) => frame::encode(&mut out, id, Verb::ASK.0, RESPONSE, 0, &answer),
            Err(text) => {
                frame::encode(&mut out, id, Verb::ASK.0, RESPONSE | ERROR, remote_code::REFUSED, text.as_bytes())
            }
        }
        let _ = time::timeout(self.config().connect_timeout, connection.send_all(out)).await;
        let _ = connection.shutdown().await;
    }
}
