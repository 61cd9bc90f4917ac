//! Looks whether SSTables are what was written, and saves what can be read of those that are not.

use std::rc::Rc;

use types::TableId;

use super::picture::{Job, Kind};
use super::running::{CompactionRecord, Running};
use super::task::Busy;
use crate::sstable::{IndexCursor, PartitionCursor, Sequential, Sstable, Standing, Writer};
use crate::storage::Storage;
use crate::table::Table;
use crate::{Error, Partition};

/// Rows read at once.
const PART_ROWS: usize = 256;

/// What a look at a table's SSTables has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    pub sstables: u64,
    pub partitions: u64,
    /// A sentence for each damaged SSTable: where the first damage is.
    pub problems: Vec<String>,
}

/// What scrubbing has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// SSTables that were in order, and left alone.
    pub sound: u64,
    pub rewritten: u64,
    /// Partitions that were saved out of damaged SSTables, and those that could not be read.
    pub kept: u64,
    pub lost: u64,
    pub problems: Vec<String>,
}

impl Storage {
    /// Reads all of a table's SSTables: every checksum, the order of keys and rows, and that the index says where they
    /// are. Changes nothing.
    pub async fn verify(&self, table: TableId) -> Result<VerifyReport, Error> {
        let table = self.table(table)?;
        let sstables = table.sstables.borrow().clone();
        let bytes = sstables.iter().map(|sstable| sstable.stored_bytes()).sum();
        let running = self.compactions.start(table.def().id, Kind::Verify, bytes, 0);
        let mut report = VerifyReport::default();
        let mut result = Ok(());
        for sstable in sstables {
            report.sstables += 1;
            match self.verify_sstable(&sstable, Some(&running)).await {
                Ok(partitions) => report.partitions += partitions,
                Err(error @ Error::Corrupt { .. }) => report.problems.push(error.to_string()),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.compactions.end(&running);
        result.map(|()| report)
    }

    /// How many partitions; or the first damage.
    pub(crate) async fn verify_sstable(&self, sstable: &Rc<Sstable>, running: Option<&Running>) -> Result<u64, Error> {
        let mut reader = Sequential::remaining(sstable.clone()).await?;
        let mut index = IndexCursor::seek(sstable.clone(), types::Token::MIN, None).await?;
        let (mut partitions, mut paced) = (0, reader.position());
        loop {
            let position = reader.position();
            let head = reader.next_key().await?;
            let found = head.as_ref().map(|(token, key)| (*token, key, position));
            let said = index.head().map(|entry| (entry.token, &entry.key, entry.position));
            if said != found {
                let path = sstable.descriptor.path("Index.db");
                return Err(Error::corrupt(&path, position, "the index does not say what is in the data"));
            }
            if head.is_none() {
                return Ok(partitions);
            }
            partitions += 1;
            while let Some(part) = reader.next_part(PART_ROWS).await? {
                let def = sstable.def();
                if !part.partition.rows.is_sorted_by(|a, b| a.clustering.compare(&b.clustering, def).is_lt()) {
                    return Err(Error::corrupt(&sstable.descriptor.path("Data.db"), position, "rows out of order"));
                }
                if part.more_after.is_none() {
                    break;
                }
            }
            index.advance().await?;
            let read = reader.position().saturating_sub(paced);
            if read >= 64 << 10 {
                paced = reader.position();
                self.compactions.pace(self.config().compaction_mb_per_s, read / 4).await;
                if let Some(running) = running {
                    running.bytes_read.set(running.bytes_read.get() + read);
                    if running.cancelled.get() {
                        return Err(Error::Cancelled);
                    }
                }
            }
        }
    }

    /// Rewrites damaged SSTables without the partitions that cannot be read. The damaged files are kept in the snapshot
    /// `pre-scrub-<generation>`.
    pub async fn scrub(&self, table: TableId) -> Result<ScrubReport, Error> {
        let table = self.table(table)?;
        let all: Vec<u64> = table.sstables.borrow().iter().map(|sstable| sstable.generation).collect();
        let mut report = ScrubReport::default();
        for generation in all {
            let busy = Busy::wait(&table, &[generation]).await;
            let found = table.sstables.borrow().iter().find(|sstable| sstable.generation == generation).cloned();
            // Compacted away meanwhile, with what it had.
            let Some(sstable) = found else { continue };
            let job = Job::new(Kind::Scrub, [generation], sstable.standing.level, u64::MAX);
            let running =
                self.compactions.start(table.def().id, Kind::Scrub, sstable.stored_bytes(), sstable.stored_bytes());
            let result = match self.verify_sstable(&sstable, Some(&running)).await {
                Ok(_) => {
                    report.sound += 1;
                    Ok(())
                }
                Err(error @ Error::Corrupt { .. }) => {
                    report.problems.push(error.to_string());
                    self.save(&table, &sstable, &job, &mut report).await
                }
                Err(error) => Err(error),
            };
            self.compactions.end(&running);
            drop(busy);
            result?;
        }
        Ok(report)
    }

    async fn save(
        &self,
        table: &Rc<Table>,
        sstable: &Rc<Sstable>,
        job: &Job,
        report: &mut ScrubReport,
    ) -> Result<(), Error> {
        let started_ns = reactor::now();
        let tag = format!("pre-scrub-{}", sstable.generation);
        self.link_sstables(table, &tag, |other| other.generation == sstable.generation).await?;
        let generation = table.take_generation(self.config());
        let (def, keys) = (table.def(), sstable.figures.partitions);
        let writer = Writer::create(&table.folder, generation, def.clone(), sstable.encoding_stats(), keys).await?;
        let mut writer = writer.level(job.level).watched_by(self.events.watch());
        let (kept, lost) = rescue(sstable, &mut writer).await?;
        let mut outputs = Vec::new();
        let mut bytes_out = 0;
        let output = if kept == 0 {
            drop(writer);
            crate::sstable::remove_files(&table.folder, generation).await?;
            None
        } else {
            bytes_out = writer.finish().await?;
            outputs.push(generation);
            let made_s = (reactor::wall_us() / 1_000_000) as u32;
            let output = Sstable::open(&table.folder, generation, def, self.cache()).await?;
            Some(output.standing(Standing { made_s, from: None, ..sstable.standing }))
        };
        let replaced = self.replace(table, std::slice::from_ref(sstable), |_| output.clone()).await?;
        if replaced.overtaken {
            if let Some(output) = output {
                output.remove().await?;
            }
            return Ok(());
        }
        // Its files are no more in the list of the new set.
        sstable.remove().await?;
        table.rename_rows();
        report.rewritten += 1;
        report.kept += kept;
        report.lost += lost;
        self.compacted(CompactionRecord {
            table: table.def().id,
            kind: Kind::Scrub,
            inputs: job.inputs.clone(),
            outputs,
            bytes_in: sstable.stored_bytes(),
            bytes_out,
            rows_merged: [(1, kept)].into(),
            skipped: lost,
            ended_us: reactor::wall_us(),
            duration_ns: reactor::now() - started_ns,
        });
        Ok(())
    }
}

/// Copies what can be read: partition by partition as the index has them; where the index cannot be read on, the rest
/// is counted as one that is lost. Each partition is held whole, as one that turns out damaged must not be begun.
async fn rescue(sstable: &Rc<Sstable>, writer: &mut Writer) -> Result<(u64, u64), Error> {
    let (mut kept, mut lost) = (0, 0);
    let mut index = match IndexCursor::seek(sstable.clone(), types::Token::MIN, None).await {
        Ok(index) => index,
        Err(Error::Corrupt { .. }) => return Ok((0, 1)),
        Err(error) => return Err(error),
    };
    let mut last = None;
    while let Some(entry) = index.head().cloned() {
        let next = match index.advance().await {
            Ok(()) => index.head().map(|next| next.position),
            Err(Error::Corrupt { .. }) => {
                lost += 1;
                None
            }
            Err(error) => return Err(error),
        };
        let place = (entry.token, entry.key.clone());
        let in_order = last.as_ref().is_none_or(|last| *last < place);
        match whole(sstable, &entry, next).await {
            Ok(partition) if in_order && !partition.is_empty() => {
                writer.add(entry.token, &partition).await?;
                kept += 1;
                last = Some(place);
            }
            Ok(_) | Err(Error::Corrupt { .. }) => lost += 1,
            Err(error) => return Err(error),
        }
        if next.is_none() {
            break;
        }
    }
    Ok((kept, lost))
}

async fn whole(
    sstable: &Rc<Sstable>,
    entry: &crate::sstable::IndexEntry,
    next: Option<u64>,
) -> Result<Partition, Error> {
    let place = entry.place(sstable, next).await?;
    let mut cursor = PartitionCursor::new(sstable.clone(), entry.key.clone(), place);
    let mut partition = Partition::new(entry.key.clone());
    loop {
        let part = cursor.next_part(&[], false, PART_ROWS).await?;
        partition.merge(part.partition, sstable.def());
        if part.more_after.is_none() {
            let in_order =
                partition.rows.is_sorted_by(|a, b| a.clustering.compare(&b.clustering, sstable.def()).is_lt());
            let broken = || Error::corrupt(&sstable.descriptor.path("Data.db"), entry.position, "rows out of order");
            return if in_order { Ok(partition) } else { Err(broken()) };
        }
    }
}
