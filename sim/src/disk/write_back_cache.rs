//! A RAID controller's protected memory in front of its drives.
//!
//! A write is done when it is in the memory. From there the drives take it as fast as they can; while they are behind
//! by the whole memory, a write waits for the room that it needs. Reads go to the drives.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::device::Request;
use super::model::CacheModel;
use super::raid0::Raid0;
use crate::random::Generator;
use crate::server::{RateServer, Served};

pub(super) struct WriteBackCache {
    model: CacheModel,
    link: RateServer,
    /// When drives are through with what they were given, and how much that was.
    draining: BinaryHeap<Reverse<(u64, u64)>>,
    dirty: u64,
    random: Generator,
}

impl WriteBackCache {
    pub fn new(model: CacheModel, random: Generator) -> Self {
        let link = RateServer::new(model.bandwidth);
        Self { model, link, draining: BinaryHeap::new(), dirty: 0, random }
    }

    pub fn write(&mut self, at: u64, not_before: u64, request: Request, drives: &mut Raid0) -> Served {
        let mut starts_at = at.max(not_before);
        while let Some(&Reverse((drained_at, bytes))) = self.draining.peek()
            && (drained_at <= starts_at || self.dirty + request.bytes > self.model.size)
        {
            self.draining.pop();
            self.dirty -= bytes;
            starts_at = starts_at.max(drained_at);
        }
        let in_memory_at = self.link.serve(starts_at, request.bytes).ends_at;
        let ends_at = in_memory_at + self.model.latency.sample(self.random.next_u64());
        let drained_at = drives.serve(in_memory_at, in_memory_at, request).ends_at;
        self.draining.push(Reverse((drained_at, request.bytes)));
        self.dirty += request.bytes;
        Served { starts_at, ends_at }
    }
}
