//! Partitions in token order, out of all the places that hold parts of them.

use std::rc::Rc;

use reactor::Work;
use types::{TableDef, Token};

use crate::data::behind;
use crate::read::{Page, PartitionRead, Snapshot, Source};
use crate::row_cache::{Behind, Found, PARTITION_MAX_BYTES};
use crate::sstable::{IndexCursor, PartitionCursor, ReadAhead};
use crate::table::{SharedMemtable, Table};
use crate::{Bytes, Error, Partition, Row, ScanCommand, Slice};

/// The places, as they were when the scan began.
struct Scan<'a> {
    def: &'a TableDef,
    command: &'a ScanCommand,
    memtables: Vec<SharedMemtable>,
    files: Files<'a>,
    /// Live rows still wanted, memory for rows, and deletions that may be gone through.
    left: usize,
    left_bytes: usize,
    left_tombstones: usize,
    answer: Vec<Partition>,
}

/// From so many partitions on there is room for as many as are wanted: growing step by step copies them again and again.
const MANY: usize = 256;

/// Scans for more rows at once go past the row cache: they would push out what others read again, and take nearly twice
/// as long (200,000 partitions of 200 B in 1.7 to 2.0 s instead of 0.9 to 1.1).
const SHORT: usize = 512;

const LAST: Token = Token(i64::MAX);

pub(crate) async fn scan(table: &Rc<Table>, command: &ScanCommand) -> Result<(Vec<Partition>, bool), Error> {
    let def = table.def();
    let mut scan = Scan {
        def: &def,
        command,
        memtables: table.memtables(),
        files: Files::new(table, &def, command),
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
        let mut place = Behind::token(start);
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
            place = Behind::key(start, key);
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
        let (limit_rows, limit_bytes) = (self.left, self.left_bytes);
        PartitionRead { def, token, key, slices, reverse: false, limit_rows, limit_bytes, now_s, bypass_cache: true }
    }

    async fn read_again(&self, table: &Rc<Table>, token: Token, key: &Bytes, slices: &[Slice]) -> Result<Page, Error> {
        let read = self.read(token, key, slices);
        let sources = read.sources(table).await?;
        read.page(sources).await
    }

    /// Whether there may be more in the range when enough has been taken.
    async fn range(&mut self, mut place: Behind, end: Token) -> Result<bool, Error> {
        self.files.begin(end);
        loop {
            let in_memory = self.memtables.iter().filter_map(|memtable| {
                let memtable = memtable.borrow();
                let key = place.last_key().map(|key| &**key);
                let (token, stored) = memtable.range_after(place.token, key).next()?;
                Some((token, Bytes::copy_from(stored.key())))
            });
            let in_memory = in_memory.min();
            let in_files = self.files.next(&place).await?;
            let Some((token, key)) = in_memory.into_iter().chain(in_files.clone()).min().filter(|(at, _)| *at <= end)
            else {
                return Ok(false);
            };
            let mut sources: Vec<Source> = self.memtables.iter().cloned().map(Source::Memtable).collect();
            if in_files.is_some_and(|(at, ref of)| (at, of) == (token, &key)) {
                sources.append(&mut self.files.read(&place, token, &key).await?);
            }
            let page = self.read(token, &key, &self.command.slices).page(sources).await?;
            self.take(page);
            if self.is_full() {
                return Ok(true);
            }
            place = Behind::key(token, key);
            reactor::time::end_turn().await;
        }
    }
}

/// What the SSTables have, out of the row cache as far as that knows in which order its partitions lie in them. What it
/// does not know is read in order and kept there; not of long scans, nor of those that want parts of partitions.
struct Files<'a> {
    table: &'a Rc<Table>,
    def: &'a TableDef,
    now: Snapshot,
    now_s: u32,
    with_cache: bool,
    end: Token,
    /// Open once they were needed, and behind where the scan is when others were found in the cache since then.
    cursors: Option<Vec<Cursor>>,
}

