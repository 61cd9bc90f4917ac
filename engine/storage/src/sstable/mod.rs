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
mod compression;
mod cursor;
mod file;
mod header;
mod index;
mod reader;
mod sequential;
mod statistics;
mod summary;
#[cfg(test)]
mod tests;
mod unfiltered;
mod writer;

pub(crate) use bloom::KeyHash;
pub use compression::{Compression, Compressor};
pub(crate) use cursor::PartitionCursor;
pub(crate) use header::EncodingStats;
pub(crate) use reader::{Place, Sstable, Standing, remove_files};
pub(crate) use sequential::{IndexCursor, Sequential};
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

/// Which SSTable: what the names of its components have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub folder: String,
    /// Without the component: `me-12-big`.
    pub prefix: String,
}

impl Descriptor {
    /// Of one that a shard writes.
    pub fn own(folder: &str, generation: u64) -> Self {
        Self { folder: folder.to_string(), prefix: format!("me-{generation}-big") }
    }

    pub fn path(&self, component: &str) -> String {
        format!("{}/{}-{component}", self.folder, self.prefix)
    }
}

/// The generation that a file in a table's folder belongs to.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    let (generation, _) = name.strip_prefix("me-")?.split_once("-big-")?;
    generation.parse().ok()
}
