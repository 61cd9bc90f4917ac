//! The rows of one partition, some at a time, forwards or backwards.
//!
//! A wide partition has an index of its own: a slice is then read from the block that it begins in, and nothing
//! behind the block that it ends in; what lies between two slices is jumped over. Backwards, one block comes after
//! the other, the last first, each read forwards and told from behind. A partition without an index is less than two
//! blocks long: backwards it comes at once.

use std::rc::Rc;

use reactor::Work;

use super::Place;
use super::file::BlockFile;
use super::header::Header;
use super::index::{Block, Promoted};
use super::plain::PlainRows;
use super::read_ahead::ReadAhead;
use super::reader::Sstable;
use super::unfiltered::{self, Head, Marker, Parse};
use crate::data::codec::Reader;
use crate::data::{Position, compare_positions};
use crate::memtable::Part;
use crate::{Bound, Bytes, DeletionTime, Error, Partition, RangeTombstone, Row, Slice};

/// Read at once where much is read in order.
pub(super) const SEQUENTIAL: usize = 128 << 10;

/// A row whose size says more is refused: a wrong size must not read a whole file into memory. Twice the largest value
/// that the native protocol carries.
const UNFILTERED_MAX: usize = 512 << 20;

/// Walks through the data, holding a part of it in memory.
pub(super) struct DataCursor {
    pub sstable: Rc<Sstable>,
    pub window: Bytes,
    pub window_start: u64,
    pub at: usize,
    /// Where what is wanted is known to end.
    pub end: Option<u64>,
    pub sequential: bool,
    /// Where the windows come from, when partition after partition is read.
    ahead: Option<Rc<ReadAhead>>,
    /// Whether what is read stays in the cache of blocks.
    pub keep: bool,
    /// What was read last; the next read in order is twice as much.
    read_ahead: usize,
}

impl DataCursor {
    pub fn new(sstable: Rc<Sstable>, start: u64, end: Option<u64>, sequential: bool) -> Self {
        let window = Bytes::default();
        Self { sstable, window, window_start: start, at: 0, end, sequential, ahead: None, keep: true, read_ahead: 0 }
    }

    pub fn position(&self) -> u64 {
        self.window_start + self.at as u64
    }

    pub fn at_end(&self) -> bool {
        self.position() >= self.file().len
    }

    fn file(&self) -> &BlockFile {
        &self.sstable.data
    }

    /// Goes on at another place.
    fn jump(&mut self, position: u64) {
        match position.checked_sub(self.window_start).and_then(|at| usize::try_from(at).ok()) {
            Some(at) if at <= self.window.len() => self.at = at,
            _ => (self.window, self.window_start, self.at, self.read_ahead) = (Bytes::default(), position, 0, 0),
        }
    }