struct Cursor {
    keys: IndexCursor,
    data: Rc<ReadAhead>,
}

impl<'a> Files<'a> {
    fn new(table: &'a Rc<Table>, def: &'a TableDef, command: &ScanCommand) -> Self {
        let is_short = command.slices.is_empty() && command.limit_rows <= SHORT;
        let with_cache = is_short && !command.bypass_cache && table.rows.is_on();
        Self { table, def, now: Snapshot::of(table), now_s: command.now_s, with_cache, end: LAST, cursors: None }
    }

    fn begin(&mut self, end: Token) {
        self.end = end;
        self.cursors = None;
    }

    /// The partition that comes next; it may lie behind the range's end.
    async fn next(&mut self, place: &Behind) -> Result<Option<(Token, Bytes)>, Error> {
        if self.now.list.is_empty() {
            return Ok(None);
        }
        if self.with_cache
            && let Some(known) = self.table.rows.next(self.now.name, place)
        {
            return Ok(Some(known));
        }
        let cursors = match &mut self.cursors {
            Some(cursors) => cursors,
            None => {
                let mut cursors = Vec::new();
                for sstable in &self.now.list {
                    // Those that end before the range have nothing to say.
                    if sstable.last >= place.token && sstable.first <= self.end {
                        let key = place.last_key().map(|key| &**key);
                        let keys = IndexCursor::seek(sstable.clone(), place.token, key).await?;
                        cursors.push(Cursor { keys, data: Rc::new(ReadAhead::new(sstable.clone())) });
                    }
                }
                self.cursors.insert(cursors)
            }
        };
        let mut next = None;
        for Cursor { keys, .. } in cursors {
            while keys.head().is_some_and(|head| Behind::key(head.token, head.key.clone()) <= *place) {
                keys.advance().await?;
            }
            let head = keys.head().map(|head| (head.token, head.key.clone()));
            next = next.into_iter().chain(head).min();
        }
        Ok(next)
    }

    /// What they have of the partition, which [`next`](Self::next) gave for `place`.
    async fn read(&mut self, place: &Behind, token: Token, key: &Bytes) -> Result<Vec<Source>, Error> {
        let (rows, name) = (&self.table.rows, self.now.name);
        if self.with_cache
            && let Found::Whole(bytes) = rows.find(name, token, key)
        {
            if self.now.is_current(self.table) {
                rows.follows(name, place, token, key);
            }
            reactor::charge(Work::RowCacheRead, bytes.len() as u64);
            return Ok(vec![Source::Files(Partition::decode_shared(&bytes.into())?)]);
        }
        let mut sources = Vec::new();
        let mut bytes = 0;
        for Cursor { keys, data } in self.cursors.iter_mut().flatten() {
            let Some(entry) = keys.head().filter(|head| (head.token, &head.key) == (token, key)).cloned() else {
                continue;
            };
            keys.advance().await?;
            let next = keys.head().map(|next| next.position);
            let at = entry.place(&keys.sstable, next).await?;
            bytes += at.bytes_at_most(&keys.sstable);
            let cursor = PartitionCursor::new(keys.sstable.clone(), key.clone(), at);
            sources.push(Source::Sstable(Box::new(cursor.reading_ahead(data.clone()))));
        }
        if !self.with_cache || bytes > PARTITION_MAX_BYTES || !self.now.is_current(self.table) {
            return Ok(sources);
        }
        let all = PartitionRead {
            def: self.def,
            token,
            key,
            slices: &[],
            reverse: false,
            limit_rows: usize::MAX,
            limit_bytes: usize::MAX,
            now_s: self.now_s,
            bypass_cache: true,
        };
        let partition = all.page(sources).await?.partition.unwrap_or_else(|| Partition::new(key.clone()));
        if self.now.is_current(self.table) {
            rows.insert_whole(name, token, &partition, self.def)?;
            rows.follows(name, place, token, key);
        }
        Ok(vec![Source::Files(partition)])
    }
}
