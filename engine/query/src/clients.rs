//! The clients that are connected to a shard, as `system.clients` shows them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectedClient {
    pub address: SocketAddr,
    /// What the client said of itself as it started; `None` before that.
    pub options: Option<BTreeMap<String, String>>,
    pub protocol_version: u8,
    /// `None`: the connection is plain.
    pub encryption: Option<Encryption>,
    pub user: Option<String>,
}

/// How a connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    pub protocol: String,
    pub cipher_suite: String,
}

/// One shard's.
#[derive(Default)]
pub struct Clients {
    next: Cell<u64>,
    connected: RefCell<BTreeMap<u64, ConnectedClient>>,
}

impl Clients {
    /// Gives the number by which the others know it.
    pub fn add(&self, address: SocketAddr, encryption: Option<Encryption>) -> u64 {
        let id = self.next.get();
        self.next.set(id + 1);
        let client = ConnectedClient { address, options: None, protocol_version: 0, encryption, user: None };
        self.connected.borrow_mut().insert(id, client);
        id
    }

    pub fn started(&self, id: u64, options: &[(&str, &str)], protocol_version: u8) {
        if let Some(client) = self.connected.borrow_mut().get_mut(&id) {
            client.options = Some(options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect());
            client.protocol_version = protocol_version;
        }
    }

    pub fn logged_in(&self, id: u64, user: &str) {
        if let Some(client) = self.connected.borrow_mut().get_mut(&id) {
            client.user = Some(user.to_string());
        }
    }

    pub fn remove(&self, id: u64) {
        self.connected.borrow_mut().remove(&id);
    }

    pub fn all(&self) -> Vec<ConnectedClient> {
        self.connected.borrow().values().cloned().collect()
    }
}