    /// Parses the next thing, reading on when the window ends within it.
    pub async fn next<T>(
        &mut self,
        mut parse: impl FnMut(&Header, &mut Reader<'_>, &Bytes) -> Result<T, Parse>,
    ) -> Result<T, Error> {
        loop {
            let mut reader = Reader::new(&self.window[self.at..]);
            match parse(&self.sstable.header, &mut reader, &self.window) {
                Ok(parsed) => {
                    self.at = self.window.len() - reader.rest.len();
                    return Ok(parsed);
                }
                Err(Parse::Incomplete) => self.read_on().await?,
                Err(Parse::Malformed(what)) => return Err(self.corrupt(what)),
            }
        }
    }

    pub fn corrupt(&self, what: &str) -> Error {
        Error::corrupt(&self.file().path, self.position(), what)
    }

    async fn read_on(&mut self) -> Result<(), Error> {
        let start = self.position();
        let had = self.window.len() - self.at;
        let data = &self.sstable.data;
        if start.saturating_add(had as u64) >= data.len {
            return Err(self.corrupt("the data ends within a partition"));
        }
        if had > UNFILTERED_MAX {
            return Err(self.corrupt("a row that is larger than rows are read"));
        }
        let window = if self.sequential {
            data.read_past_cache(start, SEQUENTIAL.max(had * 2)).await?
        } else {
            // To the end when that is known and not far, else to the end of the unit; more each time.
            let known =
                self.end.map(|end| end.saturating_sub(start)).filter(|len| (1..=SEQUENTIAL as u64).contains(len));
            let to_unit_end = data.to_unit_end(start);
            let ahead = to_unit_end.max((self.read_ahead * 2).min(SEQUENTIAL));
            let len = known.map_or(ahead, |len| len as usize);
            let len = if len > had { len } else { had * 2 + to_unit_end };
            self.read_ahead = len;
            match &self.ahead {
                Some(ahead) => ahead.read(start, len).await?,
                None => data.read_through(start, len, self.keep).await?,
            }
        };
        (self.window, self.window_start, self.at) = (window, start, 0);
        Ok(())
    }
}

/// The rows of one partition, some at a time.
pub(crate) struct PartitionCursor {
    pub(super) data: DataCursor,
    /// What decoding rows is charged as.
    work: Work,
    key: Bytes,
    start: u64,
    promoted: Option<Rc<Promoted>>,
    begun: bool,
    /// The partition has a deletion, which may shadow rows of every part.
    is_deleted: bool,
    open: Option<(Bound, DeletionTime)>,
    /// The first slice that may have more rows.
    slice: usize,
    /// The slice whose beginning was looked up in the index.
    sought: Option<usize>,
    /// Behind it lies nothing that is wanted.
    stop_at: Option<u64>,
    /// Backwards: how many blocks are still to come.
    blocks_left: Option<u32>,
    done: bool,
}

enum Step {
    End,
    Row(Row),
    Marker(Marker),
    /// Not in any slice.
    Skipped,
    /// Behind the last slice.
    Beyond,
}

impl PartitionCursor {
    /// At the partition that `Sstable::find` has found.
    pub fn new(sstable: Rc<Sstable>, key: Bytes, place: Place) -> Self {
        Self::over(DataCursor::new(sstable, place.start, place.end, false), key, place.promoted, Work::SstableRead)
    }

    /// For one whose rows are kept elsewhere: the blocks that it reads are not.
    pub fn without_keeping_blocks(mut self) -> Self {
        self.data.keep = false;
        self
    }

    /// For one of many that are read in order.
    pub fn reading_ahead(mut self, ahead: Rc<ReadAhead>) -> Self {
        self.data.ahead = Some(ahead);
        self
    }

