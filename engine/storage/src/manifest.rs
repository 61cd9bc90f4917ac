//! Which SSTables a shard's part of a table consists of, and how far the commit log is in them.
//!
//! A small text file in the table's folder, replaced in one step. What it does not name is a leftover of a crash.
//!
//! ```text
//! orrery-manifest 1
//! flushed 12 345678       every commit log record up to this segment and offset is in SSTables, or was truncated
//! next 9                  generations from here on were never used
//! sstable 4 level 0 run 4 made 1700000000
//! sstable 6 level 2 run 5 made 1700000060 from -17     what has smaller tokens is in other SSTables
//! crc 89abcdef            CRC32 of everything above
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;

use reactor::fs;
use types::Token;

use crate::Error;
use crate::commitlog::Position;
use crate::sstable::Standing;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub flushed_upto: Position,
    /// The k of the next generation k * shards + shard.
    pub next: u64,
    /// By generation, with where compaction has put each.
    pub sstables: BTreeMap<u64, Standing>,
}

fn name(shard: u32, shards: u32) -> String {
    format!("shard-{shard}-of-{shards}.manifest")
}

/// As manifests were named when a number of shards could not be changed.
fn first_name(shard: u32) -> String {
    format!("shard-{shard}.manifest")
}

fn sstable(line: &str) -> Option<(u64, Standing)> {
    let words: Vec<&str> = line.split(' ').collect();
    if let ["sstable", generation] = &words[..] {
        // Written before there were levels.
        let generation = generation.parse().ok()?;
        return Some((generation, Standing { run: generation, ..Standing::default() }));
    }
    let (["sstable", generation, "level", level, "run", run, "made", made_s], rest) = words.split_first_chunk::<8>()?
    else {
        return None;
    };
    let from = match rest {
        [] => None,
        ["from", token] => Some(Token(token.parse().ok()?)),
        _ => return None,
    };
    let standing = Standing { level: level.parse().ok()?, run: run.parse().ok()?, made_s: made_s.parse().ok()?, from };
    Some((generation.parse().ok()?, standing))
}

impl Manifest {
    fn encode(&self) -> String {
        let mut text = String::from("orrery-manifest 1\n");
        let position = self.flushed_upto;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "flushed {} {}\nnext {}", position.segment, position.offset, self.next);
        for (generation, Standing { level, run, made_s, from }) in &self.sstables {
            let _ = write!(text, "sstable {generation} level {level} run {run} made {made_s}");
            if let Some(from) = from {
                let _ = write!(text, " from {from}");
            }
            text.push('\n');
        }
        let crc = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "crc {crc:08x}");
        text
    }

    fn decode(text: &str) -> Option<Self> {
        let body = &text[..text.rfind("crc ")?];
        let crc = u32::from_str_radix(text[body.len()..].strip_prefix("crc ")?.strip_suffix('\n')?, 16).ok()?;
        if crc32fast::hash(body.as_bytes()) != crc {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != "orrery-manifest 1" {
            return None;
        }
        let (segment, offset) = lines.next()?.strip_prefix("flushed ")?.split_once(' ')?;
        let flushed_upto = Position { segment: segment.parse().ok()?, offset: offset.parse().ok()? };
        let next = lines.next()?.strip_prefix("next ")?.parse().ok()?;
        let sstables = lines.map(sstable).collect::<Option<_>>()?;
        Some(Self { flushed_upto, next, sstables })
    }

    /// Whether a file is the manifest of one of so many shards.
    pub fn is_named(file: &str, shards: u32) -> bool {
        (0..shards).any(|shard| name(shard, shards) == file)
    }

    /// Of a table that was never flushed: the default.
    pub async fn load(folder: &str, shard: u32, shards: u32) -> Result<Self, Error> {
        for name in [name(shard, shards), first_name(shard)] {
            let path = format!("{folder}/{name}");
            match fs::read(&path).await {
                Ok(bytes) => {
                    let decoded = std::str::from_utf8(&bytes).ok().and_then(Self::decode);
                    return decoded.ok_or_else(|| Error::corrupt(&path, 0, "not a manifest, or its checksum fails"));
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io(&path, "read")(error)),
            }
        }
        Ok(Self::default())
    }

    /// Durable when it resolves.
    pub async fn store(&self, folder: &str, shard: u32, shards: u32) -> Result<(), Error> {
        let name = name(shard, shards);
        let path = format!("{folder}/{name}");
        fs::replace(folder, &name, self.encode().as_bytes()).await.map_err(Error::io(&path, "replace"))
    }

    /// Removes what a replacement that never came to its end has left among `names`.
    pub async fn remove_staged(folder: &str, shard: u32, shards: u32, names: &[String]) -> Result<(), Error> {
        let staged = format!("{}.tmp", name(shard, shards));
        if names.contains(&staged) {
            let path = format!("{folder}/{staged}");
            fs::remove(&path).await.map_err(Error::io(&path, "remove"))?;
        }
        Ok(())
    }

    pub async fn remove(folder: &str, shard: u32, shards: u32) -> Result<(), Error> {
        let path = format!("{folder}/{}", name(shard, shards));
        match fs::remove(&path).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(&path, "remove")(error));
            }
            _ => {}
        }
        match fs::sync_dir(folder).await {
            // Another shard, which dropped the table too, found the folder empty and removed it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(Error::io(folder, "sync folder")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let position = Position { segment: 12, offset: 99 };
        let one = Standing { level: 0, run: 3, made_s: 9, from: None };
        let two = Standing { level: 8, run: 5, made_s: u32::MAX, from: Some(Token(-7)) };
        let manifest = Manifest { flushed_upto: position, next: 7, sstables: [(3, one), (6, two)].into() };
        let text = manifest.encode();
        assert_eq!(Manifest::decode(&text), Some(manifest));
        for at in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 1;
            let damaged = String::from_utf8(damaged).unwrap();
            assert_eq!(Manifest::decode(&damaged), None, "{damaged}");
        }
        assert_eq!(Manifest::decode(""), None);
    }
}
