//! TCP as tasks see it.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use crate::slot::{submit, submit_detached};
use crate::{Buf, Fd, Op, Shard, Work};

/// What one send may take. The kernel copies it while the shard waits: some 10 us.
const PIECE_BYTES: usize = 64 << 10;

/// Closes its descriptor when the last owner goes, if a shard is there to do it.
struct Owned(Fd);

impl Drop for Owned {
    fn drop(&mut self) {
        Shard::try_with(|shard| submit_detached(shard, Op::Close { fd: self.0, file: false }));
    }
}

pub struct Listener(Owned);

/// Listens on `addr`. Several shards may listen on one port: each connection goes to one of them.
pub async fn listen(addr: SocketAddr) -> io::Result<Listener> {
    let (result, _) = submit(Op::Listen { addr }, None).await;
    Ok(Listener(Owned(Fd(result? as u32))))
}

impl Listener {
    pub async fn accept(&self) -> io::Result<Connection> {
        let (result, _) = submit(Op::Accept { fd: self.0.0 }, None).await;
        Ok(Connection::from_fd(Fd(result? as u32)))
    }
}

/// A TCP connection without Nagle's delay. Clones share it, so that one task may read while another writes.
#[derive(Clone)]
pub struct Connection(Rc<Owned>);

pub async fn connect(addr: SocketAddr) -> io::Result<Connection> {
    connect_from(addr, None).await
}

/// Connects from a given local address; the port of `from` may be 0.
pub async fn connect_from(addr: SocketAddr, from: Option<SocketAddr>) -> io::Result<Connection> {
    let (result, _) = submit(Op::Connect { addr, from }, None).await;
    Ok(Connection::from_fd(Fd(result? as u32)))
}

impl Connection {
    fn from_fd(fd: Fd) -> Self {
        Self(Rc::new(Owned(fd)))
    }

    /// Gives up the descriptor, to hand the connection to another shard of the host. Fails while there are clones.
    pub fn into_fd(self) -> Result<Fd, Connection> {
        match Rc::try_unwrap(self.0) {
            Ok(owned) => {
                let fd = owned.0;
                std::mem::forget(owned);
                Ok(fd)
            }
            Err(shared) => Err(Connection(shared)),
        }
    }

    /// Takes over a connection that another shard of the host gave up by [`into_fd`](Self::into_fd).
    pub fn adopt(fd: Fd) -> Self {
        Self::from_fd(fd)
    }

    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Shard::with(|shard| shard.backend().peer_addr(self.0.0))
    }

    /// Appends what has arrived, at least a byte, to the buffer's spare capacity. 0 means that the peer has ended.
    pub async fn recv(&self, buf: Buf) -> (io::Result<usize>, Buf) {
        if buf.spare() == 0 {
            // The world would give 0 bytes, which means the end of the connection.
            return (Err(io::Error::new(io::ErrorKind::InvalidInput, "a receive into a full buffer")), buf);
        }
        let (result, buf) = submit(Op::Recv { fd: self.0.0 }, Some(buf)).await;
        if let Ok(n) = &result {
            crate::charge(Work::NetReceive, *n);
        }
        (result.map(|n| n as usize), buf.unwrap_or_default())
    }

    /// Sends all of the buffer; of a large one piece after piece, with others between.
    pub async fn send_all(&self, mut buf: Buf) -> (io::Result<()>, Buf) {
        if u32::try_from(buf.len()).is_err() {
            return (Err(io::Error::new(io::ErrorKind::InvalidInput, "a message of 4 GiB or more")), buf);
        }
        let mut sent = 0;
        while sent < buf.len() {
            if sent > 0 && buf.len() > PIECE_BYTES {
                crate::time::give_way().await;
            }
            let end = buf.len().min(sent + PIECE_BYTES) as u32;
            let (result, returned) = submit(Op::Send { fd: self.0.0, skip: sent as u32, end }, Some(buf)).await;
            buf = returned.unwrap_or_default();
            match result {
                Ok(n) => {
                    crate::charge(Work::NetSend, n);
                    sent += n as usize;
                }
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(()), buf)
    }

    /// Ends the connection in both directions. What was sent before still arrives, and then the peer receives the end;
    /// a receive that waits on this side ends too. A peer that goes on sending may learn of it late (TCP announces no
    /// more room to a side that does not receive); dropping the connection tells it at once.
    pub async fn shutdown(&self) -> io::Result<()> {
        submit(Op::Shutdown { fd: self.0.0 }, None).await.0.map(drop)
    }
}