    /// At the partition that the data cursor stands at.
    pub(super) fn over(data: DataCursor, key: Bytes, promoted: Option<Rc<Promoted>>, work: Work) -> Self {
        let start = data.position();
        Self {
            data,
            work,
            key,
            start,
            promoted,
            begun: false,
            is_deleted: false,
            open: None,
            slice: 0,
            sought: None,
            stop_at: None,
            blocks_left: None,
            done: false,
        }
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// On to the partition that the data cursor stands at.
    pub(super) fn enter_partition(&mut self, key: Bytes) {
        self.key = key;
        self.start = self.data.position();
        (self.begun, self.is_deleted, self.open) = (false, false, None);
        (self.slice, self.sought, self.stop_at, self.blocks_left, self.done) = (0, None, None, None, false);
    }

    /// The whole partition, unless it has `rows_max` rows, or there is more to it than plain rows, or it is not in
    /// the window. False, with nothing read, then.
    pub(super) fn take_plain(&mut self, rows_max: usize, plain: &mut PlainRows) -> bool {
        let header = &self.data.sstable.header;
        if self.begun || !header.statics.is_empty() {
            return false;
        }
        let mut reader = Reader::new(&self.data.window[self.data.at..]);
        let had = reader.rest.len();
        let mut take = || match unfiltered::read_partition_head(&mut reader) {
            Ok((key, None)) if *key == *self.key => {
                while plain.len() < rows_max && plain.read(header, &mut reader) == Ok(true) {}
                plain.len() < rows_max && unfiltered::read_partition_end(&mut reader)
            }
            _ => false,
        };
        if !take() {
            plain.clear();
            return false;
        }
        let read = had - reader.rest.len();
        self.data.at += read;
        reactor::charge(self.work, read as u64);
        true
    }

    /// The partition's deletion and static row, with the first rows.
    async fn begin(&mut self, partition: &mut Partition) -> Result<(), Error> {
        self.begun = true;
        if let Some(promoted) = &self.promoted
            && self.data.sstable.guarded
            && self.data.sstable.header.statics.is_empty()
        {
            // The index says all that stands before the rows.
            partition.deletion = promoted.deletion;
            return Ok(());
        }
        let (key, deletion) = self
            .data
            .next(|_, reader, whole| {
                let (key, deletion) = unfiltered::read_partition_head(reader)?;
                Ok((whole.part(key), deletion))
            })
            .await?;
        if key != self.key {
            return Err(self.data.corrupt("the index names another key for this place"));
        }
        partition.deletion = deletion;
        if !self.data.sstable.header.statics.is_empty() {
            let row = self.data.next(|header, reader, whole| match unfiltered::read_head(header, reader)? {
                (Head::Row { flags, clustering, is_static: true }, size) => {
                    let body = reader.bytes(size, "row")?;
                    unfiltered::read_row_body(header, flags, true, clustering, body, whole)
                }
                _ => Err(Parse::Malformed("the static row is missing")),
            });
            partition.static_row = Some(row.await?).filter(|row| !row.is_empty());
        }
        Ok(())
    }

    /// The next rows inside `slices` (none: all), about `rows_max`, from the front or from behind. Later calls go on
    /// from there with the same slices and direction.
    pub async fn next_part(&mut self, slices: &[Slice], reverse: bool, rows_max: usize) -> Result<Part, Error> {
        self.read_part(slices, reverse, rows_max, None).await
    }

    /// The next rows of all, forwards, `rows_max` at the most. Those that the part begins with and that can be copied are
    /// in `plain` instead: none of a partition that is deleted, nor of a part with a static row.
    pub async fn next_plain(&mut self, rows_max: usize, plain: &mut PlainRows) -> Result<Part, Error> {
        self.read_part(&[], false, rows_max, Some(plain)).await
    }

    async fn read_part(
        &mut self,
        slices: &[Slice],
        reverse: bool,
        rows_max: usize,
        plain: Option<&mut PlainRows>,
    ) -> Result<Part, Error> {
        let mut partition = Partition::new(self.key.clone());
        let begin = self.data.position();
        if !self.begun {
            self.begin(&mut partition).await?;
            self.is_deleted = partition.deletion.is_some();
        }
        let more_after = match self.promoted.clone().filter(|_| reverse) {
            Some(promoted) => self.backwards(&promoted, slices, rows_max, &mut partition).await?,
            None => {
                if self.sought.is_none() {
                    self.seek(slices, &mut partition).await?;
                }
                let rows_max = if reverse { usize::MAX } else { rows_max };
                match plain.filter(|_| !self.is_deleted && partition.static_row.is_none()) {
                    Some(plain) => match self.copy(rows_max, plain).await? {
                        left @ 1.. => self.forwards(slices, left, &mut partition).await?,
                        0 => plain.last().cloned(),
                    },
                    None => self.forwards(slices, rows_max, &mut partition).await?,
                }
            }
        };
        reactor::charge(self.work, self.data.position().saturating_sub(begin));
        Ok(Part { partition, more_after })
    }

    /// Takes plain rows up to the first thing that is something else. How many of `rows_max` are left.
    async fn copy(&mut self, rows_max: usize, plain: &mut PlainRows) -> Result<usize, Error> {
        let mut left = rows_max;
        // What is within a range tombstone may be shadowed.
        while left > 0 && self.open.is_none() && !self.done {
            if !self.data.next(|header, reader, _| plain.read(header, reader)).await? {
                break;
            }
            left -= 1;
        }
        Ok(left)
    }

    async fn forwards(
        &mut self,
        slices: &[Slice],
        rows_max: usize,
        partition: &mut Partition,
    ) -> Result<Option<crate::Clustering>, Error> {
        while !self.done {
            if partition.rows.len() >= rows_max {
                let last = &partition.rows[partition.rows.len() - 1].clustering;
                if let Some((start, deletion)) = self.open.take() {
                    let end = Bound::inclusive(last.clone());
                    partition.range_tombstones.push(RangeTombstone { start, end, deletion });
                    self.open = Some((Bound::exclusive(last.clone()), deletion));
                }
                return Ok(Some(last.clone()));
            }
            match self.step(slices).await? {
                Step::Row(row) => partition.rows.push(row),
                Step::Skipped => {
                    if self.sought.is_some_and(|sought| sought < self.slice) {
                        self.seek(slices, partition).await?;
                    }
                }
                Step::Marker(marker) => self.mark(marker, partition)?,
                Step::End if self.open.is_some() => {
                    return Err(self.data.corrupt("a partition ends within a range tombstone"));
                }
                Step::End => self.done = true,
                Step::Beyond => {
                    if let (Some((start, deletion)), Some(last)) = (self.open.take(), slices.last()) {
                        partition.range_tombstones.push(RangeTombstone { start, end: last.end.clone(), deletion });
                    }
                    self.done = true;
                }
            }
        }
        Ok(None)
    }

    /// Goes to the block that the current slice begins in, when it lies ahead.
    async fn seek(&mut self, slices: &[Slice], partition: &mut Partition) -> Result<(), Error> {
        self.sought = Some(self.slice);
        let sstable = self.data.sstable.clone();
        let Some(promoted) = self.promoted.clone() else { return Ok(()) };
        let (index, types, def) = (&sstable.index, &sstable.header.clustering, &sstable.def);
        let (Some(slice), Some(last)) = (slices.get(self.slice), slices.last()) else {
            self.data.jump(self.data.position().max(self.start.saturating_add(promoted.header_len)));
            return Ok(());
        };
        if self.stop_at.is_none() {
            let at = promoted.find(index, last.end.as_end(), types, def).await?;
            if at < promoted.count {
                let block = promoted.block(index, at, types).await?;
                self.stop_at = Some(self.block_end(&block)?);
                self.data.end = self.stop_at;
            }
        }
        let at = promoted.find(index, slice.start.as_start(), types, def).await?;
        if at == promoted.count {
            self.close_before_jump(slices, partition);
            self.done = true;
            return Ok(());
        }
        let block = promoted.block(index, at, types).await?;
        let place = self.start.saturating_add(block.offset);
        if place > self.data.position() || !self.begun_rows(&promoted) {
            self.close_before_jump(slices, partition);
            self.enter(&promoted, at, &block).await?;
        }
        Ok(())
    }

    fn begun_rows(&self, promoted: &Promoted) -> bool {
        self.data.position() >= self.start.saturating_add(promoted.header_len)
    }

    fn block_end(&self, block: &Block) -> Result<u64, Error> {
        let end = self.start.checked_add(block.offset).and_then(|start| start.checked_add(block.width));
        let end = end.filter(|end| *end <= self.data.sstable.data.len);
        end.ok_or_else(|| self.data.corrupt("a block of the partition's index lies behind the data"))
    }

    /// An open range tombstone is told as far as the slices that are behind us reach.
    fn close_before_jump(&mut self, slices: &[Slice], partition: &mut Partition) {
        let def = &self.data.sstable.def;
        if let Some((start, deletion)) = self.open.take()
            && let Some(before) = self.slice.checked_sub(1).and_then(|at| slices.get(at))
            && compare_positions(def, start.as_start(), before.end.as_end()).is_lt()
        {
            partition.range_tombstones.push(RangeTombstone { start, end: before.end.clone(), deletion });
        }
    }

    /// To the beginning of a block, with what is open there.
    async fn enter(&mut self, promoted: &Promoted, at: u32, block: &Block) -> Result<(), Error> {
        let sstable = self.data.sstable.clone();
        self.open = match at.checked_sub(1) {
            Some(before) => {
                let before = promoted.block(&sstable.index, before, &sstable.header.clustering).await?;
                before.open.map(|deletion| (before.last.as_start(), deletion))
            }
            None => None,
        };
        self.block_end(block)?;
        self.data.jump(self.start.saturating_add(block.offset));
        Ok(())
    }

    /// Whole blocks, the last first, until there are rows enough.
    async fn backwards(
        &mut self,
        promoted: &Promoted,
        slices: &[Slice],
        rows_max: usize,
        partition: &mut Partition,
    ) -> Result<Option<crate::Clustering>, Error> {
        let sstable = self.data.sstable.clone();
        let (index, types, def) = (&sstable.index, &sstable.header.clustering, &sstable.def);
        let mut left = match self.blocks_left {
            Some(left) => left,
            None => match slices.last() {
                Some(last) => (promoted.find(index, last.end.as_end(), types, def).await? + 1).min(promoted.count),
                None => promoted.count,
            },
        };
        let mut pieces: Vec<Vec<Row>> = Vec::new();
        let mut rows = 0;
        while left > 0 && rows < rows_max.max(1) {
            let block = promoted.block(index, left - 1, types).await?;
            self.enter(promoted, left - 1, &block).await?;
            let end = self.block_end(&block)?;
            (self.stop_at, self.data.end, self.slice) = (Some(end), Some(end), 0);
            let mut piece = Partition::default();
            loop {
                match self.step(slices).await? {
                    Step::Row(row) => piece.rows.push(row),
                    Step::Marker(marker) => self.mark(marker, &mut piece)?,
                    Step::Skipped => {}
                    // The range goes on in the block behind, which has told its part.
                    Step::End | Step::Beyond => break,
                }
            }
            if let Some((start, deletion)) = self.open.take() {
                let whole = self.data.position() >= end;
                let end = slices.last().filter(|_| !whole).map_or_else(|| block.last.as_end(), |last| last.end.clone());
                if compare_positions(def, start.as_start(), end.as_end()).is_lt() {
                    piece.range_tombstones.push(RangeTombstone { start, end, deletion });
                }
            }
            partition.range_tombstones.append(&mut piece.range_tombstones);
            rows += piece.rows.len();
            pieces.push(piece.rows);
            // Down to the block that the next slice ends in.
            let first = block.first.position();
            let before = |slice: &&Slice| compare_positions(def, slice.start.as_start(), first).is_lt();
            left = match slices.iter().rev().find(before) {
                Some(slice) => {
                    let at = promoted.find(index, slice.end.as_end(), types, def).await?;
                    (left - 1).min(at.saturating_add(1))
                }
                None if slices.is_empty() => left - 1,
                None => 0,
            };
        }
        partition.rows = pieces.into_iter().rev().flatten().collect();
        (self.blocks_left, self.done) = (Some(left), left == 0);
        let first = partition.rows.first().map(|row| row.clustering.clone());
        Ok(if self.done { None } else { first })
    }

    fn mark(&mut self, marker: Marker, partition: &mut Partition) -> Result<(), Error> {
        if let Some((end, deletion)) = marker.closes {
            match self.open.take() {
                Some((start, opened)) if opened == deletion => {
                    partition.range_tombstones.push(RangeTombstone { start, end, deletion });
                }
                _ => return Err(self.data.corrupt("a range tombstone ends that did not start")),
            }
        }
        if let Some(opens) = marker.opens
            && self.open.replace(opens).is_some()
        {
            return Err(self.data.corrupt("a range tombstone starts within another"));
        }
        Ok(())
    }

    async fn step(&mut self, slices: &[Slice]) -> Result<Step, Error> {
        if self.stop_at.is_some_and(|stop| self.data.position() >= stop) {
            return Ok(Step::Beyond);
        }
        let def = self.data.sstable.def.clone();
        let mut slice = self.slice;
        let parse = |header: &Header, reader: &mut Reader<'_>, whole: &Bytes| {
            let (head, size) = unfiltered::read_head(header, reader)?;
            match head {
                Head::End => Ok(Step::End),
                Head::Marker { kind, prefix } => {
                    let body = reader.bytes(size, "marker")?;
                    Ok(Step::Marker(unfiltered::read_marker_body(header, kind, prefix, body)?))
                }
                Head::Row { is_static: true, .. } => Err(Parse::Malformed("a static row among the rows")),
                Head::Row { flags, clustering, .. } => {
                    if !slices.is_empty() {
                        let row = Position::row(clustering.as_bytes());
                        let behind = |s: &Slice| compare_positions(&def, s.end.as_end(), row).is_lt();
                        while slices.get(slice).is_some_and(behind) {
                            slice += 1;
                        }
                        let Some(slice) = slices.get(slice) else { return Ok(Step::Beyond) };
                        if compare_positions(&def, slice.start.as_start(), row).is_gt() {
                            reader.bytes(size, "row")?;
                            return Ok(Step::Skipped);
                        }
                    }
                    let body = reader.bytes(size, "row")?;
                    let row = unfiltered::read_row_body(header, flags, false, clustering, body, whole)?;
                    Ok(Step::Row(row))
                }
            }
        };
        let step = self.data.next(parse).await?;
        self.slice = slice;
        Ok(step)
    }
}
