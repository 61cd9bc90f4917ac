//! One encrypted connection: what a connection is to tasks, with rustls between.
//!
//! One task may receive while another sends. Records leave in the order in which they were made, whoever made them: a
//! receiver, too, has something to send in a handshake.

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use query::Encryption;
use reactor::net::Connection;
use reactor::sync::Semaphore;
use reactor::{Buf, time};
use rustls::{ServerConfig, ServerConnection};

/// One record and its frame fit.
const RECEIVE_BYTES: usize = 17 << 10;
/// What is encrypted at a time: a few records.
const CHUNK_BYTES: usize = 64 << 10;
/// For the peer to take the farewell.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

pub(crate) struct TlsStream {
    connection: Connection,
    session: RefCell<ServerConnection>,
    received: RefCell<Buf>,
    /// Decrypted, and how much of it was taken.
    plain: RefCell<(Vec<u8>, usize)>,
    ended: Cell<bool>,
    /// The right to send.
    sending: Rc<Semaphore>,
    spare: RefCell<Vec<u8>>,
}

fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl TlsStream {
    pub fn new(connection: Connection, config: Arc<ServerConfig>) -> io::Result<Self> {
        let mut session = ServerConnection::new(config).map_err(broken)?;
        // What is encrypted leaves before more is: `send_all`.
        session.set_buffer_limit(None);
        Ok(Self {
            connection,
            session: RefCell::new(session),
            received: RefCell::new(Buf::with_capacity(RECEIVE_BYTES)),
            plain: RefCell::default(),
            ended: Cell::new(false),
            sending: Semaphore::new(1),
            spare: RefCell::default(),
        })
    }

    pub async fn handshake(&self) -> io::Result<()> {
        while self.session.borrow().is_handshaking() {
            if !self.receive().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    pub fn encryption(&self) -> Encryption {
        let session = self.session.borrow();
        let protocol = match session.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2".to_string(),
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3".to_string(),
            other => format!("{other:?}"),
        };
        let suite = session.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
        Encryption { protocol, cipher_suite: suite.unwrap_or_default() }
    }

    /// The client's own certificate, in DER, if it showed one that is trusted.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        Some(self.session.borrow().peer_certificates()?.first()?.to_vec())
    }

    pub async fn recv(&self, mut buf: Buf) -> (io::Result<usize>, Buf) {
        loop {
            let taken = self.take(&mut buf);
            if taken > 0 || self.ended.get() {
                return (Ok(taken), buf);
            }
            match self.receive().await {
                Ok(true) => {}
                Ok(false) => self.ended.set(true),
                Err(error) => return (Err(error), buf),
            }
        }
    }

    fn take(&self, buf: &mut Buf) -> usize {
        let (plain, taken) = &mut *self.plain.borrow_mut();
        let n = (plain.len() - *taken).min(buf.spare());
        buf.extend_from_slice(&plain[*taken..*taken + n]);
        *taken += n;
        if *taken == plain.len() {
            plain.clear();
            *taken = 0;
        }
        n
    }

    /// Receives once and answers what wants an answer. False at the end.
    async fn receive(&self) -> io::Result<bool> {
        let mut buf = self.received.take();
        if buf.capacity() == 0 {
            buf = Buf::with_capacity(RECEIVE_BYTES);
        }
        buf.clear();
        let (result, buf) = self.connection.recv(buf).await;
        let goes_on = match result {
            Ok(0) => Ok(false),
            Ok(_) => self.decrypt(&buf),
            Err(error) => return Err(error),
        };
        *self.received.borrow_mut() = buf;
        // Also the alert that says what was wrong.
        let sent = self.flush().await;
        let goes_on = goes_on?;
        sent.map(|()| goes_on)
    }

    /// False when the peer has said that it ends.
    fn decrypt(&self, mut bytes: &[u8]) -> io::Result<bool> {
        let session = &mut *self.session.borrow_mut();
        while !bytes.is_empty() {
            if session.read_tls(&mut bytes)? == 0 {
                return Ok(false);
            }
            let state = session.process_new_packets().map_err(broken)?;
            let decrypted = state.plaintext_bytes_to_read();
            if decrypted > 0 {
                let (plain, _) = &mut *self.plain.borrow_mut();
                let at = plain.len();
                plain.resize(at + decrypted, 0);
                session.reader().read_exact(&mut plain[at..])?;
            }
            if state.peer_has_closed() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub async fn send_all(&self, buf: Buf) -> (io::Result<()>, Buf) {
        for chunk in buf.chunks(CHUNK_BYTES) {
            let written = self.session.borrow_mut().writer().write_all(chunk);
            if let Err(error) = written {
                return (Err(error), buf);
            }
            if let Err(error) = self.flush().await {
                return (Err(error), buf);
            }
        }
        (Ok(()), buf)
    }

    /// Sends the records that are ready.
    async fn flush(&self) -> io::Result<()> {
        if !self.session.borrow().wants_write() {
            return Ok(());
        }
        let _turn = self.sending.acquire(1).await;
        let mut records = self.spare.take();
        records.clear();
        {
            let session = &mut *self.session.borrow_mut();
            while session.wants_write() {
                session.write_tls(&mut records)?;
            }
        }
        let (sent, records) = self.connection.send_all(Buf::from(records)).await;
        let mut records = records.into_vec();
        records.clear();
        records.shrink_to(2 * CHUNK_BYTES);
        *self.spare.borrow_mut() = records;
        sent
    }

    /// Says farewell, if the peer takes it, and ends the connection.
    pub async fn shutdown(&self) -> io::Result<()> {
        self.session.borrow_mut().send_close_notify();
        // A peer that does not read is not waited for.
        let _ = time::timeout(FAREWELL_MAX, self.flush()).await;
        self.connection.shutdown().await
    }
}
