//! Damaged SSTables: what is known of them, and which reads they fail.
//!
//! Damage found while a file is read fails the reads that need the damaged place, each time, as checksums are looked at
//! each time; the rest of the file still answers, and compaction leaves the file alone. An SSTable that cannot even be
//! opened fails every read that may need it: those of keys that its bloom filter knows, if that is sound, else all. It
//! stays in the manifest and on disk: nothing else holds its data here.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::Error;
use crate::sstable::{Filter, KeyHash, Standing};

/// An SSTable that could not be opened.
pub(crate) struct Unreadable {
    standing: Standing,
    path: String,
    what: String,
    filter: Option<Filter>,
}

/// The damaged SSTables of one table, by generation.
#[derive(Default)]
pub(crate) struct Quarantine {
    /// Open, and damaged somewhere.
    damaged: RefCell<BTreeMap<u64, String>>,
    unreadable: RefCell<BTreeMap<u64, Unreadable>>,
}

impl Quarantine {
    pub fn len(&self) -> usize {
        self.damaged.borrow().len() + self.unreadable.borrow().len()
    }

    /// Whether compaction must leave it alone.
    pub fn contains(&self, generation: u64) -> bool {
        self.damaged.borrow().contains_key(&generation)
    }

    /// Generations that the manifest names and that are not open.
    pub fn unreadable(&self) -> Vec<(u64, Standing)> {
        self.unreadable.borrow().iter().map(|(generation, one)| (*generation, one.standing)).collect()
    }

    /// A read has met damage.
    pub fn found(&self, generation: u64, error: &Error) {
        let mut damaged = self.damaged.borrow_mut();
        if damaged.contains_key(&generation) {
            return;
        }
        tracing::error!(
            %error,
            generation,
            "an SSTable is damaged; reads of the damaged place fail, and it is not compacted any more. Put back its \
             files from a snapshot and start again, or repair the table from other replicas, after removing the files"
        );
        damaged.insert(generation, error.to_string());
    }

    /// An SSTable that the manifest names cannot be opened.
    pub fn add_unreadable(&self, generation: u64, standing: Standing, error: &Error, filter: Option<Filter>) {
        tracing::error!(
            %error,
            generation,
            narrowed = filter.is_some(),
            "an SSTable cannot be opened; reads that may need it fail, everything else goes on. Put back its files from \
             a snapshot and start again, or truncate the table and repair it from other replicas"
        );
        let (path, what) = match error {
            Error::Corrupt { path, what, .. } => (path.clone(), what.clone()),
            Error::Io { path, source, .. } => (path.clone(), source.to_string()),
            other => (String::new(), other.to_string()),
        };
        self.unreadable.borrow_mut().insert(generation, Unreadable { standing, path, what, filter });
    }

    /// An error when the answer may lie in a file that cannot be read. `None`: the read is of many keys.
    pub fn check(&self, key: Option<&[u8]>) -> Result<(), Error> {
        let unreadable = self.unreadable.borrow();
        if unreadable.is_empty() {
            return Ok(());
        }
        let hash = key.map(KeyHash::of);
        let may_need = |one: &&Unreadable| match (&one.filter, hash) {
            (Some(filter), Some(hash)) => filter.may_contain(hash),
            _ => true,
        };
        match unreadable.values().find(may_need) {
            None => Ok(()),
            Some(one) => Err(Error::Quarantined { path: one.path.clone(), what: one.what.clone() }),
        }
    }

    /// Forgets all; gives the generations that were not open.
    pub fn clear(&self) -> Vec<u64> {
        self.damaged.borrow_mut().clear();
        std::mem::take(&mut *self.unreadable.borrow_mut()).into_keys().collect()
    }

    /// Those that are no part of the table any more.
    pub fn retain(&self, is_there: impl Fn(u64) -> bool) {
        self.damaged.borrow_mut().retain(|generation, _| is_there(*generation));
    }
}
