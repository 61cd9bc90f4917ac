//! An open SSTable: what of it stays in memory, and where a partition is.
//!
//! Every component is checked before it is used: our own by checksums, a foreign one by its own where it has some, and
//! by bounds, order and the keys that it repeats. Damage is an error, never a wrong answer by silence.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{join, join3};
use reactor::Work;
use reactor::fs;
use types::{TableDef, Token};

use super::bloom::{BloomFilter, KeyHash};
use super::compression::CompressionInfo;
use super::file::{BlockFile, Layout};
use super::header::{EncodingStats, Header};
use super::index::{Promoted, read_entry_head};
use super::sequential::{Entries, IndexEntry};
use super::statistics::{self, Figures};
use super::summary::Summary;
use super::{COMPONENTS, Descriptor, Version};
use crate::cache::{BLOCK, BlockCache, BlockKind};
use crate::data::codec::Reader;
use crate::{Bytes, Error};

/// Of the index read at once. Between two samples of the summary there is rarely more, and where there is it is
/// promoted indexes, which are jumped over.
const INDEX_READ: u64 = 16 << 10;

/// Views of the same files may differ in their [`Standing`]; each is immutable.
#[derive(Clone)]
pub(crate) struct Sstable {
    pub generation: u64,
    pub descriptor: Descriptor,
    /// What the header was matched with.
    pub(super) def: Arc<TableDef>,
    pub(super) header: Rc<Header>,
    pub(super) summary: Rc<Summary>,
    /// A table may have none: nothing is then known before the index.
    filter: Option<Rc<BloomFilter>>,
    pub(super) data: Rc<BlockFile>,
    pub(super) index: Rc<BlockFile>,
    /// Whether checksums guard every component.
    pub(super) guarded: bool,
    pub figures: Rc<Figures>,
    pub first: Token,
    pub last: Token,
    pub disk_bytes: u64,
    pub standing: Standing,
}

/// Where compaction has put an SSTable among a table's others: the manifest's word, not the files'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    /// Of leveled compaction; 0 elsewhere.
    pub level: u32,
    /// SSTables of one run have no key range in common: the generation of the run's first.
    pub run: u64,
    /// Wall clock when it was written, in seconds.
    pub made_s: u32,
    /// What comes before is as if it were not there: a compaction that is still going on has moved it elsewhere.
    pub from: Option<Token>,
}

/// Where a partition is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub start: u64,
    /// Where the next one begins, if that is known.
    pub end: Option<u64>,
    /// Of a wide partition.
    pub(super) promoted: Option<Rc<Promoted>>,
}

impl Place {
    /// At least as many bytes as the partition has.
    pub fn bytes_at_most(&self, sstable: &Sstable) -> u64 {
        self.end.unwrap_or_else(|| sstable.data_bytes()).saturating_sub(self.start)
    }
}

impl Sstable {
    /// One that this shard has written.
    pub async fn open(
        folder: &str,
        generation: u64,
        def: Arc<TableDef>,
        cache: &Rc<BlockCache>,
    ) -> Result<Rc<Self>, Error> {
        Self::open_named(Descriptor::own(folder, generation), generation, def, cache).await
    }

    /// One that somebody else has written, for a table whose columns fit: `file_name` is one of its components'. It is
    /// read, not adopted: it has no generation.
    ///
    /// What has no checksums is believed only as far as it agrees with the rest: the whole index is read, its order
    /// checked, and the filter and the summary compared with it.
    pub async fn open_foreign(
        folder: &str,
        file_name: &str,
        def: Arc<TableDef>,
        cache: &Rc<BlockCache>,
    ) -> Result<Rc<Self>, Error> {
        let descriptor = Descriptor::parse(folder, file_name).map_err(|what| Error::corrupt(folder, 0, what))?;
        Self::open_named(descriptor, 0, def, cache).await
    }

    async fn open_named(
        descriptor: Descriptor,
        generation: u64,
        def: Arc<TableDef>,
        cache: &Rc<BlockCache>,
    ) -> Result<Rc<Self>, Error> {
        let version = descriptor.version;
        let path = |component: &str| descriptor.path(component);
        let read_if_there = async |component: &str| {
            let path = path(component);
            match fs::read(&path).await {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Error::io(&path, "read")(error)),
            }
        };
        let corrupt = |component: &str, what: &str| Error::corrupt(&path(component), 0, what);
        // All at the same time: what has just been written waits for the slowest read, not for their sum.
        let statistics_path = path("Statistics.db");
        let ((summary, filter), statistics, (compression, crc, own)) = join3(
            join(read_if_there("Summary.db"), read_if_there("Filter.db")),
            fs::read(&statistics_path),
            join3(read_if_there("CompressionInfo.db"), read_if_there("CRC.db"), read_if_there("Orrery.crc")),
        )
        .await;
        let (summary, filter, compression, crc, own) = (summary?, filter?, compression?, crc?, own?);
        let statistics = statistics.map_err(Error::io(&statistics_path, "read"))?;

