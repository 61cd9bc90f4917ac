//! What a connection remembers between its requests.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cql::Version;

pub struct Client {
    keyspace: RefCell<Option<String>>,
    version: Cell<Version>,
    /// Who has logged in; `None` when nobody needs to.
    role: RefCell<Option<Rc<str>>>,
}

impl Client {
    pub fn new() -> Rc<Self> {
        Rc::new(Self { keyspace: RefCell::new(None), version: Cell::default(), role: RefCell::new(None) })
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

    /// The protocol that the client speaks: some answers depend on it.
    pub fn version(&self) -> Version {
        self.version.get()
    }

    pub fn set_version(&self, version: Version) {
        self.version.set(version);
    }
}
