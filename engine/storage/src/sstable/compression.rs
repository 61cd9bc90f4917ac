//! Compressed data: chunks of equal length, each compressed by itself and followed by its checksum, and the list of
//! where they begin (`CompressionInfo.db`).
//!
//! As `CompressionParams`, `CompressionMetadata` and `CompressedSequentialWriter` of Apache Cassandra. A chunk of a
//! damaged or hostile file is never given more memory than its length says, which is bounded.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::data::codec::Reader;

/// Longer chunks are refused. Cassandra has no limit; nobody reads 16 MiB for a row.
const CHUNK_MAX: u32 = 16 << 20;
const PACKAGE: &str = "org.apache.cassandra.io.compress.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    Lz4,
    Snappy,
    Deflate,
    Zstd {
        level: i32,
    },
    /// `NoopCompressor`: chunks with checksums, not compressed.
    Noop,
}

/// What a table's `compression = {..}` asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compression {
    pub compressor: Compressor,
    pub chunk_len: u32,
}

impl Compression {
    /// `None` is uncompressed: an empty map, an empty class, or `enabled` false. `crc_check_chance` is accepted, and
    /// every chunk checked whatever it says. `min_compress_ratio` is accepted; in the format that is written, each
    /// chunk is compressed.
    pub fn from_options(options: &BTreeMap<String, String>) -> Result<Option<Self>, String> {
        let mut class = "";
        let mut chunk_kb = None;
        let mut level = None;
        let mut enabled = true;
        for (name, value) in options {
            let number = || value.parse::<f64>().map_err(|_| format!("compression option {name} is '{value}'"));
            match &**name {
                "class" | "sstable_compression" => class = value,
                "chunk_length_in_kb" | "chunk_length_kb" => chunk_kb = Some(number()?),
                "compression_level" => level = Some(number()? as i32),
                "enabled" => enabled = !value.eq_ignore_ascii_case("false"),
                "crc_check_chance" => {
                    if !(0.0..=1.0).contains(&number()?) {
                        return Err(format!("crc_check_chance is {value}; it lies between 0.0 and 1.0"));
                    }
                }
                "min_compress_ratio" => {
                    let ratio = number()?;
                    if ratio != 0.0 && ratio < 1.0 {
                        return Err(format!("min_compress_ratio is {value}; it is 0 or at least 1"));
                    }
                }
                "lz4_compressor_type" | "lz4_high_compressor_level" => {}
                _ => return Err(format!("unknown compression option {name}")),
            }
        }
        if class.is_empty() || !enabled {
            return Ok(None);
        }
        let compressor = Compressor::from_class(class, level)?;
        let chunk_kb = chunk_kb.unwrap_or(16.0);
        let chunk_len = (chunk_kb * 1024.0) as u32;
        if chunk_kb <= 0.0 || chunk_kb > f64::from(CHUNK_MAX >> 10) || !chunk_len.is_power_of_two() {
            return Err(format!("chunk_length_in_kb is {chunk_kb}; it is a power of 2, at most {}", CHUNK_MAX >> 10));
        }
        Ok(Some(Self { compressor, chunk_len }))
    }

    /// The options as a schema shows them: checked, with the whole name of the class and the length of chunks.
    pub fn normal_options(mut options: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
        if let Some(compression) = Self::from_options(&options)? {
            options.remove("sstable_compression");
            options.remove("chunk_length_kb");
            options.insert("class".into(), format!("{PACKAGE}{}", compression.compressor.class()));
            let chunk_kb = f64::from(compression.chunk_len) / 1024.0;
            options.insert("chunk_length_in_kb".into(), chunk_kb.to_string());
        }
        Ok(options)
    }
}

impl Compressor {
    fn from_class(class: &str, level: Option<i32>) -> Result<Self, String> {
        Ok(match class.strip_prefix(PACKAGE).unwrap_or(class) {
            "LZ4Compressor" => Self::Lz4,
            "SnappyCompressor" => Self::Snappy,
            "DeflateCompressor" => Self::Deflate,
            "ZstdCompressor" => Self::Zstd { level: level.unwrap_or(3) },
            "NoopCompressor" => Self::Noop,
            other => return Err(format!("unknown compression class {other}")),
        })
    }

