//! SSTables in Apache Cassandra's BIG format, version `me`.
//!
//! The components of one are `me-<generation>-big-<component>`. `Data` has the partitions in token order, `Index` a
//! place in it for each key, `Summary` a sample of the index, `Filter` the bloom filter, `Statistics` figures and the
//! serialization header. Compressed data has `CompressionInfo`, the list of its chunks, each with a checksum; data
//! that is not has `CRC.db`, a checksum for each 4 KiB. `Digest.crc32` is one for all of `Data`, `TOC.txt` the list.
//! `Orrery.crc` is our own and not in that list: checksums of what Cassandra's own components leave unguarded.
//!
//! An SSTable is immutable and belongs to the table when the manifest names it; before that its files are leftovers.

mod bloom;
mod cardinality;
mod compression;
mod cursor;
mod file;
mod header;
mod index;
mod plain;
mod read_ahead;
mod reader;
mod sequential;
mod statistics;
mod summary;
#[cfg(test)]
mod tests;
mod unfiltered;
mod writer;

pub(crate) use bloom::{BloomFilter as Filter, KeyHash};
pub use compression::{Compression, Compressor};
pub(crate) use cursor::PartitionCursor;
pub(crate) use header::EncodingStats;
pub(crate) use plain::PlainRows;
pub(crate) use read_ahead::ReadAhead;
pub(crate) use reader::{Place, Sstable, Standing, remove_files};
pub(crate) use sequential::{IndexCursor, IndexEntry, Sequential};
pub(crate) use writer::Writer;

/// All components, the list last: it is written when the others are durable.
pub(crate) const COMPONENTS: [&str; 10] = [
    "Data.db",
    "Index.db",
    "Summary.db",
    "Filter.db",
    "Statistics.db",
    "CompressionInfo.db",
    "CRC.db",
    "Digest.crc32",
    "Orrery.crc",
    "TOC.txt",
];

/// The formats that are read, oldest first (`BigFormat.BigVersion` of Apache Cassandra).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// 3.0.8, 3.9: commit log intervals.
    Mc,
    /// 3.0.18, 3.11.4: least and greatest clusterings that can be trusted.
    Md,
    /// 3.0.25, 3.11.11, and what is written here: the host that wrote it.
    Me,
    /// 4.0 before its release: checksums of metadata, chunks that are not compressed, another bloom filter.
    Na,
    /// 4.0 to 5.0: the host that wrote it.
    Nb,
}

/// Which SSTable: what the names of its components have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub folder: String,
    pub version: Version,
    /// Without the component: `me-12-big`.
    pub prefix: String,
}

impl Descriptor {
    /// Of one that a shard writes.
    pub fn own(folder: &str, generation: u64) -> Self {
        Self { folder: folder.to_string(), version: Version::Me, prefix: format!("me-{generation}-big") }
    }

    /// From the name of one of its files, such as `nb-3gt_15qk_2a9xc-big-Data.db`: what stands between version and
    /// format is a number, or an identifier that is told from others only.
    pub fn parse(folder: &str, file_name: &str) -> Result<Self, String> {
        let (version, rest) = file_name.split_once('-').unwrap_or((file_name, ""));
        let version = match version {
            "mc" => Version::Mc,
            "md" => Version::Md,
            "me" => Version::Me,
            "na" => Version::Na,
            "nb" => Version::Nb,
            _ => return Err(format!("{file_name}: not of a format that is read (big, versions mc to nb)")),
        };
        match rest.rsplit_once("-big-") {
            Some((id, component)) if !id.is_empty() && !component.is_empty() => {
                let prefix = file_name[..file_name.len() - component.len() - 1].to_string();
                Ok(Self { folder: folder.to_string(), version, prefix })
            }
            _ => Err(format!("{file_name}: not the name of a component in the big format")),
        }
    }

    /// Whether the path is one of its components'.
    pub fn has(&self, path: &str) -> bool {
        let name = path.strip_prefix(&self.folder).and_then(|rest| rest.strip_prefix('/'));
        name.and_then(|name| name.strip_prefix(&self.prefix)).is_some_and(|rest| rest.starts_with('-'))
    }

    pub fn path(&self, component: &str) -> String {
        format!("{}/{}-{component}", self.folder, self.prefix)
    }
}

/// Name of the data file of an SSTable that a shard has written.
pub fn data_file_name(generation: u64) -> String {
    format!("{}-Data.db", Descriptor::own("", generation).prefix)
}

/// The generation that a file in a table's folder belongs to.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    let (generation, _) = name.strip_prefix("me-")?.split_once("-big-")?;
    generation.parse().ok()
}
