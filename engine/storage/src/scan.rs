//! Partitions in token order, out of all the places that hold parts of them.

use std::rc::Rc;

use types::{TableDef, Token};

use crate::data::behind;
use crate::read::{Page, PartitionRead, Source};
use crate::sstable::{IndexCursor, PartitionCursor, ReadAhead, Sstable};
use crate::table::{SharedMemtable, Table};
use crate::{Bytes, Error, Partition, Row, ScanCommand, Slice};

/// The places, as they were when the scan began.
struct Scan<'a> {
    def: &'a TableDef,
    command: &'a ScanCommand,
    memtables: Vec<SharedMemtable>,
    sstables: Vec<Rc<Sstable>>,
    /// Live rows still wanted, memory for rows, and deletions that may be gone through.
    left: usize,
    left_bytes: usize,
    left_tombstones: usize,
    answer: Vec<Partition>,
}

/// Behind the key, or behind every key of the token.
struct Place {
    token: Token,
    key: Option<Bytes>,
}

/// From so many partitions on there is room for as many as are wanted: growing step by step copies them again and again.
const MANY: usize = 256;

const LAST: Token = Token(i64::MAX);

pub(crate) async fn scan(table: &Rc<Table>, command: &ScanCommand) -> Result<(Vec<Partition>, bool), Error> {
    let def = table.def();
    let mut scan = Scan {
        def: &def,
        command,
        memtables: table.memtables(),
        sstables: table.sstables.borrow().clone(),
        left: command.limit_rows.max(1),
        left_bytes: command.limit_bytes.max(1),
        left_tombstones: command.limit_tombstones.max(1),
        answer: Vec::new(),
    };
    let (start, end) = command.tokens;
    let end = if end == Token(i64::MIN) { LAST } else { end };
    // A range that wraps around is two ranges; a paged one may be in its second already.
    let mut ranges = if start < end { vec![(start, end)] } else { vec![(start, LAST), (Token(i64::MIN), end)] };
    let mut resume = None;
    if let Some((key, row)) = &command.after {
        let token = Token::of_key(key);
        if ranges.len() == 2 && token <= start {
            ranges.remove(0);
        }
        ranges[0].0 = token;
        resume = Some((key.clone(), row.as_ref()));
    }
    for (start, end) in ranges {
        let mut place = Place { token: start, key: None };
        if let Some((key, row)) = resume.take() {
            if let Some(row) = row {
                // The rest of the partition that the last page ended in.
                let slices = behind(&command.slices, row, &def);
                let mut page = scan.read_again(table, start, &key, &slices).await?;
                // Rows are shown with the static row beside them; by itself it was told with the first page.
                if let Some(partition) = page.partition.as_mut().filter(|partition| partition.rows.is_empty()) {
                    partition.static_row = None;
                }
                scan.take(page);
            }
            place.key = Some(key);
        }
        if scan.is_full() || scan.range(place, end).await? {
            return Ok((scan.answer, true));
        }
    }
    Ok((scan.answer, false))
}

impl Scan<'_> {
    fn take(&mut self, page: Page) {
        self.left_tombstones = self.left_tombstones.saturating_sub(page.tombstones);
        let Some(partition) = page.partition else { return };
        let now_s = self.command.now_s;
        let rows = partition.visible_rows(now_s, self.def).count();
        self.left -= rows.max(usize::from(partition.has_live_static(now_s))).min(self.left);
        let bytes: usize = partition.rows.iter().chain(&partition.static_row).map(Row::memory_bytes).sum();
        let bytes = bytes + size_of::<Partition>() + partition.key.len();
        self.left_bytes = if page.more { 0 } else { self.left_bytes.saturating_sub(bytes) };
        if self.answer.len() == MANY {
            self.answer.reserve_exact(self.command.limit_rows.clamp(MANY, 32 * MANY) - MANY + 1);
        }
        self.answer.push(partition);
    }

    /// The last partition may have more rows, if not another one follows.
    fn is_full(&self) -> bool {
        self.left == 0 || self.left_bytes == 0 || self.left_tombstones == 0
    }

    fn read<'b>(&'b self, token: Token, key: &'b Bytes, slices: &'b [Slice]) -> PartitionRead<'b> {
        let (def, now_s) = (self.def, self.command.now_s);
        PartitionRead {
            def,
            token,
            key,
            slices,
            reverse: false,
            limit_rows: self.left,
            limit_bytes: self.left_bytes,
            now_s,
            bypass_cache: true,
        }
    }

    async fn read_again(&self, table: &Rc<Table>, token: Token, key: &Bytes, slices: &[Slice]) -> Result<Page, Error> {
        let read = self.read(token, key, slices);
        let sources = read.sources(table).await?;
        read.page(sources).await
    }

    /// Whether there may be more in the range when enough has been taken.
    async fn range(&mut self, mut place: Place, end: Token) -> Result<bool, Error> {
        let mut cursors = Vec::new();
        for sstable in &self.sstables {
            // Those that end before the range have nothing to say.
            if sstable.last >= place.token && sstable.first <= end {
                let keys = IndexCursor::seek(sstable.clone(), place.token, place.key.as_deref()).await?;
                cursors.push((keys, Rc::new(ReadAhead::new(sstable.clone()))));
            }
        }
        loop {
            let in_memory = self.memtables.iter().filter_map(|memtable| {
                let memtable = memtable.borrow();
                let (token, stored) = memtable.range_after(place.token, place.key.as_deref()).next()?;
                Some((token, Bytes::copy_from(stored.key())))
            });
            let in_files =
                cursors.iter().filter_map(|(keys, _)| keys.head()).map(|head| (head.token, head.key.clone()));
            let Some((token, key)) = in_memory.chain(in_files).min().filter(|(token, _)| *token <= end) else {
                return Ok(false);
            };
            let mut sources: Vec<Source> = self.memtables.iter().cloned().map(Source::Memtable).collect();
            for (cursor, ahead) in &mut cursors {
                let Some(head) = cursor.head().filter(|head| (head.token, &head.key) == (token, &key)) else {
                    continue;
                };
                let entry = head.clone();
                cursor.advance().await?;
                let next = cursor.head().map(|next| next.position);
                let place = entry.place(&cursor.sstable, next).await?;
                let data = PartitionCursor::new(cursor.sstable.clone(), key.clone(), place);
                sources.push(Source::Sstable(Box::new(data.reading_ahead(ahead.clone()))));
            }
            let page = self.read(token, &key, &self.command.slices).page(sources).await?;
            self.take(page);
            if self.is_full() {
                return Ok(true);
            }
            place = Place { token, key: Some(key) };
            reactor::time::end_turn().await;
        }
    }
}