    fn class(self) -> &'static str {
        match self {
            Self::Lz4 => "LZ4Compressor",
            Self::Snappy => "SnappyCompressor",
            Self::Deflate => "DeflateCompressor",
            Self::Zstd { .. } => "ZstdCompressor",
            Self::Noop => "NoopCompressor",
        }
    }

    /// Appends the compressed bytes.
    pub(super) fn compress(self, bytes: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        let start = out.len();
        match self {
            Self::Lz4 => {
                // The length stands in front, the lowest byte first.
                out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                out.resize(start + 4 + lz4_flex::block::get_maximum_output_size(bytes.len()), 0);
                let len =
                    lz4_flex::block::compress_into(bytes, &mut out[start + 4..]).map_err(std::io::Error::other)?;
                out.truncate(start + 4 + len);
            }
            Self::Snappy => {
                out.resize(start + snap::raw::max_compress_len(bytes.len()), 0);
                let len = snap::raw::Encoder::new().compress(bytes, &mut out[start..])?;
                out.truncate(start + len);
            }
            Self::Deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(&mut *out, flate2::Compression::default());
                std::io::Write::write_all(&mut encoder, bytes)?;
                encoder.finish()?;
            }
            Self::Zstd { level } => {
                let mut compressor = zstd::bulk::Compressor::new(level)?;
                compressor.include_checksum(true)?;
                out.extend_from_slice(&compressor.compress(bytes)?);
            }
            Self::Noop => out.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// Fills `out` exactly, or says what is wrong.
    fn decompress(self, bytes: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        let len = match self {
            Self::Lz4 => {
                let (len, block) = bytes.split_first_chunk::<4>().ok_or("a chunk without its length")?;
                if u32::from_le_bytes(*len) as usize != out.len() {
                    return Err("a chunk of another length");
                }
                lz4_flex::block::decompress_into(block, out).map_err(|_| "a chunk that LZ4 does not decompress")?
            }
            Self::Snappy => {
                let len = snap::raw::decompress_len(bytes).map_err(|_| "a chunk that is not Snappy's")?;
                if len != out.len() {
                    return Err("a chunk of another length");
                }
                let failed = |_| "a chunk that Snappy does not decompress";
                snap::raw::Decoder::new().decompress(bytes, out).map_err(failed)?
            }
            Self::Deflate => {
                let mut inflate = flate2::Decompress::new(true);
                let finish = flate2::FlushDecompress::Finish;
                let status = inflate.decompress(bytes, out, finish).map_err(|_| "a chunk that does not inflate")?;
                if status != flate2::Status::StreamEnd {
                    return Err("a chunk that does not end");
                }
                inflate.total_out() as usize
            }
            Self::Zstd { .. } => {
                let failed = |_| "a chunk that Zstandard does not decompress";
                zstd::bulk::decompress_to_buffer(bytes, out).map_err(failed)?
            }
            Self::Noop => {
                if bytes.len() != out.len() {
                    return Err("a chunk of another length");
                }
                out.copy_from_slice(bytes);
                bytes.len()
            }
        };
        if len == out.len() { Ok(()) } else { Err("a chunk of another length") }
    }
}

/// Where the chunks of a file lie, and how to make bytes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompressionInfo {
    pub compressor: Compressor,
    pub chunk_len: u32,
    /// Chunks that would not be smaller than this are stored as they are; only since format `na`.
    stored_raw_from: u32,
    pub data_len: u64,
    pub offsets: Vec<u64>,
}

