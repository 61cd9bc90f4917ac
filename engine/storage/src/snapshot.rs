//! Snapshots: the SSTables of a table at a moment, as hard links in `<table>/snapshots/<tag>/`, with Cassandra's
//! `manifest.json` and `schema.cql`. They cost no room until compaction has replaced what they link to. Restoring is
//! copying files into `<table>/upload/` and [`Storage::refresh`].
//!
//! Each shard links its own SSTables; when all have, one of them describes the snapshot.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::rc::Rc;

use reactor::{OpenFlags, fs};
use types::TableId;

use crate::sstable::{Sstable, parse_name};
use crate::storage::Storage;
use crate::table::Table;
use crate::{Error, folders};

/// One snapshot of one table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Snapshot {
    pub table: TableId,
    pub tag: String,
    /// Names of the files, of all shards.
    pub files: Vec<String>,
    /// Bytes of files that the table itself has no more, and of all files.
    pub live_bytes: u64,
    pub total_bytes: u64,
    /// Seconds since the epoch, as the manifest says.
    pub created_s: Option<u64>,
    pub expires_s: Option<u64>,
}

/// A tag becomes a folder's name.
fn check_tag(tag: &str) -> Result<(), Error> {
    let sound = !tag.is_empty() && tag.len() <= 200 && !tag.contains(['/', '\0']) && tag != "." && tag != "..";
    if sound { Ok(()) } else { Err(Error::Config(format!("{tag:?} cannot be the name of a snapshot"))) }
}

fn is_absent(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

/// Names in a folder; none when it is not there.
pub(crate) async fn names(folder: &str) -> Result<Vec<String>, Error> {
    match fs::read_dir(folder).await {
        Ok(names) => Ok(names),
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(Error::io(folder, "list")(error)),
    }
}

/// `None` when it is gone meanwhile.
async fn file_bytes(path: &str) -> Result<Option<u64>, Error> {
    match fs::File::open(path, OpenFlags { read: true, ..Default::default() }).await {
        Ok(file) => file.size().await.map(Some).map_err(Error::io(path, "size")),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Error::io(path, "open")(error)),
    }
}

/// Seconds since the epoch, of a member of the manifest.
fn moment(manifest: &str, member: &str) -> Option<u64> {
    let (_, rest) = manifest.split_once(&format!("\"{member}\":\""))?;
    let (text, _) = rest.split_once('"')?;
    u64::try_from(types::calendar::timestamp_from_text(text).ok()? / 1000).ok()
}

impl Storage {
    /// Flushes the table and links what this shard has of it. A tag that exists is an error.
    pub async fn snapshot(&self, table: TableId, tag: &str) -> Result<u64, Error> {
        check_tag(tag)?;
        let table = self.table(table)?;
        self.flush_table(&table).await?;
        self.link_sstables(&table, tag, |_| true).await
    }

    /// As [`snapshot`](Self::snapshot), without what is in memory.
    pub async fn snapshot_on_disk(&self, table: TableId, tag: &str) -> Result<u64, Error> {
        check_tag(tag)?;
        self.link_sstables(&self.table(table)?, tag, |_| true).await
    }

    /// Links the SSTables that are wanted; says how many files.
    pub(crate) async fn link_sstables(
        &self,
        table: &Rc<Table>,
        tag: &str,
        wanted: impl Fn(&Sstable) -> bool,
    ) -> Result<u64, Error> {
        // While it is held, no SSTable leaves the table: so no file is removed.
        let _permit = table.publishing_permit().await;
        let folder = format!("{}/snapshots/{tag}", table.folder);
        folders::create(&folder).await?;
        let sstables = table.sstables.borrow().clone();
        let is_wanted = |generation: u64| sstables.iter().any(|s| s.generation == generation && wanted(s));
        let mut files = 0;
        for name in names(&table.folder).await? {
            if parse_name(&name).is_some_and(is_wanted) {
                let (from, to) = (format!("{}/{name}", table.folder), format!("{folder}/{name}"));
                fs::link(&from, &to).await.map_err(Error::io(&to, "link"))?;
                files += 1;
            }
        }
        fs::sync_dir(&folder).await.map_err(Error::io(&folder, "sync folder"))?;
        Ok(files)
    }

