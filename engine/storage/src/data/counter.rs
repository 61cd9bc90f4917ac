//! Counters: the value of a counter's cell is a context, a list of shards with one count for each node that has led
//! updates of it. Merging takes the newest shard of each; the counter's value is their sum.
//!
//! As `CounterContext` of Apache Cassandra. Layout, integers big-endian:
//!
//! ```text
//! context   number of header elements i16 (negated: local shards are to become remote) | elements i16 | shards
//! element   index of a shard that is local, or index - 32768 of one that is global
//! shard     counter id 16 bytes | clock i64 | count i64       sorted by id as unsigned bytes, each once
//! ```
//!
//! Global shards are what Cassandra 2.1 and later write, and we: the leader of an update reads its own shard, adds to
//! it and raises its clock, and every replica stores the result. Of two with one id the higher clock wins. Local shards
//! (deltas: of two, the sum) and remote ones (neither) are older; they are read and merged by the old rules.
//!
//! What merges with a tombstone vanishes, whatever the timestamps: a counter that was deleted is not to be used again.

use std::cmp::Ordering;

use super::{Bytes, Cell, Malformed};

const ID_LEN: usize = 16;
const SHARD_LEN: usize = ID_LEN + 8 + 8;

/// Names whose shard it is.
pub type CounterId = [u8; ID_LEN];

/// How a shard merges; in the order of what wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShardKind {
    Remote,
    Local,
    Global,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    pub kind: ShardKind,
    pub id: CounterId,
    pub clock: i64,
    pub count: i64,
}

/// The shards of a context, in order.
pub fn shards(context: &[u8]) -> Result<Vec<Shard>, Malformed> {
    let malformed = Malformed { what: "counter" };
    let (elements, rest) = context.split_first_chunk::<2>().ok_or(malformed)?;
    let elements = usize::from(i16::from_be_bytes(*elements).unsigned_abs());
    let (header, body) = rest.split_at_checked(elements * 2).ok_or(malformed)?;
    if body.len() % SHARD_LEN != 0 {
        return Err(malformed);
    }
    let number = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().expect("eight bytes were cut"));
    let mut shards: Vec<Shard> = Vec::with_capacity(body.len() / SHARD_LEN);
    for bytes in body.chunks_exact(SHARD_LEN) {
        let (id, rest) = bytes.split_at(ID_LEN);
        let id = id.try_into().expect("sixteen bytes were cut");
        if shards.last().is_some_and(|last| last.id >= id) {
            return Err(malformed);
        }
        shards.push(Shard { kind: ShardKind::Remote, id, clock: number(&rest[..8]), count: number(&rest[8..]) });
    }
    for element in header.chunks_exact(2) {
        let element = i16::from_be_bytes([element[0], element[1]]);
        let (index, kind) = match usize::try_from(element) {
            Ok(index) => (index, ShardKind::Local),
            Err(_) => ((i32::from(element) - i32::from(i16::MIN)) as usize, ShardKind::Global),
        };
        shards.get_mut(index).ok_or(malformed)?.kind = kind;
    }
    Ok(shards)
}

/// The bytes of shards that are sorted by id.
pub fn context(shards: &[Shard]) -> Vec<u8> {
    let headed = shards.iter().filter(|shard| shard.kind != ShardKind::Remote).count();
    let mut out = Vec::with_capacity(2 + headed * 2 + shards.len() * SHARD_LEN);
    out.extend_from_slice(&(headed as i16).to_be_bytes());
    for (index, shard) in (0i16..).zip(shards) {
        match shard.kind {
            ShardKind::Remote => {}
            ShardKind::Local => out.extend_from_slice(&index.to_be_bytes()),
            ShardKind::Global => out.extend_from_slice(&index.wrapping_add(i16::MIN).to_be_bytes()),
        }
    }
    for shard in shards {
        out.extend_from_slice(&shard.id);
        out.extend_from_slice(&shard.clock.to_be_bytes());
        out.extend_from_slice(&shard.count.to_be_bytes());
    }
    out
}

/// The counter's value: the sum of the counts, which wraps as Java's does.
pub fn total(context: &[u8]) -> Result<i64, Malformed> {
    Ok(shards(context)?.iter().fold(0i64, |sum, shard| sum.wrapping_add(shard.count)))
}

