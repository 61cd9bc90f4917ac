//! A map that forgets what was least recently used when it grows beyond a number of bytes.
//!
//! The limit is exact for the sizes that it is told.

use std::hash::Hash;

use types::hash::HashMap;

use crate::CacheStats;

/// Of a slot without neighbour.
const NONE: u32 = u32::MAX;

pub(crate) struct Lru<K, V> {
    limit_bytes: u64,
    slots: HashMap<K, u32>,
    entries: Vec<Option<Entry<K, V>>>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    stats: CacheStats,
}

struct Entry<K, V> {
    key: K,
    value: V,
    bytes: u64,
    newer: u32,
    older: u32,
}

impl<K: Hash + Eq + Clone, V: Clone> Lru<K, V> {
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            slots: HashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            stats: CacheStats::default(),
        }
    }

    pub fn stats(&self) -> CacheStats {
        self.stats
    }

    /// Whether it is there, without calling it used.
    pub fn contains(&self, key: &K) -> bool {
        self.slots.contains_key(key)
    }

    pub fn get(&mut self, key: &K) -> Option<V> {
        let Some(&slot) = self.slots.get(key) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        if self.newest != slot {
            self.unlink(slot);
            self.link_newest(slot);
        }
        self.entries[slot as usize].as_ref().map(|entry| entry.value.clone())
    }

    /// Keeps `value`, whose key and structure are part of `bytes`. What is there already stays.
    pub fn insert(&mut self, key: K, value: V, bytes: u64) {
        if bytes > self.limit_bytes || self.slots.contains_key(&key) {
            return;
        }
        while self.stats.bytes + bytes > self.limit_bytes {
            self.remove_slot(self.oldest);
            self.stats.evictions += 1;
        }
        let entry = Some(Entry { key: key.clone(), value, bytes, newer: NONE, older: NONE });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.slots.insert(key, slot);
        self.link_newest(slot);
        self.stats.bytes += bytes;
    }

    pub fn remove(&mut self, key: &K) {
        if let Some(&slot) = self.slots.get(key) {
            self.remove_slot(slot);
        }
    }

    pub fn clear(&mut self) {
        while self.oldest != NONE {
            self.remove_slot(self.oldest);
        }
    }

    fn links(&mut self, slot: u32) -> Option<(&mut u32, &mut u32)> {
        let entry = self.entries.get_mut(slot as usize)?.as_mut()?;
        Some((&mut entry.newer, &mut entry.older))
    }

    fn unlink(&mut self, slot: u32) {
        let Some((&mut newer, &mut older)) = self.links(slot) else { return };
        match self.links(newer) {
            Some((_, next)) => *next = older,
            None => self.newest = older,
        }
        match self.links(older) {
            Some((next, _)) => *next = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let second = self.newest;
        if let Some((newer, older)) = self.links(slot) {
            (*newer, *older) = (NONE, second);
        }
        match self.links(second) {
            Some((newer, _)) => *newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    fn remove_slot(&mut self, slot: u32) {
        self.unlink(slot);
        if let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::take) {
            self.stats.bytes -= entry.bytes;
            self.slots.remove(&entry.key);
            self.free.push(slot);
        }
    }
}