    /// Writes `manifest.json` and `schema.cql` of a snapshot; for one shard, when all have linked their files. `times`
    /// are when it was made and when it may go, in seconds since the epoch.
    pub async fn describe_snapshot(
        &self,
        table: TableId,
        tag: &str,
        schema_cql: &str,
        times: (u64, Option<u64>),
    ) -> Result<(), Error> {
        check_tag(tag)?;
        let table = self.table(table)?;
        let folder = format!("{}/snapshots/{tag}", table.folder);
        let files: Vec<String> = names(&folder).await?.into_iter().filter(|name| name.ends_with("-Data.db")).collect();
        // As `TableSnapshot`'s manifest; the names hold nothing that JSON would have to escape.
        let mut json = String::from("{\"files\":[");
        for (at, name) in files.iter().enumerate() {
            let _ = write!(json, "{}\"{name}\"", if at == 0 { "" } else { "," });
        }
        let instant = |seconds: u64| types::calendar::timestamp_to_text((seconds * 1000) as i64);
        let _ = write!(json, "],\"created_at\":\"{}\"", instant(times.0));
        if let Some(expires_s) = times.1 {
            let _ = write!(json, ",\"expires_at\":\"{}\"", instant(expires_s));
        }
        json.push('}');
        for (name, text) in [("manifest.json", json.as_str()), ("schema.cql", schema_cql)] {
            let path = format!("{folder}/{name}");
            fs::replace(&folder, name, text.as_bytes()).await.map_err(Error::io(&path, "replace"))?;
        }
        Ok(())
    }

    /// Snapshots of the tables that there are, by table and tag.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, Error> {
        let mut found = Vec::new();
        for table in self.tables_by_id() {
            let folder = format!("{}/snapshots", table.folder);
            let there: BTreeSet<String> = names(&table.folder).await?.into_iter().collect();
            for tag in names(&folder).await? {
                let own = format!("{folder}/{tag}");
                let files = names(&own).await?;
                let (mut live_bytes, mut total_bytes) = (0, 0);
                for name in &files {
                    let Some(bytes) = file_bytes(&format!("{own}/{name}")).await? else { continue };
                    total_bytes += bytes;
                    // A link to a file that the table has costs nothing.
                    let is_shared = name.ends_with(".db") && there.contains(name);
                    live_bytes += if is_shared { 0 } else { bytes };
                }
                let manifest = fs::read(&format!("{own}/manifest.json")).await.unwrap_or_default();
                let manifest = String::from_utf8_lossy(&manifest);
                let (created_s, expires_s) = (moment(&manifest, "created_at"), moment(&manifest, "expires_at"));
                let table = table.def().id;
                found.push(Snapshot { table, tag, files, live_bytes, total_bytes, created_s, expires_s });
            }
        }
        Ok(found)
    }

    /// Removes a table's snapshot, or all of them; says how many.
    pub async fn clear_snapshots(&self, table: TableId, tag: Option<&str>) -> Result<usize, Error> {
        let table = self.table(table)?;
        let folder = format!("{}/snapshots", table.folder);
        let mut cleared = 0;
        for name in names(&folder).await? {
            if tag.is_some_and(|tag| tag != name) {
                continue;
            }
            let snapshot = format!("{folder}/{name}");
            remove_all(&snapshot).await?;
            cleared += 1;
        }
        // Fails while another snapshot is there.
        let _ = fs::remove_dir(&folder).await;
        Ok(cleared)
    }

    /// The snapshot that is taken before a table's data goes, when the configuration says so.
    pub(crate) async fn snapshot_before(&self, table: &Rc<Table>, what: &str) -> Result<(), Error> {
        if !self.config().auto_snapshot {
            return Ok(());
        }
        self.flush_table(table).await?;
        let tag = format!("{what}-{}-{}", reactor::wall_us() / 1000, table.def().name);
        self.link_sstables(table, &tag, |_| true).await.map(drop)
    }
}

/// A folder with nothing but files, and those.
pub(crate) async fn remove_all(folder: &str) -> Result<(), Error> {
    for file in names(folder).await? {
        let path = format!("{folder}/{file}");
        match fs::remove(&path).await {
            // Another shard clears it too.
            Err(error) if !is_absent(&error) => return Err(Error::io(&path, "remove")(error)),
            _ => {}
        }
    }
    match fs::remove_dir(folder).await {
        Err(error) if !is_absent(&error) => Err(Error::io(folder, "remove")(error)),
        _ => Ok(()),
    }
}