/// What the leader of an update stores and sends to the other replicas: its own shard with `delta` added. `current` is
/// the context that it has; the clock is the time, or one more than before (`CounterMutation.updateWithCurrentValue`).
/// The others' shards are not repeated: merging keeps them.
pub fn increment(current: Option<&[u8]>, id: CounterId, now_us: i64, delta: i64) -> Result<Vec<u8>, Malformed> {
    let known = match current {
        Some(current) => shards(current)?.into_iter().find(|shard| shard.id == id),
        None => None,
    };
    let (clock, count) = known.map_or((0, 0), |shard| (shard.clock, shard.count));
    Ok(context(&[Shard {
        kind: ShardKind::Global,
        id,
        clock: now_us.max(clock.saturating_add(1)),
        count: count.wrapping_add(delta),
    }]))
}

/// Takes the newest of each shard. Commutative and associative; idempotent where no shard is local.
pub fn merge(a: &[u8], b: &[u8]) -> Result<Vec<u8>, Malformed> {
    let (left, right) = (shards(a)?, shards(b)?);
    let mut merged = Vec::with_capacity(left.len().max(right.len()));
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => a.id.cmp(&b.id),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(context(&merged)),
        };
        match order {
            Ordering::Less => merged.extend(left.next()),
            Ordering::Greater => merged.extend(right.next()),
            Ordering::Equal => merged.extend(left.next().zip(right.next()).map(|(a, b)| merge_shards(a, b))),
        }
    }
}

/// `CounterContext.compare`: global before local before remote; of two globals or remotes the later clock, then the
/// larger count; of two locals the sum.
fn merge_shards(a: Shard, b: Shard) -> Shard {
    let newer = |greater: bool| if greater { a } else { b };
    if a.kind != b.kind {
        return newer(a.kind > b.kind);
    }
    match a.kind {
        ShardKind::Local => Shard { clock: a.clock.wrapping_add(b.clock), count: a.count.wrapping_add(b.count), ..a },
        ShardKind::Global => newer((a.clock, a.count) >= (b.clock, b.count)),
        ShardKind::Remote if a.clock == b.clock => newer(a.count >= b.count),
        // Clocks below zero were written when counters were told apart by generations: the lower is the later.
        ShardKind::Remote => newer(
            (a.clock >= 0 && b.clock > 0 && a.clock > b.clock) || (a.clock < 0 && (b.clock > 0 || a.clock < b.clock)),
        ),
    }
}

/// Two cells of one counter: `Cells.resolveCounter`. Malformed contexts, which are refused where they enter, are merged
/// as ordinary values.
pub(super) fn merge_cells(a: Cell, b: Cell) -> Cell {
    match (&a.value, &b.value) {
        (Some(left), Some(right)) => match merge(left, right) {
            Ok(merged) if *merged == **left && a.timestamp >= b.timestamp => a,
            Ok(merged) if *merged == **right && b.timestamp >= a.timestamp => b,
            Ok(merged) => Cell::live(a.timestamp.max(b.timestamp), Bytes::from(merged)),
            Err(_) if a.wins_over(&b) => a,
            Err(_) => b,
        },
        (Some(_), None) => b,
        (None, Some(_)) => a,
        (None, None) if a.wins_over(&b) => a,
        (None, None) => b,
    }
}

