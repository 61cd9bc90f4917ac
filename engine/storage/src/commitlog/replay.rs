//! What the commit log says after a restart.
//!
//! Segments are read by age, each up to the first chunk or record that is torn or older than the segment. Nothing
//! behind a torn record of a segment is believed.

use reactor::fs::{self, File};
use reactor::{Buf, OpenFlags};

use super::Position;
use super::format::{self, BLOCK, CHUNK_HEADER, RECORD_HEADER};
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

/// Hands every record, with the position behind it, to `apply`; `pause` runs after each chunk.
pub(crate) async fn replay(
    config: &Config,
    segments: &[u64],
    mut apply: impl FnMut(Position, &[u8]) -> Result<(), Error>,
    mut pause: impl AsyncFnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let dir = &config.commitlog_dir;
    for &segment in segments {
        let path = format!("{dir}/{}", format::file_name(config.shard, segment));
        let flags = OpenFlags { read: true, write: true, direct: true, ..Default::default() };
        let file = File::open(&path, flags).await.map_err(Error::io(&path, "open"))?;
        let size = file.size().await.map_err(Error::io(&path, "size"))?;
        let mut offset = 0;
        let mut buf = Buf::direct(WINDOW);
        while offset + (BLOCK as u64) <= size {
            (buf, _) = read(&file, &path, offset, WINDOW.min((size - offset) as usize), buf).await?;
            let Some(header) = buf.first_chunk::<CHUNK_HEADER>() else { break };
            let Some(used) = format::chunk_used(header, segment, offset as u32) else { break };
            let whole = (used as usize).next_multiple_of(BLOCK);
            if offset + whole as u64 > size {
                break;
            }
            if buf.len() < used as usize {
                (buf, _) = read(&file, &path, offset, whole, buf).await?;
            }
            let Some(chunk) = buf.get(..used as usize) else { break };
            let sound = each_record(chunk, Position { segment, offset: offset as u32 }, &mut apply)?;
            pause().await?;
            if !sound {
                tracing::warn!(path, offset, "the commit log ends in a torn record");
                break;
            }
            offset += whole as u64;
        }
        if offset > 0 {
            // What has been believed once must still be there at the next replay.
            file.datasync().await.map_err(Error::io(&path, "sync"))?;
        }
    }
    Ok(())
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
