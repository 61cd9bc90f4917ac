//! Cells, row markers and tombstones, and which of two wins.

use std::cmp::Ordering;

use super::Bytes;

/// `local_deletion_s` and `local_s` of things that neither expire nor are deleted.
pub const NEVER_S: u32 = u32::MAX;

/// A tombstone: deletes what has a timestamp at or below its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeletionTime {
    /// Microseconds.
    pub timestamp: i64,
    /// When it was made, in seconds of the server's clock; gc_grace counts from here.
    pub local_s: u32,
}

impl DeletionTime {
    pub fn deletes(&self, timestamp: i64) -> bool {
        timestamp <= self.timestamp
    }

    /// Later timestamp, then later local time: Cassandra's `DeletionTime.supersedes`.
    pub fn supersedes(&self, other: &DeletionTime) -> bool {
        (self.timestamp, self.local_s) > (other.timestamp, other.local_s)
    }

    pub fn latest(a: Option<DeletionTime>, b: Option<DeletionTime>) -> Option<DeletionTime> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b.supersedes(&a) { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

/// The value of one column of one row, or its tombstone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// Microseconds.
    pub timestamp: i64,
    /// 0: does not expire.
    pub ttl_s: u32,
    /// When it expires, or was deleted; [`NEVER_S`] otherwise.
    pub local_deletion_s: u32,
    /// `None` is a tombstone. An empty value is a value.
    pub value: Option<Bytes>,
}

impl Cell {
    pub fn live(timestamp: i64, value: impl Into<Bytes>) -> Self {
        Self { timestamp, ttl_s: 0, local_deletion_s: NEVER_S, value: Some(value.into()) }
    }

    pub fn expiring(timestamp: i64, ttl_s: u32, now_s: u32, value: impl Into<Bytes>) -> Self {
        Self { timestamp, ttl_s, local_deletion_s: expiry_s(now_s, ttl_s), value: Some(value.into()) }
    }

    pub fn tombstone(timestamp: i64, now_s: u32) -> Self {
        Self { timestamp, ttl_s: 0, local_deletion_s: now_s, value: None }
    }

    pub fn is_tombstone(&self) -> bool {
        self.value.is_none()
    }

    pub fn is_live(&self, now_s: u32) -> bool {
        self.value.is_some() && (self.ttl_s == 0 || now_s < self.local_deletion_s)
    }

    /// Whether `self` survives `other`: Cassandra's `Cells.resolveRegular`. Later timestamp; then what will not stay
    /// (expiring or tombstone) over what stays, tombstone over expiring, the later local time, the larger value. Where
    /// Cassandra keeps either, because they differ in the TTL alone, the longer one, so that all replicas agree.
    pub fn wins_over(&self, other: &Cell) -> bool {
        let rank = |cell: &Cell| match (cell.value.is_some(), cell.ttl_s) {
            (false, _) => 2u8,
            (true, 0) => 0,
            (true, _) => 1,
        };
        let local = |cell: &Cell| if rank(cell) == 0 { 0 } else { cell.local_deletion_s };
        let order = self
            .timestamp
            .cmp(&other.timestamp)
            .then(rank(self).cmp(&rank(other)))
            .then(local(self).cmp(&local(other)))
            .then_with(|| self.value.as_deref().cmp(&other.value.as_deref()))
            .then(self.ttl_s.cmp(&other.ttl_s));
        order != Ordering::Less
    }
}

/// When the values of one statement are written, and how long they last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Microseconds.
    pub timestamp: i64,
    /// 0: does not expire.
    pub ttl_s: u32,
    pub now_s: u32,
}

impl Stamp {
    pub fn cell(&self, value: impl Into<Bytes>) -> Cell {
        match self.ttl_s {
            0 => Cell::live(self.timestamp, value),
            ttl_s => Cell::expiring(self.timestamp, ttl_s, self.now_s, value),
        }
    }

    pub fn tombstone(&self) -> Cell {
        Cell::tombstone(self.timestamp, self.now_s)
    }
}

/// Which tombstones no one needs any more: made before `gc_before_s`, and with a timestamp below everything that they
/// could still shadow elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purge {
    pub now_s: u32,
    pub gc_before_s: u32,
    pub below: i64,
}

impl Purge {
    pub fn drops(&self, timestamp: i64, local_s: u32) -> bool {
        local_s < self.gc_before_s && timestamp < self.below
    }

    /// Turns a cell that has expired into a tombstone. Whether anything is left of it.
    pub fn keeps_cell(&self, cell: &mut Cell) -> bool {
        if cell.is_live(self.now_s) {
            return true;
        }
        if cell.value.is_some() {
            // As Cassandra's `AbstractCell.purge`: the tombstone is as old as the write, not as the expiry.
            cell.local_deletion_s = cell.local_deletion_s.saturating_sub(cell.ttl_s);
            cell.ttl_s = 0;
            cell.value = None;
        }
        !self.drops(cell.timestamp, cell.local_deletion_s)
    }
}

/// Cassandra caps expiry at the largest signed second (year 2038, `Cell.MAX_DELETION_TIME`).
pub fn expiry_s(now_s: u32, ttl_s: u32) -> u32 {
    if ttl_s == 0 { NEVER_S } else { now_s.saturating_add(ttl_s).min(i32::MAX as u32 - 1) }
}

/// What an INSERT leaves so that its row exists even when every cell is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Liveness {
    pub timestamp: i64,
    /// 0: does not expire.
    pub ttl_s: u32,
    /// When it expires; [`NEVER_S`] otherwise.
    pub local_deletion_s: u32,
}

impl Liveness {
    pub fn live(timestamp: i64) -> Self {
        Self { timestamp, ttl_s: 0, local_deletion_s: NEVER_S }
    }

    pub fn expiring(timestamp: i64, ttl_s: u32, now_s: u32) -> Self {
        Self { timestamp, ttl_s, local_deletion_s: expiry_s(now_s, ttl_s) }
    }

    pub fn is_live(&self, now_s: u32) -> bool {
        self.ttl_s == 0 || now_s < self.local_deletion_s
    }

    /// Cassandra's `LivenessInfo.supersedes`: later timestamp, expiring over lasting, later expiry; and then, for all
    /// replicas to agree, the longer TTL.
    pub fn supersedes(&self, other: &Liveness) -> bool {
        let expiry_s = |l: &Liveness| if l.ttl_s == 0 { 0 } else { l.local_deletion_s };
        let rank = |l: &Liveness| (l.timestamp, l.ttl_s != 0, expiry_s(l), l.ttl_s);
        rank(self) > rank(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_as_in_cassandra() {
        let ascending = [
            Cell::live(1, b"zzz"),
            Cell::live(2, b"a"),
            Cell::live(2, b"b"),
            Cell::expiring(2, 10, 100, b"a"),
            Cell::expiring(2, 20, 100, b"a"),
            Cell::tombstone(2, 5),
            Cell::tombstone(2, 6),
            Cell::live(3, b""),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(a.wins_over(b), i >= j, "{a:?} over {b:?}");
            }
        }
    }

    #[test]
    fn expiry() {
        let cell = Cell::expiring(1, 10, 100, b"v");
        assert!(cell.is_live(109) && !cell.is_live(110));
        assert!(Liveness::expiring(1, 10, 100).is_live(109));
        assert_eq!(expiry_s(2_000_000_000, 500_000_000), 2_147_483_646);
    }
}
