//! Reads several SSTables in order, merges them partition by partition, drops what no one needs, writes the outputs.
//!
//! Outputs end at a size, between two tokens. When an input is read to its end while others are not, the outputs so far
//! take its place at once, in one step with what the others still have: they are left with the tokens that come behind
//! (`Standing::from`). So a token's data is in the inputs or in the outputs, never in both, and the disk has to hold little
//! more than one output twice. A crash in between loses nothing and brings nothing back: deleted data cannot be left in
//! one input while the tombstone, purged, has gone with another.

use std::collections::BTreeMap;
use std::rc::Rc;

use types::{TableDef, Token};

use super::picture::{Job, Kind};
use super::running::Running;
use super::shadow::Shadow;
use crate::sstable::{EncodingStats, KeyHash, PlainRows, Sequential, Sstable, Standing, Writer};
use crate::storage::Storage;
use crate::table::{Table, add};
use crate::{Bytes, Clustering, DeletionTime, Error, Partition, Row};

/// Between looks at the pace; the other tasks go first sooner, where a task quota has passed.
const YIELD_BYTES: u64 = 64 << 10;
/// Of each input in memory at once: few enough for wide rows, many enough to merge in lists.
const PART_ROWS: usize = 256;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    pub outputs: Vec<u64>,
    pub bytes_out: u64,
    pub rows_merged: BTreeMap<u32, u64>,
    /// The inputs were taken away meanwhile, by a truncation or a change of columns: what was not published is gone.
    pub overtaken: bool,
}

/// Which partitions are kept; `None` is all.
pub(crate) type Keep<'a> = Option<&'a dyn Fn(Token) -> bool>;

pub(crate) struct Merge<'a> {
    storage: &'a Storage,
    table: &'a Rc<Table>,
    job: &'a Job,
    running: &'a Running,
    keep: Keep<'a>,
    /// For a garbage collection: the rest of the table, whose deletions count.
    others: Option<Vec<Rc<Sstable>>>,
    /// As they are in the table now.
    inputs: Vec<Rc<Sstable>>,
    /// Written, not yet in the table.
    unpublished: Vec<Rc<Sstable>>,
    def: std::sync::Arc<TableDef>,
    stats: EncodingStats,
    /// Rows on their way from one input to the output.
    plain: PlainRows,
    partitions: u64,
    bytes_in: u64,
    run: Option<u64>,
    now_s: u32,
    gc_before_s: u32,
    /// Bytes of data so far, and when the others were let in last.
    read: u64,
    written: u64,
    paced: u64,
    /// Of outputs, less what they replaced.
    temporary: u64,
    merged: Merged,
}

struct Input {
    reader: Sequential,
    head: Option<(Token, Bytes)>,
    /// Its rows may go to the output as they are.
    fits: bool,
}

impl Input {
    fn is_at(&self, token: Token, key: &Bytes) -> bool {
        self.head.as_ref().is_some_and(|(at, theirs)| *at == token && theirs == key)
    }
}

/// The output that is being written.
struct Output {
    writer: Writer,
    generation: u64,
}

fn data_bytes(output: &Option<Output>) -> u64 {
    output.as_ref().map_or(0, |output| output.writer.data_bytes())
}

/// A partition on its way from some inputs to the output, a part at a time.
struct Streamed<'k> {
    token: Token,
    key: &'k Bytes,
    /// The latest of the inputs'; it shadows rows of every part.
    deletion: Option<DeletionTime>,
    begun: bool,
    /// What others delete of it.
    shadow: Option<Shadow>,
}

impl<'a> Merge<'a> {
    pub fn new(
        storage: &'a Storage,
        table: &'a Rc<Table>,
        job: &'a Job,
        running: &'a Running,
        keep: Keep<'a>,
        inputs: Vec<Rc<Sstable>>,
    ) -> Self {
        let mut stats = EncodingStats::NONE;
        inputs.iter().for_each(|input| stats.merge(&input.encoding_stats()));
        let def = table.def();
        let now_s = (reactor::wall_us() / 1_000_000) as u32;
        Self {
            storage,
            table,
            job,
            running,
            keep,
            others: (job.kind == Kind::GarbageCollection).then(|| {
                let is_input = |s: &&Rc<Sstable>| job.inputs.binary_search(&s.generation).is_ok();
                table.sstables.borrow().iter().filter(|s| !is_input(s)).cloned().collect()
            }),
            unpublished: Vec::new(),
            plain: PlainRows::new(&def, stats, storage.events.thresholds().small_row_bytes()),
            stats,
            partitions: inputs.iter().map(|input| input.figures.partitions).sum(),
            bytes_in: inputs.iter().map(|input| input.stored_bytes()).sum(),
            inputs,
            run: None,
            now_s,
            gc_before_s: now_s.saturating_sub(def.options.gc_grace_seconds),
            def,
            read: 0,
            written: 0,
            paced: 0,
            temporary: 0,
            merged: Merged::default(),
        }
    }