fn write_utf(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

impl CompressionInfo {
    pub fn new(compression: Compression) -> Self {
        Self {
            compressor: compression.compressor,
            chunk_len: compression.chunk_len,
            stored_raw_from: u32::MAX,
            data_len: 0,
            offsets: Vec::new(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 8 * self.offsets.len());
        write_utf(self.compressor.class(), &mut out);
        match self.compressor {
            Compressor::Zstd { level } => {
                out.extend_from_slice(&1u32.to_be_bytes());
                write_utf("compression_level", &mut out);
                write_utf(&level.to_string(), &mut out);
            }
            _ => out.extend_from_slice(&0u32.to_be_bytes()),
        }
        out.extend_from_slice(&self.chunk_len.to_be_bytes());
        out.extend_from_slice(&self.data_len.to_be_bytes());
        out.extend_from_slice(&(self.offsets.len() as u32).to_be_bytes());
        self.offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()));
        out
    }

    /// `raw_chunks`: whether the format has a maximum compressed length (since `na`).
    pub fn decode(bytes: &[u8], raw_chunks: bool) -> Result<Self, String> {
        let mut reader = Reader::new(bytes);
        let short = |_| "it ends early".to_string();
        let utf = |reader: &mut Reader<'_>| -> Result<String, String> {
            let len = u16::from_be_bytes(reader.array("").map_err(short)?);
            let bytes = reader.bytes(usize::from(len), "").map_err(short)?;
            Ok(String::from_utf8_lossy(bytes).into_owned())
        };
        let class = utf(&mut reader)?;
        let mut level = None;
        for _ in 0..reader.u32("").map_err(short)? {
            let (name, value) = (utf(&mut reader)?, utf(&mut reader)?);
            if name == "compression_level" {
                level = value.parse().ok();
            }
        }
        let compressor = Compressor::from_class(&class, level)?;
        let chunk_len = reader.u32("").map_err(short)?;
        if !chunk_len.is_power_of_two() || chunk_len > CHUNK_MAX {
            return Err(format!("chunks of {chunk_len} bytes: not a power of two, or above {CHUNK_MAX}"));
        }
        let stored_raw_from = if raw_chunks { reader.u32("").map_err(short)? } else { u32::MAX };
        let data_len = u64::from_be_bytes(reader.array("").map_err(short)?);
        let count = reader.u32("").map_err(short)?;
        if reader.rest.len() as u64 != u64::from(count) * 8
            || data_len.div_ceil(u64::from(chunk_len)) != u64::from(count)
        {
            return Err(format!("{count} chunks of {chunk_len} bytes for {data_len} bytes"));
        }
        let offsets: Vec<u64> = reader.rest.as_chunks().0.iter().map(|offset| u64::from_be_bytes(*offset)).collect();
        // A chunk has a byte and its checksum at least.
        if offsets.first().is_some_and(|first| *first != 0) || offsets.windows(2).any(|pair| pair[1] < pair[0] + 5) {
            return Err("chunks out of order".into());
        }
        Ok(Self { compressor, chunk_len, stored_raw_from, data_len, offsets })
    }

    /// Where the chunk is stored, with its checksum, in a file of `stored_len` bytes.
    pub fn place(&self, chunk: u64, stored_len: u64) -> (u64, u64) {
        let start = self.offsets[chunk as usize];
        (start, self.offsets.get(chunk as usize + 1).copied().unwrap_or(stored_len).max(start))
    }

    /// The chunk's bytes from what is stored of it. At most twice the chunk's length is ever compressed.
    pub fn open(&self, chunk: u64, stored: &[u8]) -> Result<Arc<[u8]>, &'static str> {
        let (body, crc) = stored.split_last_chunk::<4>().ok_or("a chunk without a checksum")?;
        if crc32fast::hash(body) != u32::from_be_bytes(*crc) {
            return Err("a chunk fails its checksum");
        }
        let start = chunk * u64::from(self.chunk_len);
        let len = (self.data_len - start).min(u64::from(self.chunk_len)) as usize;
        if body.len() as u64 >= u64::from(self.stored_raw_from) {
            return if body.len() == len { Ok(Arc::from(body)) } else { Err("a chunk of another length") };
        }
        let mut out: Arc<[u8]> = std::iter::repeat_n(0, len).collect();
        if let Some(out) = Arc::get_mut(&mut out) {
            self.compressor.decompress(body, out)?;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Result<Option<Compression>, String> {
        Compression::from_options(&pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
    }

    #[test]
    fn options_as_they_are_written() {
        assert_eq!(options(&[]), Ok(None));
        assert_eq!(options(&[("sstable_compression", "")]), Ok(None));
        assert_eq!(options(&[("enabled", "false"), ("class", "LZ4Compressor")]), Ok(None));
        let lz4 = Compression { compressor: Compressor::Lz4, chunk_len: 16 << 10 };
        assert_eq!(options(&[("class", "org.apache.cassandra.io.compress.LZ4Compressor")]), Ok(Some(lz4)));
        let zstd = Compression { compressor: Compressor::Zstd { level: 5 }, chunk_len: 4 << 10 };
        let pairs = [("class", "ZstdCompressor"), ("chunk_length_in_kb", "4"), ("compression_level", "5")];
        assert_eq!(options(&pairs), Ok(Some(zstd)));
        for wrong in [
            ("chunk_length_in_kb", "5"),
            ("chunk_length_in_kb", "0"),
            ("chunk_length_in_kb", "65536"),
            ("crc_check_chance", "2"),
            ("min_compress_ratio", "0.5"),
            ("colour", "red"),
        ] {
            assert!(options(&[("class", "LZ4Compressor"), wrong]).is_err(), "{wrong:?}");
        }
        assert!(options(&[("class", "RarCompressor")]).is_err());
    }

    #[test]
    fn options_as_they_are_shown() {
        let shown = |pairs: &[(&str, &str)]| {
            let options = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            Compression::normal_options(options).map(|options| format!("{options:?}"))
        };
        let lz4 = r#"{"chunk_length_in_kb": "16", "class": "org.apache.cassandra.io.compress.LZ4Compressor"}"#;
        assert_eq!(shown(&[("sstable_compression", "LZ4Compressor")]).unwrap(), lz4);
        assert_eq!(shown(&[("enabled", "false")]).unwrap(), r#"{"enabled": "false"}"#);
        assert!(shown(&[("class", "RarCompressor")]).is_err());
    }

    #[test]
    fn chunks_come_back_and_damage_is_seen() {
        let text = "a partition and a row and a partition and a row ".repeat(100);
        let noise: Vec<u8> = (0..4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let zstd = Compressor::Zstd { level: 3 };
        for compressor in [Compressor::Lz4, Compressor::Snappy, Compressor::Deflate, zstd, Compressor::Noop] {
            for bytes in [text.as_bytes(), &noise, b"x"] {
                let mut info = CompressionInfo::new(Compression { compressor, chunk_len: 8192 });
                let mut stored = Vec::new();
                compressor.compress(bytes, &mut stored).unwrap();
                let seal = |body: &[u8]| [body, &crc32fast::hash(body).to_be_bytes()].concat();
                (info.data_len, info.offsets) = (bytes.len() as u64, vec![0]);
                assert_eq!(CompressionInfo::decode(&info.encode(), false).unwrap(), info);
                assert_eq!(&*info.open(0, &seal(&stored)).unwrap(), bytes, "{compressor:?}");
                let mut flipped = seal(&stored);
                flipped[0] ^= 1;
                assert!(info.open(0, &flipped).is_err());
                // With a checksum that fits, what is wrong must be found, or the length must be right.
                for len in 0..stored.len().min(40) {
                    assert!(info.open(0, &seal(&stored[..len])).is_err(), "{compressor:?} cut at {len}");
                }
            }
        }
    }

    #[test]
    fn raw_chunks_of_newer_formats() {
        let mut bytes = Vec::new();
        write_utf("LZ4Compressor", &mut bytes);
        for number in [0u32, 4096, 3000] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&3500u64.to_be_bytes());
        bytes.extend_from_slice(&1u32.to_be_bytes());
        bytes.extend_from_slice(&0u64.to_be_bytes());
        let info = CompressionInfo::decode(&bytes, true).unwrap();
        let raw = vec![7; 3500];
        let stored = [&raw[..], &crc32fast::hash(&raw).to_be_bytes()].concat();
        assert_eq!(&*info.open(0, &stored).unwrap(), raw);
        (0..bytes.len()).for_each(|len| assert!(CompressionInfo::decode(&bytes[..len], true).is_err()));
    }
}