/// Whether it holds shards other than global ones, as files of Cassandra before 2.1 do.
pub fn has_legacy_shards(context: &[u8]) -> bool {
    shards(context).is_ok_and(|shards| shards.iter().any(|shard| shard.kind != ShardKind::Global))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shard(kind: ShardKind, id: u8, clock: i64, count: i64) -> Shard {
        Shard { kind, id: [id; 16], clock, count }
    }

    #[test]
    fn layout_is_cassandras() {
        let bytes = context(&[
            shard(ShardKind::Remote, 1, 2, 3),
            shard(ShardKind::Local, 2, 4, 5),
            shard(ShardKind::Global, 3, 6, -1),
        ]);
        let mut expect = vec![0, 2, 0, 1, 0x80, 2];
        for (id, clock, count) in [(1u8, 2i64, 3i64), (2, 4, 5), (3, 6, -1)] {
            expect.extend([id; 16]);
            expect.extend(clock.to_be_bytes());
            expect.extend(count.to_be_bytes());
        }
        assert_eq!(bytes, expect);
        assert_eq!(total(&bytes), Ok(7));
        assert!(has_legacy_shards(&bytes));
        // Marked for its local shards to be cleared: the same shards.
        expect[..2].copy_from_slice(&(-2i16).to_be_bytes());
        assert_eq!(shards(&expect), shards(&bytes));
    }

    #[test]
    fn updates_add_to_the_leaders_own_shard() {
        let (ours, theirs) = ([7; 16], [9; 16]);
        let first = increment(None, ours, 100, 5).unwrap();
        let foreign = increment(None, theirs, 1000, 10).unwrap();
        let known = merge(&first, &foreign).unwrap();
        let second = increment(Some(&known), ours, 50, -2).unwrap();
        assert_eq!(shards(&second).unwrap(), [Shard { kind: ShardKind::Global, id: ours, clock: 101, count: 3 }]);
        let known = merge(&known, &second).unwrap();
        assert_eq!(total(&known), Ok(13));
        assert_eq!(merge(&first, &known).unwrap(), known);
        assert!(!has_legacy_shards(&known));
    }

    #[test]
    fn the_rules_for_one_shard() {
        use ShardKind::{Global, Local, Remote};
        let check = |a: Shard, b: Shard, expect: Shard| {
            assert_eq!(merge_shards(a, b), expect);
            assert_eq!(merge_shards(b, a), expect);
        };
        check(shard(Global, 1, 1, 5), shard(Global, 1, 2, 3), shard(Global, 1, 2, 3));
        check(shard(Global, 1, 2, 5), shard(Global, 1, 2, 3), shard(Global, 1, 2, 5));
        check(shard(Global, 1, 1, 5), shard(Local, 1, 9, 9), shard(Global, 1, 1, 5));
        check(shard(Local, 1, 1, 5), shard(Remote, 1, 9, 9), shard(Local, 1, 1, 5));
        check(shard(Local, 1, 1, 5), shard(Local, 1, 2, 9), shard(Local, 1, 3, 14));
        check(shard(Remote, 1, 1, 5), shard(Remote, 1, 2, 3), shard(Remote, 1, 2, 3));
        check(shard(Remote, 1, -2, 5), shard(Remote, 1, 2, 3), shard(Remote, 1, -2, 5));
        check(shard(Remote, 1, -2, 5), shard(Remote, 1, -1, 3), shard(Remote, 1, -2, 5));
    }

    #[test]
    fn a_deleted_counter_stays_deleted() {
        let cell = Cell::live(10, context(&[shard(ShardKind::Global, 1, 1, 1)]));
        let (old, new) = (Cell::tombstone(1, 5), Cell::tombstone(2, 5));
        assert_eq!(merge_cells(cell.clone(), old.clone()), old);
        assert_eq!(merge_cells(old.clone(), cell), old);
        assert_eq!(merge_cells(old, new.clone()), new);
    }

    #[test]
    fn malformed_contexts_are_errors() {
        let good = context(&[shard(ShardKind::Global, 1, 2, 3), shard(ShardKind::Global, 2, 4, 5)]);
        for len in 0..good.len() {
            // Cut at a shard's end, the header names one that is missing.
            assert!(shards(&good[..len]).is_err(), "cut at {len}");
        }
        assert!(shards(&context(&[shard(ShardKind::Remote, 2, 0, 0), shard(ShardKind::Remote, 1, 0, 0)])).is_err());
    }

    fn any_context(kinds: &'static [ShardKind]) -> impl Strategy<Value = Vec<u8>> {
        let one = (0..4u8, prop::sample::select(kinds), 1..4i64, -2..3i64);
        prop::collection::vec(one, 0..4).prop_map(|list| {
            let by_id: std::collections::BTreeMap<u8, Shard> =
                list.into_iter().map(|(id, kind, clock, count)| (id, shard(kind, id, clock, count))).collect();
            context(&by_id.into_values().collect::<Vec<_>>())
        })
    }

    const ALL: &[ShardKind] = &[ShardKind::Remote, ShardKind::Local, ShardKind::Global];
    const OURS: &[ShardKind] = &[ShardKind::Global];

    proptest! {
        #[test]
        fn merging_is_a_join(a in any_context(OURS), b in any_context(OURS), c in any_context(OURS)) {
            let merged = |a: &[u8], b: &[u8]| merge(a, b).unwrap();
            prop_assert_eq!(merged(&a, &b), merged(&b, &a));
            prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
            prop_assert_eq!(merged(&a, &a), a);
        }

        #[test]
        fn old_shards_merge_in_any_order(a in any_context(ALL), b in any_context(ALL), c in any_context(ALL)) {
            let merged = |a: &[u8], b: &[u8]| merge(a, b).unwrap();
            prop_assert_eq!(merged(&a, &b), merged(&b, &a));
            prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Ok(list) = shards(&bytes) {
                prop_assert_eq!(shards(&context(&list)).unwrap(), list);
            }
            let _ = merge(&bytes, &bytes);
        }
    }
}
