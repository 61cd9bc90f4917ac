//! Partitions in token order, out of all the places that hold parts of them.

use types::Token;

use crate::data::behind;
use crate::read::{PartitionRead, Source};
use crate::table::Table;
use crate::{Bytes, Error, Partition, ScanCommand};

/// A place on the ring: behind the key, or behind every key of the token.
#[derive(Clone, PartialEq, Eq)]
struct Place {
    token: Token,
    key: Option<Bytes>,
}

pub(crate) async fn scan(table: &Table, command: &ScanCommand) -> Result<(Vec<Partition>, bool), Error> {
    let def = table.def();
    let memtables = table.memtables();
    let (start, end) = command.tokens;
    let mut answer = Vec::new();
    let mut left = command.limit_rows;
    let last_token = Token(i64::MAX);
    let end = if end == Token(i64::MIN) { last_token } else { end };
    // A range that wraps around is two ranges; a paged one may be in its second already.
    let mut ranges = if start < end { vec![(start, end)] } else { vec![(start, last_token), (Token(i64::MIN), end)] };
    let mut resume = None;
    if let Some((key, row)) = &command.after {
        let token = Token::of_key(key);
        if ranges.len() == 2 && token <= end && token <= start {
            ranges.remove(0);
        }
        ranges[0].0 = token;
        resume = Some((key, row));
    }
    for (index, (start, end)) in ranges.into_iter().enumerate() {
        let mut place = Place { token: start, key: None };
        if let (0, Some((key, row))) = (index, resume) {
            place.key = Some(key.clone());
            if let Some(row) = row {
                // The rest of the partition that the last page ended in.
                let slices = behind(&command.slices, row, &def);
                let read = PartitionRead {
                    def: &def,
                    token: start,
                    key,
                    slices: &slices,
                    reverse: false,
                    limit_rows: left,
                    now_s: command.now_s,
                };
                let sources = memtables.iter().cloned().map(Source::Memtable).collect();
                if let Some(partition) = read.run(sources).await? {
                    // Its static row was told with the first page.
                    left -= partition.live_rows(command.now_s).count().min(left);
                    answer.push(partition);
                    if left == 0 {
                        return Ok((answer, true));
                    }
                }
            }
        }
        loop {
            let next = memtables.iter().filter_map(|memtable| {
                let memtable = memtable.borrow();
                let (token, stored) = memtable.range_after(place.token, place.key.as_deref()).next()?;
                Some((token, Bytes::copy_from(stored.key())))
            });
            let Some((token, key)) = next.min().filter(|(token, _)| *token <= end) else { break };
            let read = PartitionRead {
                def: &def,
                token,
                key: &key,
                slices: &command.slices,
                reverse: false,
                limit_rows: left,
                now_s: command.now_s,
            };
            let sources = memtables.iter().cloned().map(Source::Memtable).collect();
            if let Some(partition) = read.run(sources).await? {
                let rows = partition.live_rows(command.now_s).count();
                left -= rows.max(usize::from(partition.has_live_static(command.now_s))).min(left);
                answer.push(partition);
                if left == 0 {
                    return Ok((answer, true));
                }
            }
            place = Place { token, key: Some(key) };
        }
    }
    Ok((answer, false))
}
