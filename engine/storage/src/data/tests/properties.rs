//! What holds for any partitions: encoding comes back, merging is a join, order does not matter, and no bytes panic.

use proptest::prelude::*;
use types::{CqlType, TableDef};

use super::arbitrary::{partition, table};
use crate::data::counter::{self, Shard, ShardKind};
use crate::data::{Cell, Partition, Row, check_partition};

fn encoded(partition: &Partition) -> Vec<u8> {
    let mut bytes = Vec::new();
    partition.encode(&mut bytes);
    bytes
}

fn merged(a: &Partition, b: &Partition, table: &TableDef) -> Partition {
    let mut a = a.clone();
    a.merge(b.clone(), table);
    purged(a, table)
}

fn purged(mut partition: Partition, table: &TableDef) -> Partition {
    partition.purge_shadowed(table);
    partition
}

/// Damages bytes here and there: `(place, how)`.
pub(crate) fn damage(bytes: &mut Vec<u8>, edits: &[(u16, u8, u8)]) {
    for &(place, how, byte) in edits {
        let place = usize::from(place) % bytes.len().max(1);
        match how % 4 {
            0 if !bytes.is_empty() => bytes[place] = byte,
            1 => bytes.insert(place, byte),
            2 if !bytes.is_empty() => drop(bytes.remove(place)),
            _ => bytes.truncate(place),
        }
    }
}

fn counted() -> impl Strategy<Value = Row> {
    let shard = (0..3u8, 1..4i64, -2..3i64);
    let cell = (0..2u16, 1..4i64, prop::collection::vec(shard, 1..3));
    prop::collection::vec(cell, 0..3).prop_map(|cells| {
        let mut row = Row::default();
        for (column, timestamp, shards) in cells {
            let shards: std::collections::BTreeMap<u8, Shard> = shards
                .into_iter()
                .map(|(id, clock, count)| (id, Shard { kind: ShardKind::Global, id: [id; 16], clock, count }))
                .collect();
            let context = counter::context(&shards.into_values().collect::<Vec<_>>());
            row.set_cell(column, Cell::live(timestamp, context));
        }
        row
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn encoding_comes_back(partition in partition(&table())) {
        let bytes = encoded(&partition);
        prop_assert!(check_partition(&bytes, &table()).is_ok());
        prop_assert_eq!(Partition::decode(&bytes).unwrap(), partition);
    }

    #[test]
    fn merging_is_a_join(a in partition(&table()), b in partition(&table()), c in partition(&table())) {
        let table = table();
        let ab = merged(&a, &b, &table);
        prop_assert_eq!(&ab, &merged(&b, &a, &table));
        prop_assert_eq!(merged(&ab, &c, &table), merged(&a, &merged(&b, &c, &table), &table));
        prop_assert_eq!(merged(&a, &a, &table), purged(a.clone(), &table));
        prop_assert_eq!(merged(&ab, &b, &table), ab);
    }

    #[test]
    fn merged_cells_stay_in_the_order_of_their_types(a in partition(&table()), b in partition(&table())) {
        let table = table();
        let bytes = encoded(&merged(&a, &b, &table));
        prop_assert!(check_partition(&bytes, &table).is_ok());
    }

    #[test]
    fn damaged_partitions_are_refused_or_read(
        partition in partition(&table()),
        edits in prop::collection::vec(any::<(u16, u8, u8)>(), 1..6),
    ) {
        let mut bytes = encoded(&partition);
        damage(&mut bytes, &edits);
        let decoded = Partition::decode(&bytes);
        // What passes the check, which a memtable relies on, must decode and be written again.
        if check_partition(&bytes, &table()).is_ok() {
            let again = encoded(&decoded.unwrap());
            prop_assert!(check_partition(&again, &table()).is_ok());
        }
    }

    #[test]
    fn counters_join(a in counted(), b in counted(), c in counted()) {
        let table = TableDef::builder("k", "c")
            .partition_key("p", CqlType::Int)
            .regular("v", CqlType::Counter)
            .regular("w", CqlType::Counter)
            .build();
        let merged = |a: &Row, b: &Row| {
            let mut a = a.clone();
            a.merge(b.clone(), &table.regulars);
            a
        };
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        prop_assert_eq!(merged(&a, &a), a);
    }
}
