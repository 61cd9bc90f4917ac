//! Reads an SSTable: opening, finding a partition, rows of a partition, all of it in order.

use std::rc::Rc;
use std::sync::Arc;

use reactor::Work;
use reactor::fs;
use types::{TableDef, Token};

use super::bloom::{BloomFilter, KeyHash};
use super::file::BlockFile;
use super::header::{EncodingStats, Header};
use super::statistics::{self, Figures};
use super::summary::Summary;
use super::unfiltered::{self, Head, Marker, Parse};
use super::{COMPONENTS, component_path};
use crate::cache::{BLOCK, BlockCache};
use crate::data::codec::Reader;
use crate::data::{Position, compare_positions};
use crate::memtable::Part;
use crate::{Bound, Bytes, DeletionTime, Error, Partition, RangeTombstone, Row, Slice};

/// Read at once where all of the data is read in order.
const SEQUENTIAL: usize = 128 << 10;

pub(crate) struct Sstable {
    pub generation: u64,
    folder: String,
    /// What the header was matched with.
    def: Arc<TableDef>,
    header: Header,
    summary: Summary,
    filter: BloomFilter,
    data: BlockFile,
    index: BlockFile,
    pub figures: Figures,
    pub first: Token,
    pub last: Token,
    pub disk_bytes: u64,
}

impl Sstable {
    pub async fn open(
        folder: &str,
        generation: u64,
        def: Arc<TableDef>,
        cache: &Rc<BlockCache>,
    ) -> Result<Rc<Self>, Error> {
        let path = |component: &str| component_path(folder, generation, component);
        let read = async |component: &str| {
            let path = path(component);
            fs::read(&path).await.map_err(Error::io(&path, "read"))
        };
        let summary = read("Summary.db").await?;
        let filter = read("Filter.db").await?;
        let statistics = read("Statistics.db").await?;
        let crc = read("CRC.db").await?;
        let own = read("Orrery.crc").await?;
        let index_crcs = check_own(&own, &[&summary, &filter, &statistics, &crc])
            .map_err(|what| Error::corrupt(&path(what), 0, "the checksums in Orrery.crc do not fit"))?;
        let corrupt = |component: &str, what: &str| Error::corrupt(&path(component), 0, what);
        let summary_bytes = summary.len();
        let summary = Summary::decode(&summary).ok_or_else(|| corrupt("Summary.db", "not a summary"))?;
        let filter = BloomFilter::decode(&filter).ok_or_else(|| corrupt("Filter.db", "not a bloom filter"))?;
        let (header, figures) =
            statistics::decode(&statistics, &def).map_err(|what| corrupt("Statistics.db", &what))?;
        let data_crcs = match crc.split_first_chunk::<4>() {
            Some((size, crcs)) if u32::from_be_bytes(*size) as usize == BLOCK && crcs.len() % 4 == 0 => numbers(crcs),
            _ => return Err(corrupt("CRC.db", "not checksums of blocks of 4096 bytes")),
        };
        let data = BlockFile::open(path("Data.db"), data_crcs, cache.clone()).await?;
        let index = BlockFile::open(path("Index.db"), index_crcs, cache.clone()).await?;
        let small = summary_bytes + 8 + filter.len_bytes() + statistics.len() + crc.len() + own.len();
        Ok(Rc::new(Self {
            generation,
            folder: folder.to_string(),
            def,
            first: Token::of_key(&summary.first_key),
            last: Token::of_key(&summary.last_key),
            disk_bytes: data.len + index.len + small as u64,
            header,
            summary,
            filter,
            data,
            index,
            figures,
        }))
    }

    pub fn data_bytes(&self) -> u64 {
        self.data.len
    }

    pub fn encoding_stats(&self) -> EncodingStats {
        self.header.stats
    }

    /// Bytes of memory besides the cache's blocks.
    pub fn memory_bytes(&self) -> usize {
        self.summary.len_bytes() + self.filter.len_bytes() + self.data.len as usize / 1024
    }

    /// Whether the key may be here, by key range and bloom filter.
    pub fn may_contain(&self, token: Token, hash: KeyHash) -> bool {
        (self.first..=self.last).contains(&token) && self.filter.may_contain(hash)
    }

    /// Where the partition begins in the data, and where it ends if that is known.
    pub async fn find(&self, token: Token, key: &[u8]) -> Result<Option<(u64, Option<u64>)>, Error> {
        let Some((from, to)) = self.summary.find(token, key) else { return Ok(None) };
        let to = to.unwrap_or(self.index.len);
        let bytes = self.index.read(from, (to - from) as usize).await?;
        reactor::charge(Work::SstableIndex, bytes.len() as u64);
        let mut reader = Reader::new(&bytes);
        let mut found = None;
        while !reader.rest.is_empty() {
            let offset = from + (bytes.len() - reader.rest.len()) as u64;
            let entry = read_index_entry(&mut reader);
            let (entry_key, position) = entry.map_err(|what| Error::corrupt(&self.index.path, offset, what))?;
            match found {
                None if entry_key == key => found = Some(position),
                Some(start) => return Ok(Some((start, Some(position)))),
                None => {}
            }
        }
        Ok(found.map(|start| (start, (to == self.index.len).then_some(self.data.len))))
    }