    pub async fn run(mut self) -> Result<Merged, Error> {
        let mut output: Option<Output> = None;
        let result = self.merge(&mut output).await;
        // What was not published belongs to nobody.
        if result.is_err() || self.merged.overtaken {
            if let Some(Output { writer, generation }) = output.take() {
                drop(writer);
                crate::sstable::remove_files(&self.table.folder, generation).await?;
            }
            for output in std::mem::take(&mut self.unpublished) {
                output.remove().await?;
            }
        }
        self.give_back(u64::MAX);
        result.map(|()| self.merged)
    }

    async fn merge(&mut self, output: &mut Option<Output>) -> Result<(), Error> {
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for sstable in self.inputs.clone() {
            let fits = self.plain.fit(&sstable);
            let mut reader = Sequential::remaining(sstable).await?;
            let head = reader.next_key().await?;
            inputs.push(Input { reader, head, fits });
        }
        let mut last: Option<Token> = None;
        while let Some((token, key)) = inputs.iter().filter_map(|input| input.head.as_ref()).min().cloned() {
            if let Some(last) = last.filter(|last| *last != token)
                && output.as_ref().is_some_and(|output| output.writer.stored_bytes() >= self.job.split_bytes)
            {
                self.finish(output).await?;
                if !self.release(last).await? {
                    return Ok(());
                }
            }
            last = Some(token);
            if self.keep.is_none_or(|keep| keep(token)) {
                self.partition(&mut inputs, token, &key, output).await?;
            }
            for input in &mut inputs {
                if input.is_at(token, &key) {
                    let begin = input.reader.position();
                    input.head = input.reader.next_key().await?;
                    self.read += input.reader.position().saturating_sub(begin);
                }
            }
            // What is read to its end is let go: its files may be removed.
            inputs.retain(|input| input.head.is_some());
            if !self.breathe().await? {
                return Ok(());
            }
        }
        self.finish(output).await?;
        self.publish(None).await.map(drop)
    }

    /// Lets the others run after some work. False when the table is gone.
    async fn breathe(&mut self) -> Result<bool, Error> {
        // Where little is written, much may be read.
        let worked = self.written.max(self.read / 4);
        if worked - self.paced < YIELD_BYTES {
            if reactor::has_used_quota() {
                reactor::time::yield_now().await;
            }
            return Ok(true);
        }
        self.running.bytes_read.set(self.read);
        self.running.bytes_written.set(self.written);
        self.storage.compactions.pace(self.storage.config().compaction_mb_per_s, worked - self.paced).await;
        self.paced = worked;
        if self.running.cancelled.get() {
            return Err(Error::Cancelled);
        }
        self.merged.overtaken |= self.table.dropped.get();
        Ok(!self.merged.overtaken)
    }

    /// The partition with this key out of all the inputs that are at it, without what can go.
    async fn partition(
        &mut self,
        inputs: &mut [Input],
        token: Token,
        key: &Bytes,
        output: &mut Option<Output>,
    ) -> Result<(), Error> {
        let shadow = match &self.others {
            Some(others) => Some(Shadow::of(others, token, key, &self.def).await?),
            None => None,
        };
        let mut streamed = Streamed { token, key, deletion: None, begun: false, shadow };
        let of = inputs.iter().filter(|input| input.is_at(token, key)).count();
        *self.merged.rows_merged.entry(of as u32).or_default() += 1;
        let mut at = inputs.iter_mut().filter(|input| input.is_at(token, key));
        let whole = match at.next() {
            Some(one) if of == 1 && one.fits && streamed.shadow.is_none() => {
                self.copy(&mut one.reader, &mut streamed, output).await?
            }
            first => {
                let readers = first.into_iter().chain(at).map(|input| &mut input.reader);
                self.combine(readers, &mut streamed, output).await?
            }
        };
        if let Some(output) = output.as_mut().filter(|_| streamed.begun && whole) {
            output.writer.end().await?;
        }
        Ok(())
    }

