//! What the commit log says after a restart.
//!
//! Segments are read by age, each up to the first chunk or record that is torn or older than the segment. Nothing
//! behind it in the segment is believed.
//!
//! A crash tears only what was not yet durable. Chunks say how far the log was durable when they were written, so a
//! chunk that stands behind the tear, in this segment or a later one, and says that the torn place had been durable,
//! makes it damage: acknowledged writes are gone. Then the replay fails with the place of the damage, as Cassandra's
//! `CommitLogReplayer` does, unless the configuration says to go on without (Cassandra's
//! `cassandra.commitlog.ignorereplayerrors`): the rest of that segment is lost, later segments are replayed.

use std::collections::BTreeMap;

use reactor::fs::{self, File};
use reactor::{Buf, OpenFlags};

use super::Position;
use super::format::{self, BLOCK, CHUNK_HEADER, ChunkHeader, RECORD_HEADER};
use crate::{Config, Error};

/// Read at once; larger chunks are read again in full.
const WINDOW: usize = 256 << 10;

/// The shard's segments that are there, by age.
pub(crate) async fn segments(config: &Config) -> Result<Vec<u64>, Error> {
    let dir = &config.commitlog_dir;
    let names = fs::read_dir(dir).await.map_err(Error::io(dir, "list"))?;
    let ours =
        names.iter().filter_map(|name| format::parse_file_name(name)).filter(|(shard, _)| *shard == config.shard);
    let mut segments: Vec<u64> = ours.map(|(_, segment)| segment).collect();
    segments.sort_unstable();
    Ok(segments)
}

/// Removes every shard's segments: what they hold is in SSTables.
pub(crate) async fn remove_all(dir: &str) -> Result<(), Error> {
    let names = fs::read_dir(dir).await.map_err(Error::io(dir, "list"))?;
    for name in names.iter().filter(|name| format::parse_file_name(name).is_some()) {
        let path = format!("{dir}/{name}");
        fs::remove(&path).await.map_err(Error::io(&path, "remove"))?;
    }
    fs::sync_dir(dir).await.map_err(Error::io(dir, "sync folder"))
}

/// Where the replay of segments ended, and how far they were said to be durable.
#[derive(Default)]
struct Ends {
    /// By age.
    ended: Vec<Position>,
    durable: BTreeMap<u64, u32>,
}

impl Ends {
    fn durable(&mut self, upto: Position) {
        let offset = self.durable.entry(upto.segment).or_default();
        *offset = upto.offset.max(*offset);
    }

    /// The first segment whose replay ended before a place that had been durable, and that place.
    fn damage(&self) -> Option<(Position, u32)> {
        let durable = |end: &Position| self.durable.get(&end.segment).copied().unwrap_or(0);
        self.ended.iter().map(|end| (*end, durable(end))).find(|(end, durable)| *durable > end.offset)
    }
}

/// Hands every record, with the position behind it, to `apply`; `pause` runs after each chunk.
pub(crate) async fn replay(
    config: &Config,
    segments: &[u64],
    mut apply: impl FnMut(Position, &[u8]) -> Result<(), Error>,
    mut pause: impl AsyncFnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let dir = &config.commitlog_dir;
    let mut ends = Ends::default();
    for &segment in segments {
        let path = format!("{dir}/{}", format::file_name(config.shard, segment));
        let flags = OpenFlags { read: true, write: true, direct: true, ..Default::default() };
        let file = File::open(&path, flags).await.map_err(Error::io(&path, "open"))?;
        let size = file.size().await.map_err(Error::io(&path, "size"))?;
        let mut offset = 0;
        let mut buf = Buf::direct(WINDOW);
        while offset + (BLOCK as u64) <= size {
            (buf, _) = read(&file, &path, offset, WINDOW.min((size - offset) as usize), buf).await?;
            let at = Position { segment, offset: offset as u32 };
            let Some(header) = header(&buf, at) else { break };
            let whole = (header.used as usize).next_multiple_of(BLOCK);
            if offset + whole as u64 > size {
                break;
            }
            if buf.len() < header.used as usize {
                (buf, _) = read(&file, &path, offset, whole, buf).await?;
            }
            let Some(chunk) = buf.get(..header.used as usize) else { break };
            ends.durable(header.durable);
            let sound = each_record(chunk, at, &mut apply)?;
            pause().await?;
            if !sound {
                tracing::warn!(path, offset, "the commit log ends in a torn record");
                break;
            }
            offset += whole as u64;
        }
        ends.ended.push(Position { segment, offset: offset as u32 });
        // What stands behind the end may say that the end is none.
        let mut behind = offset + BLOCK as u64;
        while behind + (BLOCK as u64) <= size {
            (buf, _) = read(&file, &path, behind, WINDOW.min((size - behind) as usize), buf).await?;
            for (block, bytes) in buf.chunks(BLOCK).enumerate() {
                let offset = behind as u32 + (block * BLOCK) as u32;
                if let Some(header) = header(bytes, Position { segment, offset }) {
                    ends.durable(header.durable);
                }
            }
            behind += (buf.len() / BLOCK * BLOCK).max(BLOCK) as u64;
        }
        if offset > 0 {
            // What has been believed once must still be there at the next replay.
            file.datasync().await.map_err(Error::io(&path, "sync"))?;
        }
    }
    match ends.damage() {
        None => Ok(()),
        Some((end, durable)) => {
            let path = format!("{dir}/{}", format::file_name(config.shard, end.segment));
            let what = format!(
                "the commit log is damaged: what was durable up to byte {durable} cannot be read. Restore the file, or \
                 start once with ignore_commitlog_damage to go on without those writes"
            );
            let error = Error::corrupt(&path, u64::from(end.offset), what);
            if config.ignore_commitlog_damage {
                tracing::error!(%error, "going on without what is lost");
                return Ok(());
            }
            Err(error)
        }
    }
}

fn header(bytes: &[u8], at: Position) -> Option<ChunkHeader> {
    ChunkHeader::decode(bytes.first_chunk::<CHUNK_HEADER>()?, at)
}

async fn read(file: &File, path: &str, offset: u64, len: usize, mut buf: Buf) -> Result<(Buf, usize), Error> {
    buf.clear();
    let (result, buf) = file.read_at(offset, len.next_multiple_of(BLOCK), buf).await;
    let len = result.map_err(Error::io(path, "read"))?;
    Ok((buf, len))
}

/// Whether all records of a chunk are sound; stops at the first that is not.
fn each_record(
    chunk: &[u8],
    at: Position,
    apply: &mut impl FnMut(Position, &[u8]) -> Result<(), Error>,
) -> Result<bool, Error> {
    let mut start = CHUNK_HEADER;
    while start < chunk.len() {
        let position = Position { offset: at.offset + start as u32, ..at };
        let Some(payload) = format::read_record(&chunk[start..], position) else { return Ok(false) };
        start += RECORD_HEADER + payload.len();
        apply(Position { offset: at.offset + start as u32, ..at }, payload)?;
    }
    Ok(true)
}