    /// Removes the files; for one that the manifest names no more.
    pub async fn remove(&self) -> Result<(), Error> {
        remove_files(&self.folder, self.generation).await
    }
}

/// Removes what there is of a generation, the list of components first.
pub(crate) async fn remove_files(folder: &str, generation: u64) -> Result<(), Error> {
    for component in COMPONENTS.iter().rev() {
        let path = component_path(folder, generation, component);
        match fs::remove(&path).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(&path, "remove")(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]])).collect()
}

/// The index's block checksums, when everything fits; else the component that does not.
fn check_own(own: &[u8], guarded: &[&[u8]; 4]) -> Result<Vec<u32>, &'static str> {
    let (rest, crc) = own.split_last_chunk::<4>().ok_or("Orrery.crc")?;
    let numbers = numbers(rest);
    if crc32fast::hash(rest) != u32::from_be_bytes(*crc) || rest.len() % 4 != 0 || numbers.len() < 5 {
        return Err("Orrery.crc");
    }
    for (at, component) in ["Summary.db", "Filter.db", "Statistics.db", "CRC.db"].into_iter().enumerate() {
        if crc32fast::hash(guarded[at]) != numbers[at] {
            return Err(component);
        }
    }
    Ok(numbers[5..].to_vec())
}

/// Key and position in the data.
fn read_index_entry<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], u64), &'static str> {
    let mut entry = || -> Result<_, crate::Malformed> {
        let len = u16::from_be_bytes(reader.array("key length")?);
        let key = reader.bytes(usize::from(len), "key")?;
        let position = reader.vint("position")?;
        let promoted = reader.vint("promoted index")?;
        reader.bytes(usize::try_from(promoted).unwrap_or(usize::MAX), "promoted index")?;
        Ok((key, position))
    };
    entry().map_err(|_| "an index entry ends early")
}

/// Walks through the data, holding a part of it in memory.
struct DataCursor {
    sstable: Rc<Sstable>,
    window: Bytes,
    window_start: u64,
    at: usize,
    /// Where what is wanted is known to end.
    end: Option<u64>,
    sequential: bool,
}

impl DataCursor {
    fn position(&self) -> u64 {
        self.window_start + self.at as u64
    }

    fn at_end(&self) -> bool {
        self.position() >= self.sstable.data.len
    }

    /// Parses the next thing, reading on when the window ends within it.
    async fn next<T>(
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

    fn corrupt(&self, what: &str) -> Error {
        Error::corrupt(&self.sstable.data.path, self.position(), what)
    }

    async fn read_on(&mut self) -> Result<(), Error> {
        let start = self.position();
        let had = self.window.len() - self.at;
        let data = &self.sstable.data;
        if start + had as u64 >= data.len {
            return Err(self.corrupt("the data ends within a partition"));
        }
        let window = if self.sequential {
            data.read_past_cache(start, SEQUENTIAL.max(had * 2)).await?
        } else {
            // To the end when that is known and not far, else to the end of the block; more each time.
            let to_block_end = BLOCK - (start % BLOCK as u64) as usize;
            let known =
                self.end.map(|end| end.saturating_sub(start)).filter(|len| (1..=SEQUENTIAL as u64).contains(len));
            let len = known.map_or(to_block_end, |len| len as usize);
            data.read(start, if len > had { len } else { had * 2 + to_block_end }).await?
        };
        (self.window, self.window_start, self.at) = (window, start, 0);
        Ok(())
    }
}

/// The rows of one partition, in order, some at a time.
pub(crate) struct PartitionCursor {
    data: DataCursor,
    key: Bytes,
    begun: bool,
    open: Option<(Bound, DeletionTime)>,
    slice: usize,
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
    pub fn new(sstable: Rc<Sstable>, key: Bytes, (start, end): (u64, Option<u64>)) -> Self {
        let data = DataCursor { sstable, window: Bytes::default(), window_start: start, at: 0, end, sequential: false };
        Self { data, key, begun: false, open: None, slice: 0, done: false }
    }

