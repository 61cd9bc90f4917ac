//! Loading SSTables from a table's `upload/` folder: our own, restored from a snapshot, and those of other writers.
//!
//! All of them are read and checked first; a damaged one refuses the whole. Each shard copies the partitions that it
//! owns into SSTables of its own and takes them in, in one step. The files in `upload/` stay until
//! [`Storage::clear_upload`], which one shard calls when all are done; a crash before it only means to do it again:
//! loading twice changes nothing.

use std::rc::Rc;

use types::{TableId, Token};

use crate::sstable::{Sequential, Sstable, Standing, Writer};
use crate::storage::Storage;
use crate::table::Table;
use crate::{Error, snapshot};

/// What a shard has taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefreshReport {
    pub sstables: u64,
    pub partitions: u64,
    /// Partitions that belong to other shards or nodes.
    pub foreign: u64,
}

impl Storage {
    /// Takes in what `owns` says is this shard's.
    pub async fn refresh(&self, table: TableId, owns: impl Fn(Token) -> bool) -> Result<RefreshReport, Error> {
        let table = self.table(table)?;
        let folder = format!("{}/upload", table.folder);
        let mut sstables = Vec::new();
        for name in snapshot::names(&folder).await?.iter().filter(|name| name.ends_with("-Data.db")) {
            let sstable = Sstable::open_foreign(&folder, name, table.def(), self.cache()).await?;
            self.verify_sstable(&sstable, None).await?;
            sstables.push(sstable);
        }
        let mut report = RefreshReport { sstables: sstables.len() as u64, ..RefreshReport::default() };
        let mut taken = Vec::new();
        let result = async {
            for sstable in sstables {
                taken.extend(self.copy_owned(&table, sstable, &owns, &mut report).await?);
            }
            table
                .publish(self.config(), |now| {
                    Some((now.iter().chain(&taken).cloned().collect(), table.flushed_upto.get()))
                })
                .await
        };
        match result.await {
            Ok(true) => {
                // In the turn in which they became visible.
                table.rename_rows();
                self.wake_compaction();
                Ok(report)
            }
            other => {
                for sstable in taken {
                    sstable.remove().await?;
                }
                other.map(|_| report)
            }
        }
    }

    async fn copy_owned(
        &self,
        table: &Rc<Table>,
        sstable: Rc<Sstable>,
        owns: &impl Fn(Token) -> bool,
        report: &mut RefreshReport,
    ) -> Result<Option<Rc<Sstable>>, Error> {
        let (stats, keys) = (sstable.encoding_stats(), sstable.figures.partitions);
        let mut reader = Sequential::remaining(sstable).await?;
        let mut writer: Option<(Writer, u64)> = None;
        let mut paced = 0;
        while let Some((token, key)) = reader.next_key().await? {
            if !owns(token) {
                report.foreign += 1;
                continue;
            }
            report.partitions += 1;
            if writer.is_none() {
                let generation = table.take_generation(self.config());
                writer = Some((Writer::create(&table.folder, generation, table.def(), stats, keys).await?, generation));
            }
            let Some((writer, _)) = &mut writer else { break };
            reader.copy_partition(token, &key, writer).await?;
            if writer.data_bytes() - paced >= 64 << 10 {
                self.compactions.pace(self.config().compaction_mb_per_s, writer.data_bytes() - paced).await;
                paced = writer.data_bytes();
            }
        }
        let Some((writer, generation)) = writer else { return Ok(None) };
        writer.finish().await?;
        let made_s = (reactor::wall_us() / 1_000_000) as u32;
        let sstable = Sstable::open(&table.folder, generation, table.def(), self.cache()).await?;
        Ok(Some(sstable.standing(Standing { level: 0, run: generation, made_s, from: None })))
    }

    /// Empties `upload/`; for one shard, when all have taken in what is theirs.
    pub async fn clear_upload(&self, table: TableId) -> Result<(), Error> {
        let table = self.table(table)?;
        snapshot::remove_all(&format!("{}/upload", table.folder)).await
    }
}