        let empty = Vec::new();
        let small = [
            summary.as_ref().unwrap_or(&empty),
            filter.as_ref().unwrap_or(&empty),
            &statistics,
            compression.as_ref().or(crc.as_ref()).unwrap_or(&empty),
        ];
        let index_crcs = match &own {
            Some(own) => {
                check_own(own, &small).map_err(|what| corrupt(what, "the checksums in Orrery.crc do not fit"))?
            }
            None => Vec::new(),
        };
        let small_bytes: usize = small.iter().map(|bytes| bytes.len()).sum();
        let summary =
            summary.map(|bytes| Summary::decode(&bytes).ok_or_else(|| corrupt("Summary.db", "not a summary")));
        let filter = filter.map(|bytes| {
            BloomFilter::decode(&bytes, version < Version::Na).ok_or_else(|| corrupt("Filter.db", "not a bloom filter"))
        });
        let (header, figures) =
            statistics::decode(&statistics, &def, version).map_err(|what| corrupt("Statistics.db", &what))?;
        let layout = match (compression, crc) {
            (Some(bytes), _) => Layout::Compressed(
                CompressionInfo::decode(&bytes, version >= Version::Na)
                    .map_err(|what| corrupt("CompressionInfo.db", &what))?,
            ),
            (None, Some(crc)) => {
                plain_layout(&crc).ok_or_else(|| corrupt("CRC.db", "not checksums of multiples of 4096 bytes"))?
            }
            (None, None) => Layout::Plain { unit: BLOCK, crcs: Vec::new() },
        };
        let index_layout = Layout::Plain { unit: BLOCK, crcs: index_crcs };
        let open = |component: &str, layout, kind| BlockFile::open(path(component), layout, cache.clone(), kind);
        let (data, index) =
            join(open("Data.db", layout, BlockKind::Data), open("Index.db", index_layout, BlockKind::Index)).await;
        let (data, index) = (data?, index?);
        let (summary, filter) = (summary.transpose()?, filter.transpose()?);
        let summary = match summary {
            Some(summary) if own.is_some() => summary,
            told => check_index(&index, &data, told.as_ref(), filter.as_ref()).await?,
        };
        Ok(Rc::new(Self {
            generation,
            first: Token::of_key(&summary.first_key),
            last: Token::of_key(&summary.last_key),
            disk_bytes: data.stored_len + index.len + (small_bytes + own.as_ref().map_or(0, Vec::len)) as u64,
            descriptor,
            def,
            header: Rc::new(header),
            summary: Rc::new(summary),
            filter: filter.map(Rc::new),
            data: Rc::new(data),
            index: Rc::new(index),
            guarded: own.is_some(),
            figures: Rc::new(figures),
            standing: Standing { level: 0, run: generation, made_s: 0, from: None },
        }))
    }

    /// The same files with another standing.
    pub fn standing(&self, standing: Standing) -> Rc<Self> {
        let first = self.first.max(standing.from.unwrap_or(Token::MIN));
        Rc::new(Self { standing, first, ..self.clone() })
    }

    /// The bloom filter of one that does not open, if at least that is sound.
    pub async fn salvage_filter(folder: &str, generation: u64) -> Option<BloomFilter> {
        let descriptor = Descriptor::own(folder, generation);
        let own = fs::read(&descriptor.path("Orrery.crc")).await.ok()?;
        let filter = fs::read(&descriptor.path("Filter.db")).await.ok()?;
        let (rest, crc) = own.split_last_chunk::<4>()?;
        let sound = crc32fast::hash(rest) == u32::from_be_bytes(*crc)
            && numbers(rest).get(1) == Some(&crc32fast::hash(&filter));
        if sound { BloomFilter::decode(&filter, true) } else { None }
    }

    /// Bytes of data, uncompressed.
    pub fn data_bytes(&self) -> u64 {
        self.data.len
    }

    /// What the header was matched with.
    pub fn def(&self) -> &Arc<TableDef> {
        &self.def
    }

    /// Bytes of data as they are on disk.
    pub fn stored_bytes(&self) -> u64 {
        self.data.stored_len
    }

    pub fn encoding_stats(&self) -> EncodingStats {
        self.header.stats
    }

    /// Bytes of memory besides the cache's blocks.
    pub fn memory_bytes(&self) -> usize {
        let files = self.data.memory_bytes() + self.index.memory_bytes();
        self.summary.len_bytes() + self.filter.as_ref().map_or(0, |filter| filter.len_bytes()) + files
    }

    /// Whether the key may be here, by key range and bloom filter.
    pub fn may_contain(&self, token: Token, hash: KeyHash) -> bool {
        (self.first..=self.last).contains(&token) && self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// Where the partition is.
    pub async fn find(&self, token: Token, key: &[u8]) -> Result<Option<Place>, Error> {
        let Some((from, to)) = self.summary.find(token, key) else { return Ok(None) };
        let to = to.unwrap_or(self.index.len).min(self.index.len);
        let mut window = Bytes::default();
        let (mut window_start, mut at) = (from, from);
        // The position of the key, and its promoted index's place and length.
        let mut found: Option<(u64, u64, u64)> = None;
        // Entries parsed out of what the cache did not have.
        let (mut parsed, mut is_cached) = (0, true);
        while at < to {
            let rest = window.get((at - window_start) as usize..).unwrap_or_default();
            let mut reader = Reader::new(rest);
            let Some(entry) = read_entry_head(&mut reader) else {
                if at + rest.len() as u64 >= to {
                    return Err(Error::corrupt(&self.index.path, at, "an index entry ends early"));
                }
                // An entry's head is below 64 KiB and 20 bytes: twice what was too little is soon enough.
                let len = (to - at).min(INDEX_READ.max(rest.len() as u64 * 2));
                is_cached = self.index.is_cached(at, len as usize);
                window = self.index.read(at, len as usize).await?;
                window_start = at;
                continue;
            };
            parsed += u64::from(!is_cached);
            if let Some((start, promoted, len)) = found {
                let end = Some(entry.position);
                reactor::charge(Work::SstableIndex, parsed);
                return self.place(start, end, promoted, len).await.map(Some);
            }
            let head_end = at + (rest.len() - reader.rest.len()) as u64;
            if entry.key == key {
                found = Some((entry.position, head_end, entry.promoted_len));
            }
            at = head_end.saturating_add(entry.promoted_len);
        }
        reactor::charge(Work::SstableIndex, parsed);
        let Some((start, promoted, len)) = found else { return Ok(None) };
        let end = (to == self.index.len).then_some(self.data.len);
        self.place(start, end, promoted, len).await.map(Some)
    }

    async fn place(&self, start: u64, end: Option<u64>, promoted: u64, len: u64) -> Result<Place, Error> {
        if start >= self.data.len || end.is_some_and(|end| end <= start) {
            return Err(Error::corrupt(&self.index.path, promoted, "an index entry points behind the data"));
        }
        let promoted = match len {
            0 => None,
            len => Some(Rc::new(Promoted::read(&self.index, promoted, len).await?)),
        };
        Ok(Place { start, end, promoted })
    }

    /// Removes the files; for one that the manifest names no more.
    pub async fn remove(&self) -> Result<(), Error> {
        remove_named(&self.descriptor).await
    }
}