    /// A partition that one input alone has: plain rows are copied. False when the table is gone.
    async fn copy(
        &mut self,
        reader: &mut Sequential,
        streamed: &mut Streamed<'_>,
        output: &mut Option<Output>,
    ) -> Result<bool, Error> {
        self.plain.clear();
        let begin = reader.position();
        if reader.take_plain(PART_ROWS, &mut self.plain) {
            self.read += reader.position() - begin;
            self.write_plain(streamed, output).await?;
            return Ok(true);
        }
        loop {
            let begin = reader.position();
            self.plain.clear();
            let Some(part) = reader.next_plain(PART_ROWS, &mut self.plain).await? else { return Ok(true) };
            self.read += reader.position().saturating_sub(begin);
            self.write_plain(streamed, output).await?;
            self.part(streamed, part.partition, output).await?;
            if part.more_after.is_none() {
                return Ok(true);
            }
            if !self.breathe().await? {
                return Ok(false);
            }
        }
    }

    async fn write_plain(&mut self, streamed: &mut Streamed<'_>, output: &mut Option<Output>) -> Result<(), Error> {
        if self.plain.is_empty() {
            return Ok(());
        }
        let before = data_bytes(output);
        self.begin(streamed, None, None, output).await?;
        if let Some(Output { writer, .. }) = output {
            writer.plain(&self.plain).await?;
        }
        self.written += data_bytes(output) - before;
        Ok(())
    }

    /// Some rows of each input at a time, merged as far as all of them have been read. False when the table is gone.
    async fn combine(
        &mut self,
        readers: impl Iterator<Item = &mut Sequential>,
        streamed: &mut Streamed<'_>,
        output: &mut Option<Output>,
    ) -> Result<bool, Error> {
        // Each with where its last part ended; `None` before the first.
        let mut readers: Vec<(&mut Sequential, Option<Clustering>)> = readers.map(|reader| (reader, None)).collect();
        let mut upto: Option<Clustering> = None;
        // What is not written yet.
        let mut pending = Partition::new(streamed.key.clone());
        let def = self.def.clone();
        loop {
            let mut unfinished = Vec::with_capacity(readers.len());
            for (reader, ended) in readers {
                if ended != upto {
                    unfinished.push((reader, ended));
                    continue;
                }
                let begin = reader.position();
                let Some(part) = reader.next_part(PART_ROWS).await? else { continue };
                self.read += reader.position().saturating_sub(begin);
                pending.merge(part.partition, &def);
                if part.more_after.is_some() {
                    unfinished.push((reader, part.more_after));
                }
            }
            readers = unfinished;
            // All inputs are known up to the nearest end.
            upto = readers
                .iter()
                .filter_map(|(_, ended)| ended.clone())
                .reduce(|a, b| if a.compare(&b, &def).is_le() { a } else { b });
            let rest = upto.as_ref().map(|upto| pending.split_behind(upto, &def));
            let part = std::mem::replace(&mut pending, rest.unwrap_or_default());
            self.part(streamed, part, output).await?;
            if readers.is_empty() {
                return Ok(true);
            }
            if !self.breathe().await? {
                return Ok(false);
            }
        }
    }

    /// Writes what has to stay of a part.
    async fn part(
        &mut self,
        streamed: &mut Streamed<'_>,
        mut part: Partition,
        output: &mut Option<Output>,
    ) -> Result<(), Error> {
        streamed.deletion = DeletionTime::latest(streamed.deletion, part.deletion);
        part.deletion = streamed.deletion;
        if let Some(shadow) = &streamed.shadow {
            shadow.cast(&mut part, &self.def);
        }
        part.purge_shadowed(&self.def);
        if part.has_tombstones(self.now_s) {
            let below = self.purgeable_below(streamed.token, streamed.key);
            part.purge_tombstones(self.now_s, self.gc_before_s, below);
        }
        if streamed.begun {
            part.deletion = None;
        }
        if part.is_empty() {
            return Ok(());
        }
        let before = data_bytes(output);
        self.begin(streamed, part.deletion, part.static_row.as_ref(), output).await?;
        if let Some(Output { writer, .. }) = output {
            writer.part(&part.rows, &part.range_tombstones).await?;
        }
        self.written += data_bytes(output) - before;
        Ok(())
    }

    /// Begins the partition in the output, unless it has begun.
    async fn begin(
        &mut self,
        streamed: &mut Streamed<'_>,
        deletion: Option<DeletionTime>,
        static_row: Option<&Row>,
        output: &mut Option<Output>,
    ) -> Result<(), Error> {
        if output.is_none() {
            *output = Some(self.create().await?);
        }
        if let Some(Output { writer, .. }) = output
            && !std::mem::replace(&mut streamed.begun, true)
        {
            writer.begin(streamed.token, streamed.key, deletion, static_row).await?;
        }
        Ok(())
    }

