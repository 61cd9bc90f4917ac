//! What carries a client's bytes.

use std::io;

use reactor::Buf;
use reactor::net::Connection;

#[derive(Clone)]
pub(crate) enum Transport {
    Plain(Connection),
}

impl Transport {
    pub async fn recv(&self, buf: Buf) -> (io::Result<usize>, Buf) {
        match self {
            Transport::Plain(connection) => connection.recv(buf).await,
        }
    }

    pub async fn send_all(&self, buf: Buf) -> (io::Result<()>, Buf) {
        match self {
            Transport::Plain(connection) => connection.send_all(buf).await,
        }
    }

    pub fn peer_addr(&self) -> io::Result<std::net::SocketAddr> {
        match self {
            Transport::Plain(connection) => connection.peer_addr(),
        }
    }

    pub async fn shutdown(&self) -> io::Result<()> {
        match self {
            Transport::Plain(connection) => connection.shutdown().await,
        }
    }
}