/// Reads an index that no checksum guards, and makes the summary of it: every key is in order, in the filter, and within
/// what the file's own summary says.
async fn check_index(
    index: &BlockFile,
    data: &BlockFile,
    told: Option<&Summary>,
    filter: Option<&BloomFilter>,
) -> Result<Summary, Error> {
    let mut entries = Entries::from(0);
    let mut summary = Summary::default();
    let mut last: Option<IndexEntry> = None;
    while let Some(entry) = entries.next(index).await? {
        let corrupt = |what: &str| Error::corrupt(&index.path, entry.index_position, what);
        match &last {
            Some(last) if (last.token, &last.key) >= (entry.token, &entry.key) => {
                return Err(corrupt("the index's keys are out of order"));
            }
            Some(last) if last.position >= entry.position => {
                return Err(corrupt("the index's positions are out of order"));
            }
            None if entry.position != 0 => return Err(corrupt("the first partition is not at the beginning")),
            _ => {}
        }
        if entry.position >= data.len {
            return Err(corrupt("an index entry points behind the data"));
        }
        if filter.is_some_and(|filter| !filter.may_contain(KeyHash::of(&entry.key))) {
            return Err(corrupt("the bloom filter does not know a key of the index"));
        }
        summary.add(entry.token, &entry.key, entry.index_position, entry.position);
        last = Some(entry);
    }
    if last.is_none() {
        return Err(Error::corrupt(&index.path, 0, "an index without keys"));
    }
    if told.is_some_and(|told| (&told.first_key, &told.last_key) != (&summary.first_key, &summary.last_key)) {
        return Err(Error::corrupt(&index.path, 0, "the summary names other first and last keys"));
    }
    Ok(summary)
}

/// Removes what there is of a generation, the list of components first.
pub(crate) async fn remove_files(folder: &str, generation: u64) -> Result<(), Error> {
    remove_named(&Descriptor::own(folder, generation)).await
}

async fn remove_named(descriptor: &Descriptor) -> Result<(), Error> {
    for component in COMPONENTS.iter().rev() {
        let path = descriptor.path(component);
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
    bytes.as_chunks().0.iter().map(|four| u32::from_be_bytes(*four)).collect()
}

/// The layout that a `CRC.db` describes.
fn plain_layout(crc: &[u8]) -> Option<Layout> {
    let (unit, crcs) = crc.split_first_chunk::<4>()?;
    let unit = u32::from_be_bytes(*unit) as usize;
    let sound = unit > 0 && unit.is_multiple_of(BLOCK) && unit <= 16 << 20 && crcs.len() % 4 == 0;
    sound.then(|| Layout::Plain { unit, crcs: numbers(crcs) })
}

/// The index's block checksums, when everything fits; else the component that does not. The fourth is what guards the
/// data: `CRC.db`, or `CompressionInfo.db`.
fn check_own(own: &[u8], guarded: &[&Vec<u8>; 4]) -> Result<Vec<u32>, &'static str> {
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
