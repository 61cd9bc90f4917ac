//! Deletions of ranges of rows, and their normal form: sorted, apart from one another, the latest deletion on top.

use std::collections::BTreeMap;

use types::TableDef;

use super::clustering::Position;
use super::{Bound, DeletionTime, Slice, compare_positions};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    pub start: Bound,
    pub end: Bound,
    pub deletion: DeletionTime,
}

impl RangeTombstone {
    /// The part of it inside `slice`, if any.
    pub fn clip(&self, slice: &Slice, table: &TableDef) -> Option<RangeTombstone> {
        let start = if compare_positions(table, self.start.as_start(), slice.start.as_start()).is_lt() {
            &slice.start
        } else {
            &self.start
        };
        let end = if compare_positions(table, self.end.as_end(), slice.end.as_end()).is_gt() {
            &slice.end
        } else {
            &self.end
        };
        compare_positions(table, start.as_start(), end.as_end()).is_lt().then(|| RangeTombstone {
            start: start.clone(),
            end: end.clone(),
            deletion: self.deletion,
        })
    }
}

/// Brings a list into normal form. Where several overlap, the one that supersedes the others counts; neighbours with
/// one deletion become one; empty ones go.
pub(crate) fn normalise(list: &mut Vec<RangeTombstone>, table: &TableDef) {
    if is_normal(list, table) {
        return;
    }
    let mut edges: Vec<(Position<'_>, bool, DeletionTime)> = Vec::with_capacity(list.len() * 2);
    for tombstone in list.iter() {
        if compare_positions(table, tombstone.start.as_start(), tombstone.end.as_end()).is_lt() {
            edges.push((tombstone.start.as_start(), true, tombstone.deletion));
            edges.push((tombstone.end.as_end(), false, tombstone.deletion));
        }
    }
    edges.sort_by(|a, b| compare_positions(table, a.0, b.0));

    // How many ranges with each deletion are open; the last key is the deletion in force.
    let mut open: BTreeMap<(i64, u32), usize> = BTreeMap::new();
    let mut normal: Vec<RangeTombstone> = Vec::with_capacity(list.len());
    let mut since: Option<(Position<'_>, DeletionTime)> = None;
    let mut at = 0;
    while at < edges.len() {
        let position = edges[at].0;
        while at < edges.len() && compare_positions(table, edges[at].0, position).is_eq() {
            let (_, opens, deletion) = edges[at];
            let key = (deletion.timestamp, deletion.local_s);
            if opens {
                *open.entry(key).or_default() += 1;
            } else if let Some(count) = open.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    open.remove(&key);
                }
            }
            at += 1;
        }
        let in_force = open.last_key_value().map(|(&(timestamp, local_s), _)| DeletionTime { timestamp, local_s });
        match since {
            Some((_, deletion)) if Some(deletion) == in_force => continue,
            Some((start, deletion)) => {
                normal.push(RangeTombstone { start: start.to_start(), end: position.to_end(), deletion });
            }
            None => {}
        }
        since = in_force.map(|deletion| (position, deletion));
    }
    *list = normal;
}

fn is_normal(list: &[RangeTombstone], table: &TableDef) -> bool {
    list.iter().all(|t| compare_positions(table, t.start.as_start(), t.end.as_end()).is_lt())
        && list.windows(2).all(|pair| {
            let gap = compare_positions(table, pair[0].end.as_end(), pair[1].start.as_start());
            gap.is_lt() || (gap.is_eq() && pair[0].deletion != pair[1].deletion)
        })
}

#[cfg(test)]
mod tests {
    use types::CqlType;

    use super::*;
    use crate::data::Clustering;

    fn table() -> TableDef {
        TableDef::builder("k", "t").partition_key("p", CqlType::Int).clustering("c", CqlType::Int).build()
    }

    fn at(n: i32) -> Clustering {
        Clustering::new([n.to_be_bytes()])
    }

    /// `[2,5)@7` and the like.
    fn show(list: &[RangeTombstone]) -> String {
        let number = |c: &Clustering| match c.component(0) {
            Some(bytes) => i32::from_be_bytes(bytes.try_into().unwrap()).to_string(),
            None => "*".into(),
        };
        let one = |t: &RangeTombstone| {
            let (open, close) = (if t.start.inclusive { '[' } else { '(' }, if t.end.inclusive { ']' } else { ')' });
            format!("{open}{},{}{close}@{}", number(&t.start.prefix), number(&t.end.prefix), t.deletion.timestamp)
        };
        list.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn range(start: Bound, end: Bound, timestamp: i64) -> RangeTombstone {
        RangeTombstone { start, end, deletion: DeletionTime { timestamp, local_s: 1 } }
    }

    fn check(mut list: Vec<RangeTombstone>, expect: &str) {
        normalise(&mut list, &table());
        assert_eq!(show(&list), expect);
        let again = list.clone();
        normalise(&mut list, &table());
        assert_eq!(list, again);
    }

    #[test]
    fn overlaps_become_slices() {
        let (inc, exc) = (|n| Bound::inclusive(at(n)), |n| Bound::exclusive(at(n)));
        check(vec![range(inc(1), inc(9), 1), range(inc(3), exc(5), 2)], "[1,3)@1 [3,5)@2 [5,9]@1");
        check(vec![range(inc(5), inc(9), 1), range(inc(1), exc(5), 1)], "[1,9]@1");
        check(
            vec![range(exc(1), inc(3), 2), range(Bound::unbounded(), Bound::unbounded(), 1)],
            "[*,1]@1 (1,3]@2 (3,*]@1",
        );
        check(vec![range(inc(3), inc(2), 2), range(exc(3), exc(3), 2)], "");
        check(
            vec![range(inc(1), inc(4), 3), range(inc(2), inc(6), 2), range(inc(3), inc(8), 1)],
            "[1,4]@3 (4,6]@2 (6,8]@1",
        );
    }

    #[test]
    fn clipping() {
        let (inc, exc) = (|n| Bound::inclusive(at(n)), |n| Bound::exclusive(at(n)));
        let tombstone = range(inc(1), inc(9), 1);
        let clip = |start, end| tombstone.clip(&Slice { start, end }, &table()).map(|t| show(&[t]));
        assert_eq!(clip(exc(3), Bound::unbounded()).unwrap(), "(3,9]@1");
        assert_eq!(clip(Bound::unbounded(), exc(3)).unwrap(), "[1,3)@1");
        assert_eq!(clip(exc(9), Bound::unbounded()), None);
    }
}
