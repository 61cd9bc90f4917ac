//! What carries a client's bytes.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use query::Encryption;
use reactor::Buf;
use reactor::net::Connection;

use crate::tls::{CertificateNames, TlsStream, names_of};

#[derive(Clone)]
pub(crate) enum Transport {
    Plain(Connection),
    Encrypted(Rc<TlsStream>),
}

impl Transport {
    pub async fn recv(&self, buf: Buf) -> (io::Result<usize>, Buf) {
        match self {
            Transport::Plain(connection) => connection.recv(buf).await,
            // Boxed, for the plain one's future to stay small.
            Transport::Encrypted(stream) => Box::pin(stream.recv(buf)).await,
        }
    }

    pub async fn send_all(&self, buf: Buf) -> (io::Result<()>, Buf) {
        match self {
            Transport::Plain(connection) => connection.send_all(buf).await,
            Transport::Encrypted(stream) => Box::pin(stream.send_all(buf)).await,
        }
    }

    pub async fn shutdown(&self) -> io::Result<()> {
        match self {
            Transport::Plain(connection) => connection.shutdown().await,
            Transport::Encrypted(stream) => Box::pin(stream.shutdown()).await,
        }
    }

    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Transport::Plain(connection) => connection.peer_addr(),
            Transport::Encrypted(stream) => stream.connection().peer_addr(),
        }
    }

    pub fn encryption(&self) -> Option<Encryption> {
        match self {
            Transport::Plain(_) => None,
            Transport::Encrypted(stream) => Some(stream.encryption()),
        }
    }

    /// Who the client is by its certificate, if it has shown one.
    pub fn certificate_names(&self) -> Option<CertificateNames> {
        match self {
            Transport::Plain(_) => None,
            Transport::Encrypted(stream) => names_of(&stream.certificate()?),
        }
    }
}
