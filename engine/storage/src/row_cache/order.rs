//! In which order the cached partitions lie in the files, as far as scans have come by.
//!
//! Of a partition that a scan came to, the place is kept behind which the files have nothing before it. A scan that
//! stands in that stretch goes on to the partition without a look into the files' indexes. What is evicted is forgotten
//! here too, a key that is flushed into a stretch cuts it short, and compactions add no keys. A stretch never reaches
//! beyond the partition before it: what holds for one says nothing of another.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use types::Token;

use super::{COUNTS_BYTES, allocated};
use crate::Bytes;

/// A place between the partitions of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Behind {
    pub token: Token,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// Of the ring's first token: before all partitions, also the empty key's, which views have.
    Nothing,
    Key(Bytes),
    /// All keys of the token.
    Token,
}

impl Behind {
    pub fn key(token: Token, key: Bytes) -> Self {
        Self { token, what: What::Key(key) }
    }

    /// Behind the whole token; before everything when that is the ring's first.
    pub fn token(token: Token) -> Self {
        Self { token, what: if token == Token::MIN { What::Nothing } else { What::Token } }
    }

    /// Of the last partition before the place, when it is known.
    pub fn last_key(&self) -> Option<&Bytes> {
        match &self.what {
            What::Key(key) => Some(key),
            What::Nothing | What::Token => None,
        }
    }
}

/// Of a partition, behind itself.
type At = (u32, Behind);

#[derive(Default)]
pub(super) struct Order {
    /// Where each partition's stretch begins, by table and partition.
    stretches: BTreeMap<At, Behind>,
    key_bytes: u64,
}

/// What the tree takes for an entry, its nodes being three quarters full.
const ENTRY_BYTES: u64 = (size_of::<(At, Behind)>() * 4 / 3) as u64;

/// As many for the place where the stretch begins: usually a key as long, and often the very same.
fn bytes_of(key: &Bytes) -> u64 {
    2 * allocated(COUNTS_BYTES + key.len())
}

impl Order {
    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// Memory of all of it.
    pub fn bytes(&self) -> u64 {
        self.key_bytes + self.stretches.len() as u64 * ENTRY_BYTES
    }

    /// The partition that comes next in the files; `None` when that is not known.
    pub fn next(&self, table: u32, place: &Behind) -> Option<(Token, Bytes)> {
        let (at, from) = self.stretches.range((Excluded((table, place.clone())), Unbounded)).next()?;
        let (of, partition) = at;
        let key = partition.last_key().filter(|_| *of == table && from <= place)?;
        Some((partition.token, key.clone()))
    }

    /// The files have nothing between the place and the partition.
    pub fn follows(&mut self, table: u32, place: &Behind, token: Token, key: &[u8]) {
        let key = Bytes::copy_from(key);
        let here = Behind::key(token, key.clone());
        self.cut(table, &here);
        let at = (table, here);
        let before = self.stretches.range(..&at).next_back().filter(|((of, _), _)| *of == table);
        let from = before.map_or(place, |((_, before), _)| place.max(before)).clone();
        match self.stretches.get_mut(&at) {
            Some(known) => *known = from.min(known.clone()),
            None => {
                self.key_bytes += bytes_of(&key);
                self.stretches.insert(at, from);
            }
        }
    }

    /// There is a partition here in the files: who goes on behind it comes to what follows, who stands before it does not.
    pub fn cut(&mut self, table: u32, here: &Behind) {
        let behind = (Excluded((table, here.clone())), Unbounded);
        if let Some(((of, _), from)) = self.stretches.range_mut(behind).next()
            && *of == table
            && *from < *here
        {
            *from = here.clone();
        }
    }

    /// It is evicted.
    pub fn forget(&mut self, table: u32, token: Token, key: &[u8]) {
        let key = Bytes::copy_from(key);
        let at = (table, Behind::key(token, key.clone()));
        if self.stretches.remove(&at).is_some() {
            self.key_bytes -= bytes_of(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(token: i64) -> Behind {
        Behind::key(Token(token), Bytes::from(b"k"))
    }

    fn next(order: &Order, place: Behind) -> Option<i64> {
        order.next(1, &place).map(|(token, _)| token.0)
    }

    #[test]
    fn only_what_a_scan_has_seen_is_known() {
        let mut order = Order::default();
        order.follows(1, &Behind::token(Token(10)), Token(20), b"k");
        order.follows(1, &at(20), Token(30), b"k");
        assert_eq!(next(&order, Behind::token(Token(10))), Some(20));
        assert_eq!(next(&order, Behind::token(Token(15))), Some(20));
        assert_eq!(next(&order, Behind::token(Token(9))), None);
        assert_eq!(next(&order, at(20)), Some(30));
        assert_eq!(next(&order, Behind::token(Token(29))), Some(30));
        assert_eq!(next(&order, at(30)), None);
        assert_eq!(order.next(2, &at(20)), None);
        assert_eq!(order.next(0, &at(20)), None);

        order.forget(1, Token(20), b"k");
        assert_eq!(next(&order, Behind::token(Token(10))), None, "20 lies between");
        assert_eq!(next(&order, at(20)), Some(30));
        order.forget(1, Token(30), b"k");
        assert!(order.is_empty() && order.bytes() == 0);
    }

    #[test]
    fn a_key_in_a_stretch_cuts_it_short() {
        let mut order = Order::default();
        order.follows(1, &at(10), Token(20), b"k");
        order.follows(1, &at(20), Token(30), b"k");
        order.cut(1, &at(25));
        assert_eq!((next(&order, at(20)), next(&order, at(25))), (None, Some(30)));
        // Who comes to it joins the two parts.
        order.follows(1, &at(20), Token(25), b"k");
        assert_eq!((next(&order, at(20)), next(&order, at(25))), (Some(25), Some(30)));
        // A partition that is there already stays a bound, whatever a scan says of what lies behind it.
        order.follows(1, &at(1), Token(30), b"k");
        order.forget(1, Token(25), b"k");
        assert_eq!((next(&order, at(20)), next(&order, at(25))), (None, Some(30)));
    }

    #[test]
    fn the_empty_key_lies_behind_the_ring_s_beginning() {
        let mut order = Order::default();
        order.follows(1, &Behind::token(Token::MIN), Token::MIN, b"");
        order.follows(1, &Behind::key(Token::MIN, Bytes::default()), Token(7), b"k");
        assert_eq!(next(&order, Behind::token(Token::MIN)), Some(i64::MIN));
        assert_eq!(next(&order, Behind::key(Token::MIN, Bytes::default())), Some(7));
        assert_eq!(next(&order, Behind::token(Token(7))), None);
    }
}
