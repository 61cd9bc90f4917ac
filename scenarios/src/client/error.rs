//! Why a client gives up.

use std::io;
use std::net::SocketAddr;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot reach {addr}")]
    Unreachable { addr: SocketAddr, source: io::Error },
    #[error("lost the connection to {addr}")]
    Lost { addr: SocketAddr, source: io::Error },
    #[error("{addr} sent a frame that cannot be read")]
    Frame { addr: SocketAddr, source: cql::FrameError },
    #[error("{addr} sent a response that cannot be read")]
    Response { addr: SocketAddr, source: cql::DecodeError },
    #[error("{addr} refused `{request}`: {message}")]
    Refused { addr: SocketAddr, request: String, message: String },
    #[error("{addr} wants a password, which this client does not know")]
    Authentication { addr: SocketAddr },
    #[error("none of the first {attempts} operations succeeded; the first one failed with: {first}")]
    NothingSucceeds { attempts: u64, first: String },
    #[error("every connection is lost")]
    AllLost,
}