    /// The least timestamp of anything with this key outside of the compaction: a tombstone at or above it may still be
    /// needed. Memtables count whole, as they know only one least timestamp.
    fn purgeable_below(&self, token: Token, key: &[u8]) -> i64 {
        if !self.table.quarantine.unreadable().is_empty() {
            return i64::MIN; // what is in there may still need the tombstone
        }
        let hash = KeyHash::of(key);
        let mut below = i64::MAX;
        for sstable in self.table.sstables.borrow().iter() {
            let is_input = self.inputs.iter().any(|input| input.generation == sstable.generation);
            if !is_input && sstable.may_contain(token, hash) {
                below = below.min(sstable.figures.min_timestamp);
            }
        }
        for memtable in self.table.memtables() {
            let memtable = memtable.borrow();
            if memtable.get(token, key).is_some() {
                below = below.min(memtable.min_timestamp());
            }
        }
        below
    }

    async fn create(&mut self) -> Result<Output, Error> {
        let generation = self.table.take_generation(self.storage.config());
        self.run.get_or_insert(generation);
        // The filter is made for as many keys as an output will have.
        let share = if self.job.split_bytes < self.bytes_in {
            self.partitions as f64 * self.job.split_bytes as f64 / self.bytes_in as f64 * 1.1
        } else {
            self.partitions as f64
        };
        let keys = (share as u64).clamp(1, self.partitions.max(1));
        let writer = Writer::create(&self.table.folder, generation, self.def.clone(), self.stats, keys).await?;
        let writer = writer.level(self.job.level).column_index_bytes(self.storage.config().column_index_bytes);
        let writer = writer.watched_by(self.storage.events.watch());
        Ok(Output { writer, generation })
    }

    /// Makes the current output durable.
    async fn finish(&mut self, output: &mut Option<Output>) -> Result<(), Error> {
        let Some(Output { writer, generation }) = output.take() else { return Ok(()) };
        let bytes = writer.finish().await?;
        let sstable = Sstable::open(&self.table.folder, generation, self.def.clone(), self.storage.cache()).await?;
        let standing = Standing {
            level: self.job.level,
            run: self.run.unwrap_or(generation),
            made_s: (reactor::wall_us() / 1_000_000) as u32,
            from: None,
        };
        self.unpublished.push(sstable.standing(standing));
        self.storage.compactions.add_temporary(bytes);
        self.temporary += bytes;
        self.merged.outputs.push(generation);
        self.merged.bytes_out += bytes;
        Ok(())
    }

    /// Gives back the inputs that end at or before `last`, up to where everything is in the outputs. False when the
    /// inputs were taken away.
    async fn release(&mut self, last: Token) -> Result<bool, Error> {
        if last == Token::MAX || self.inputs.iter().all(|input| input.last > last) {
            return Ok(true);
        }
        self.publish(Some(last)).await
    }

    /// That much is on disk once again only.
    fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.temporary);
        self.temporary -= bytes;
        self.storage.compactions.sub_temporary(bytes);
    }

    /// Puts the outputs in the place of what the inputs have up to `last`, or of all that they have.
    async fn publish(&mut self, last: Option<Token>) -> Result<bool, Error> {
        let is_done = |input: &Rc<Sstable>| last.is_none_or(|last| input.last <= last);
        let rest: Vec<Rc<Sstable>> = self.inputs.iter().filter(|input| !is_done(input)).cloned().collect();
        let rest: Vec<Rc<Sstable>> = rest
            .into_iter()
            .map(|input| match last {
                Some(last) if input.first <= last => {
                    input.standing(Standing { from: Some(Token(last.0 + 1)), ..input.standing })
                }
                _ => input,
            })
            .collect();
        let inputs = std::mem::take(&mut self.inputs);
        let (outputs, table) = (&self.unpublished, self.table);
        let published = table.publish(self.storage.config(), |now| {
            let is_input = |sstable: &Rc<Sstable>| inputs.iter().any(|input| Rc::ptr_eq(input, sstable));
            // All inputs must still be there: a truncation, say, has taken them away.
            let whole = now.iter().filter(|sstable| is_input(sstable)).count() == inputs.len();
            whole.then(|| {
                let others = now.iter().filter(|sstable| !is_input(sstable)).cloned();
                (others.chain(outputs.iter().cloned()).chain(rest.iter().cloned()).collect(), table.flushed_upto.get())
            })
        });
        if !published.await? {
            self.merged.overtaken = true;
            return Ok(false);
        }
        add(&self.table.counts.compaction_steps, 1);
        self.unpublished.clear();
        let done: Vec<Rc<Sstable>> = inputs.into_iter().filter(is_done).collect();
        for input in &done {
            self.table.compacting.borrow_mut().remove(&input.generation);
        }
        self.inputs = rest;
        for input in done {
            self.give_back(input.disk_bytes);
            input.remove().await?;
        }
        Ok(true)
    }
}
