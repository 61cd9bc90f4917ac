//! Where clients connect, and how a connection comes to the shard that serves it.
//!
//! On an ordinary port the world deals connections out to shards. On a shard-aware one the client chooses: the port
//! that it connects from, modulo the number of shards, is the shard (Scylla's `docs/dev/protocol-extensions.md`).

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use query::Node;
use reactor::net::{Connection, Listener};
use reactor::{Group, time};

use crate::config::NodeConfig;
use crate::session::{self, Budget, Transport};
use crate::tls::{Acceptor, Identities};

/// After an accept that failed: descriptors run out, say. Not a reason to stop, and not one to spin.
const PAUSE: Duration = Duration::from_millis(100);
/// What a handshake takes of the shard's memory for clients: the state of the connection and its records.
const HANDSHAKE_BYTES: usize = 32 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub address: SocketAddr,
    pub encrypted: bool,
    pub shard_aware: bool,
}

/// The ports of a node, the ordinary one first. `encryption`: clients' connections can be encrypted. Without a port of
/// its own, encryption is on the ordinary one.
pub(crate) fn ports(config: &NodeConfig, native: SocketAddr, encryption: bool) -> Vec<Port> {
    let own = config.encrypted_port.filter(|port| encryption && *port != native.port());
    let at = |port: u16| SocketAddr::new(native.ip(), port);
    let ordinary = encryption && own.is_none();
    let mut ports = vec![Port { address: native, encrypted: ordinary, shard_aware: false }];
    let aware = config.shard_aware_port;
    ports.extend(aware.map(|port| Port { address: at(port), encrypted: ordinary, shard_aware: true }));
    if let Some(port) = own {
        ports.push(Port { address: at(port), encrypted: true, shard_aware: false });
        let aware = config.encrypted_shard_aware_port;
        ports.extend(aware.map(|port| Port { address: at(port), encrypted: true, shard_aware: true }));
    }
    ports
}

/// What one shard serves its clients with.
pub(crate) struct Serving {
    pub node: Rc<Node>,
    pub budget: Rc<Budget>,
    /// Requests that one connection may have in flight.
    pub requests_max: usize,
    /// Requests of all connections that are being executed.
    pub in_flight: Cell<usize>,
    pub ports: Vec<Port>,
    /// With encryption.
    pub acceptor: Option<Rc<Acceptor>>,
    /// Who clients are by their certificates.
    pub identities: Identities,
}

impl Serving {
    /// The shard-aware port that clients are told of.
    pub fn shard_aware_port(&self, encrypted: bool) -> Option<u16> {
        let found = self.ports.iter().find(|port| port.shard_aware && port.encrypted == encrypted);
        found.map(|port| port.address.port())
    }

    /// Accepts connections for ever.
    pub async fn accept(self: Rc<Self>, listener: Listener, port: Port) {
        loop {
            match listener.accept().await {
                Ok(_) if !self.node.accepts_clients.get() => {}
                Ok(connection) => {
                    time::give_way().await;
                    match port.shard_aware {
                        true => self.to_chosen_shard(connection, port.encrypted),
                        false => self.serve(connection, port.encrypted),
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn to_chosen_shard(self: &Rc<Self>, connection: Connection, encrypted: bool) {
        let (here, shards) = reactor::shard_index();
        let chosen = connection.peer_addr().map_or(here, |peer| usize::from(peer.port()) % shards);
        if chosen == here {
            return self.serve(connection, encrypted);
        }
        // The only owner: it was accepted just now.
        let Ok(fd) = connection.into_fd() else { return };
        drop(reactor::submit_to_with(chosen, Group::Statement, "adopt", move || async move {
            let connection = Connection::adopt(fd);
            if let Some(serving) = reactor::local::<Serving>() {
                serving.serve(connection, encrypted);
            }
        }));
    }

    fn serve(self: &Rc<Self>, connection: Connection, encrypted: bool) {
        let serving = self.clone();
        drop(reactor::spawn(Group::Statement, "session", async move {
            let transport = match encrypted {
                false => Transport::Plain(connection),
                true => match serving.shake_hands(connection).await {
                    Ok(transport) => transport,
                    Err(error) => {
                        serving.node.counts.note("transport_tls_handshakes_failed");
                        return tracing::debug!(%error, "a client did not get through the TLS handshake");
                    }
                },
            };
            session::serve(serving, transport).await;
        }));
    }

    async fn shake_hands(&self, connection: Connection) -> std::io::Result<Transport> {
        let Some(acceptor) = &self.acceptor else { return Err(std::io::ErrorKind::Unsupported.into()) };
        // Until it is through, who knows who it is: many that never will be must not take the memory of those who are.
        let claim = self.budget.claim(HANDSHAKE_BYTES);
        let claim = claim.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
        let stream = acceptor.accept(connection).await;
        drop(claim);
        stream.map(Transport::Encrypted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_has_the_ordinary_port_or_its_own() {
        let native: SocketAddr = "127.0.0.1:9042".parse().unwrap();
        let check = |encrypted_port: Option<u16>, encryption: bool, expected: &[(u16, bool, bool)]| {
            let config = NodeConfig {
                shard_aware_port: Some(19042),
                encrypted_port,
                encrypted_shard_aware_port: Some(19142),
                ..NodeConfig::single(native.ip(), "d")
            };
            let ports = ports(&config, native, encryption);
            let told: Vec<_> =
                ports.iter().map(|port| (port.address.port(), port.encrypted, port.shard_aware)).collect();
            assert_eq!(told, expected);
        };
        check(None, false, &[(9042, false, false), (19042, false, true)]);
        check(None, true, &[(9042, true, false), (19042, true, true)]);
        check(Some(9042), true, &[(9042, true, false), (19042, true, true)]);
        check(Some(9142), false, &[(9042, false, false), (19042, false, true)]);
        let both = [(9042, false, false), (19042, false, true), (9142, true, false), (19142, true, true)];
        check(Some(9142), true, &both);
    }
}
