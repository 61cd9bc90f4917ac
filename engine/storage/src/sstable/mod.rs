//! SSTables in Apache Cassandra's BIG format, version `me`, uncompressed.
//!
//! The components of one are `me-<generation>-big-<component>`. `Data` has the partitions in token order, `Index` a
//! place in it for each key, `Summary` a sample of the index, `Filter` the bloom filter, `Statistics` figures and the
//! serialization header, `CRC.db` a checksum for each 4 KiB of `Data`, `Digest.crc32` one for all of it, `TOC.txt` the
//! list. `Orrery.crc` is our own and not in that list: checksums of what Cassandra's own components leave unguarded.
//!
//! An SSTable is immutable and belongs to the table when the manifest names it; before that its files are leftovers.

mod bloom;
mod file;
mod header;
mod reader;
mod statistics;
mod summary;
mod unfiltered;
mod writer;

pub(crate) use bloom::KeyHash;
pub(crate) use header::EncodingStats;
pub(crate) use reader::{IndexCursor, PartitionCursor, Sequential, Sstable, remove_files};
pub(crate) use writer::Writer;

/// All components, the list last: it is written when the others are durable.
pub(crate) const COMPONENTS: [&str; 9] = [
    "Data.db",
    "Index.db",
    "Summary.db",
    "Filter.db",
    "Statistics.db",
    "CRC.db",
    "Digest.crc32",
    "Orrery.crc",
    "TOC.txt",
];

pub(crate) fn component_path(folder: &str, generation: u64, component: &str) -> String {
    format!("{folder}/me-{generation}-big-{component}")
}

/// The generation that a file in a table's folder belongs to.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    let (generation, _) = name.strip_prefix("me-")?.split_once("-big-")?;
    generation.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names() {
        let path = super::component_path("f", 12, "Data.db");
        assert_eq!(super::parse_name(path.strip_prefix("f/").unwrap()), Some(12));
        assert_eq!(super::parse_name("mc-12-big-Data.db"), None);
    }
}