    /// The partition's deletion and static row, with the first rows.
    async fn begin(&mut self, partition: &mut Partition) -> Result<(), Error> {
        let (key, deletion) = self
            .data
            .next(|_, reader, whole| {
                let (key, deletion) = unfiltered::read_partition_head(reader)?;
                let start = key.as_ptr() as usize - whole.as_ptr() as usize;
                Ok((whole.slice(start..start + key.len()), deletion))
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
        self.begun = true;
        Ok(())
    }

    /// The next rows inside `slices` (none: all), at most `rows_max`. Later calls go on from there with the same slices.
    pub async fn next_part(&mut self, slices: &[Slice], rows_max: usize) -> Result<Part, Error> {
        let mut partition = Partition::new(self.key.clone());
        let begin = self.data.position();
        if !self.begun {
            self.begin(&mut partition).await?;
        }
        let mut more_after = None;
        while !self.done {
            if partition.rows.len() >= rows_max {
                let last = &partition.rows[partition.rows.len() - 1].clustering;
                if let Some((start, deletion)) = self.open.take() {
                    let end = Bound::inclusive(last.clone());
                    partition.range_tombstones.push(RangeTombstone { start, end, deletion });
                    self.open = Some((Bound::exclusive(last.clone()), deletion));
                }
                more_after = Some(last.clone());
                break;
            }
            match self.step(slices).await? {
                Step::Row(row) => partition.rows.push(row),
                Step::Skipped => {}
                Step::Marker(marker) => self.mark(marker, &mut partition)?,
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
        reactor::charge(Work::SstableRead, self.data.position() - begin);
        Ok(Part { partition, more_after })
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

/// All partitions in order, each whole: for compaction.
pub(crate) struct Sequential {
    sstable: Rc<Sstable>,
    position: u64,
    window: Option<(Bytes, u64)>,
}

impl Sequential {
    pub fn new(sstable: Rc<Sstable>) -> Self {
        Self { sstable, position: 0, window: None }
    }

    pub async fn next(&mut self) -> Result<Option<(Token, Partition)>, Error> {
        let (window, window_start) = self.window.take().unwrap_or_default();
        let at = (self.position - window_start) as usize;
        let mut data =
            DataCursor { sstable: self.sstable.clone(), window, window_start, at, end: None, sequential: true };
        if data.at_end() {
            return Ok(None);
        }
        let start = data.at;
        let key = data.next(|_, reader, _| Ok(Bytes::copy_from(unfiltered::read_partition_head(reader)?.0))).await?;
        // Back to the partition's beginning; the window may have moved there meanwhile.
        data.at = if data.window_start == window_start { start } else { 0 };
        let token = Token::of_key(&key);
        let mut cursor = PartitionCursor { data, key, begun: false, open: None, slice: 0, done: false };
        let part = cursor.next_part(&[], usize::MAX).await?;
        self.position = cursor.data.position();
        self.window = Some((cursor.data.window, cursor.data.window_start));
        Ok(Some((token, part.partition)))
    }
}

/// The keys of an SSTable in order, from a token on.
pub(crate) struct IndexCursor {
    pub sstable: Rc<Sstable>,
    position: u64,
    window: Bytes,
    at: usize,
    head: Option<IndexEntry>,
}

#[derive(Clone, Debug)]
pub(crate) struct IndexEntry {
    pub token: Token,
    pub key: Bytes,
    pub position: u64,
}

impl IndexCursor {
    /// Before the first key behind `(token, key)`; without a key, behind the whole token.
    pub async fn seek(sstable: Rc<Sstable>, token: Token, key: Option<&[u8]>) -> Result<Self, Error> {
        let position = sstable.summary.seek(token);
        let mut cursor = Self { sstable, position, window: Bytes::default(), at: 0, head: None };
        loop {
            cursor.advance().await?;
            let skip = cursor.head.as_ref().is_some_and(|head| {
                head.token < token || (head.token == token && key.is_none_or(|key| &*head.key <= key))
            });
            if !skip {
                return Ok(cursor);
            }
        }
    }

    /// The key that it stands at; `None` behind the last.
    pub fn head(&self) -> Option<&IndexEntry> {
        self.head.as_ref()
    }

    pub async fn advance(&mut self) -> Result<(), Error> {
        loop {
            let mut reader = Reader::new(&self.window[self.at..]);
            let index = &self.sstable.index;
            let place = self.position + self.at as u64;
            if reader.rest.is_empty() && place >= index.len {
                self.head = None;
                return Ok(());
            }
            if let Ok((key, position)) = read_index_entry(&mut reader) {
                self.head = Some(IndexEntry { token: Token::of_key(key), key: Bytes::copy_from(key), position });
                self.at = self.window.len() - reader.rest.len();
                return Ok(());
            }
            let had = self.window.len() - self.at;
            if place + had as u64 >= index.len {
                return Err(Error::corrupt(&index.path, place, "the index ends within an entry"));
            }
            let window = index.read(place, (had * 2).max(4 * BLOCK)).await?;
            (self.window, self.position, self.at) = (window, place, 0);
        }
    }
}
