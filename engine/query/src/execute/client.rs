//! What a connection remembers between its requests.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use cql::Version;

pub struct Client {
    /// Where it has connected from; `None` when nobody knows.
    address: Cell<Option<SocketAddr>>,
    keyspace: RefCell<Option<String>>,
    version: Cell<Version>,
    /// Who has logged in; `None` when nobody needs to.
    role: RefCell<Option<Rc<str>>>,
    /// Whether conditional statements are to be marked when they are prepared.
    lwt_mark: Cell<bool>,
    gone: Cell<bool>,
}

impl Client {
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            address: Cell::new(None),
            keyspace: RefCell::new(None),
            version: Cell::default(),
            role: RefCell::new(None),
            lwt_mark: Cell::new(false),
            gone: Cell::new(false),
        })
    }

    pub(crate) fn keyspace(&self) -> Option<String> {
        self.keyspace.borrow().clone()
    }

    /// The keyspace that a request names, or the session's.
    pub(crate) fn keyspace_or(&self, named: Option<&str>) -> Option<String> {
        named.map_or_else(|| self.keyspace(), |named| Some(named.to_string()))
    }

    pub(crate) fn use_keyspace(&self, keyspace: &str) {
        *self.keyspace.borrow_mut() = Some(keyspace.to_string());
    }

    pub fn role(&self) -> Option<Rc<str>> {
        self.role.borrow().clone()
    }

    /// The client has proved to be `role`.
    pub fn log_in(&self, role: &str) {
        *self.role.borrow_mut() = Some(role.into());
    }

    pub fn address(&self) -> Option<SocketAddr> {
        self.address.get()
    }

    pub fn set_address(&self, address: SocketAddr) {
        self.address.set(Some(address));
    }

    pub(crate) fn wants_lwt_mark(&self) -> bool {
        self.lwt_mark.get()
    }

    /// The client has asked for Scylla's mark of conditional statements.
    pub fn set_lwt_mark(&self, wanted: bool) {
        self.lwt_mark.set(wanted);
    }

    /// Whether nobody is there any more to take an answer.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// The client has disconnected: what it has asked for need not be gone on with, as far as it only reads.
    pub fn leave(&self) {
        self.gone.set(true);
    }

    /// The protocol that the client speaks: some answers depend on it.
    pub fn version(&self) -> Version {
        self.version.get()
    }

    pub fn set_version(&self, version: Version) {
        self.version.set(version);
    }
}
