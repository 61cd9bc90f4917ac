//! The quick system calls around sockets: making them, their options, their addresses.

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Connections that may wait to be accepted; the kernel caps it at net.core.somaxconn, whose default is this.
const BACKLOG: i32 = 4096;

/// A socket address in the kernel's form.
pub(super) struct RawAddr {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl RawAddr {
    pub(super) fn new(addr: SocketAddr) -> Self {
        // SAFETY: all-zero bytes are a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let len = match addr {
            SocketAddr::V4(addr) => {
                let raw = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: addr.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(addr.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: sockaddr_storage is large and aligned enough for every address family.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(addr) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: addr.port().to_be(),
                    sin6_flowinfo: addr.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: addr.ip().octets() },
                    sin6_scope_id: addr.scope_id(),
                };
                // SAFETY: as above.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Self { storage, len: len as libc::socklen_t }
    }

    pub(super) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(super) fn len(&self) -> libc::socklen_t {
        self.len
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn set_option(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: passes a pointer to a live i32 and its size.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) }).map(drop)
}

fn stream_socket(addr: SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is fresh and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    set_option(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    Ok(fd)
}

fn bind(fd: RawFd, addr: SocketAddr) -> io::Result<()> {
    let raw = RawAddr::new(addr);
    // SAFETY: the address lives for the call and its length is its own.
    check(unsafe { libc::bind(fd, raw.as_ptr(), raw.len()) }).map(drop)
}

/// Accepted connections inherit TCP_NODELAY from the listener.
pub(super) fn listen(addr: SocketAddr) -> io::Result<OwnedFd> {
    let fd = stream_socket(addr)?;
    set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    bind(fd.as_raw_fd(), addr)?;
    // SAFETY: no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) })?;
    Ok(fd)
}

/// A socket ready to connect to `addr`.
pub(super) fn for_connect(addr: SocketAddr, from: Option<SocketAddr>) -> io::Result<OwnedFd> {
    let fd = stream_socket(addr)?;
    if let Some(from) = from {
        set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        // Without a fixed port the choice waits for `connect`, which may share local ports between targets.
        set_option(fd.as_raw_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        bind(fd.as_raw_fd(), from)?;
    }
    Ok(fd)
}

pub(super) fn peer_addr(fd: RawFd) -> io::Result<SocketAddr> {
    // SAFETY: all-zero bytes are a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into our storage.
    check(unsafe { libc::getpeername(fd, (&raw mut storage).cast(), &mut len) })?;
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which form the kernel wrote.
            let raw = unsafe { (&raw const storage).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Ok(SocketAddr::new(IpAddr::V4(ip), u16::from_be(raw.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { (&raw const storage).cast::<libc::sockaddr_in6>().read() };
            Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::from(raw.sin6_addr.s6_addr)), u16::from_be(raw.sin6_port)))
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_address_is_the_peers_peer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let from = "127.0.0.9:0".parse().unwrap();
        let fd = for_connect(listener.local_addr().unwrap(), Some(from)).unwrap();
        let raw = RawAddr::new(listener.local_addr().unwrap());
        // SAFETY: the address lives for the call.
        check(unsafe { libc::connect(fd.as_raw_fd(), raw.as_ptr(), raw.len()) }).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip(), from.ip());
        assert_eq!(peer_addr(accepted.as_raw_fd()).unwrap(), peer);
        assert_eq!(peer_addr(fd.as_raw_fd()).unwrap(), listener.local_addr().unwrap());
    }
}
