//! Change data capture: what a write changes, as rows of the table's log.
//!
//! The coordinator writes the log before the table, at the write's own level, so that no change goes unlogged; one that
//! fails afterwards may be logged though nobody sees it. The rows of one write to one partition share `cdc$time`, which
//! is the write's own, and are numbered in it. A stream is a range of the ring: all changes of a partition are in one.
//!
//! Columns, operations and their numbers are those of ScyllaDB's documentation of CDC.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cql::Consistency;
use storage::{Bytes, Cell, Clustering, ComplexColumn, Mutation, Partition, ReadCommand, Row, Slice, Stamp};
use types::{ColumnDef, TableDef, Token, collection, partition_key_components, uuid};

use crate::ddl::cdc::{
    Capture, END_OF_BATCH, OPERATION, Preimage, TTL, deleted, deleted_elements, log_name, logged_type,
};
use crate::error::{QueryError, server};
use crate::node::Node;
use crate::schema::Schema;

/// `cdc$operation`.
mod operation {
    pub const PREIMAGE: i8 = 0;
    pub const UPDATE: i8 = 1;
    pub const INSERT: i8 = 2;
    pub const DELETE_ROW: i8 = 3;
    pub const DELETE_PARTITION: i8 = 4;
    /// A range that is deleted: exclusive bounds are one more.
    pub const RANGE_START: i8 = 5;
    pub const RANGE_END: i8 = 7;
    pub const POSTIMAGE: i8 = 9;
}

/// The log of a table, and what goes there.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub table: Arc<TableDef>,
    pub capture: Capture,
}

impl Log {
    /// `None` when nothing is captured.
    pub fn of(table: &TableDef, schema: &Schema) -> Option<Box<Log>> {
        let capture = Capture::of(table)?;
        let log = schema.table(&table.keyspace, &log_name(&table.name))?.clone();
        Some(Box::new(Log { table: log, capture }))
    }

    fn wants_images(&self) -> bool {
        self.capture.preimage != Preimage::None || self.capture.postimage
    }
}

/// Values of a row of the log, by column.
type Values = BTreeMap<String, Vec<u8>>;

/// The streams of a ring: its ranges, by their last tokens.
pub(crate) fn streams(ring: impl Iterator<Item = Token>) -> impl Iterator<Item = (Token, [u8; 16])> {
    /// As ScyllaDB marks its stream ids.
    const VERSION: u64 = 1;
    ring.enumerate().map(|(at, end)| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&end.0.to_be_bytes());
        id[8..].copy_from_slice(&((at as u64) << 4 | VERSION).to_be_bytes());
        (end, id)
    })
}

/// The value of a column in a row, as the log has it.
fn value(row: &Row, index: u16, column: &ColumnDef, now_s: u32) -> Option<Vec<u8>> {
    if let Some(complex) = row.complex_column(index) {
        let live = complex.live_cells(now_s);
        let parts = live.map(|(path, cell)| (path, cell.value.as_deref().unwrap_or_default()));
        return logged_type(&column.ty).unfrozen().assemble(parts);
    }
    let cell = row.cell(index).filter(|cell| cell.is_live(now_s))?;
    cell.value.as_deref().map(<[u8]>::to_vec)
}

/// The rows of the log for one partition.
struct Writer<'a> {
    base: &'a TableDef,
    log: &'a Log,
    key: Vec<&'a [u8]>,
    time: [u8; 16],
    stamp: Stamp,
    rows: Vec<Row>,
}

impl Writer<'_> {
    fn push(&mut self, operation: i8, clustering: Option<&Clustering>, values: Values) {
        let log = &self.log.table;
        let sequence = (self.rows.len() as i32).to_be_bytes();
        let mut row = Row::new(Clustering::new([&self.time[..], &sequence]));
        row.marker = Some(match self.stamp.ttl_s {
            0 => storage::Liveness::live(self.stamp.timestamp),
            ttl => storage::Liveness::expiring(self.stamp.timestamp, ttl, self.stamp.now_s),
        });
        let of_key = self.base.partition_key.iter().zip(self.key.iter().copied());
        let of_row =
            clustering.into_iter().flat_map(|clustering| self.base.clustering.iter().zip(clustering.components()));
        let mut set = |name: &str, value: &[u8]| {
            if let Some(at) = log.regular_index(name) {
                row.cells.push((at as u16, self.stamp.cell(value)));
            }
        };
        of_key.chain(of_row).for_each(|(column, value)| set(&column.name, value));
        values.iter().for_each(|(name, value)| set(name, value));
        set(OPERATION, &operation.to_be_bytes());
        row.cells.sort_by_key(|(column, _)| *column);
        self.rows.push(row);
    }

    fn columns(&self, row: &Row) -> &[ColumnDef] {
        match row.clustering.as_bytes().is_empty() && !self.base.clustering.is_empty() {
            true => &self.base.statics,
            false => &self.base.regulars,
        }
    }

    /// What is written to a row.
    fn delta(&self, row: &Row) -> Values {
        let mut values = Values::new();
        if self.log.capture.keys_only {
            return values;
        }
        let columns = self.columns(row);
        let yes = || vec![1];
        let mut ttl_s = row.marker.map_or(0, |marker| marker.ttl_s);
        for (index, cell) in &row.cells {
            let Some(column) = columns.get(usize::from(*index)) else { continue };
            ttl_s = ttl_s.max(cell.ttl_s);
            match &cell.value {
                Some(value) => values.insert(column.name.clone(), value.to_vec()),
                None => values.insert(deleted(&column.name), yes()),
            };
        }
        for complex in row.complex.iter() {
            let Some(column) = columns.get(usize::from(complex.column)) else { continue };
            if complex.deletion.is_some() {
                values.insert(deleted(&column.name), yes());
            }
            let (mut added, mut removed): (Vec<(&[u8], &[u8])>, Vec<&[u8]>) = Default::default();
            for (path, cell) in &complex.cells {
                ttl_s = ttl_s.max(cell.ttl_s);
                match &cell.value {
                    Some(value) => added.push((path, value)),
                    None => removed.push(path),
                }
            }
            if !added.is_empty() {
                let value = logged_type(&column.ty).unfrozen().assemble(added.into_iter());
                values.extend(value.map(|value| (column.name.clone(), value)));
            }
            if !removed.is_empty() {
                let names = collection::write_collection(removed.len(), removed);
                values.insert(deleted_elements(&column.name), names);
            }
        }
        if ttl_s > 0 {
            values.insert(TTL.to_string(), i64::from(ttl_s).to_be_bytes().to_vec());
        }
        values
    }

    /// All values of a row that is there, or those of the columns that `changed` has.
    fn image(&self, row: &Row, changed: Option<&Row>) -> Values {
        let is_shown = |index: u16| {
            changed.is_none_or(|changed| changed.cell(index).is_some() || changed.complex_column(index).is_some())
        };
        let columns = (0..).zip(self.columns(row)).filter(|(index, _)| is_shown(*index));
        let shown = columns
            .filter_map(|(index, column)| Some((column.name.clone(), value(row, index, column, self.stamp.now_s)?)));
        shown.collect()
    }

    /// A row with what was there before and what is there behind.
    fn change(&mut self, row: &Row, before: Option<&Partition>, after: Option<&Partition>) {
        let is_static = row.clustering.as_bytes().is_empty() && !self.base.clustering.is_empty();
        let clustering = (!is_static).then_some(&row.clustering);
        let now_s = self.stamp.now_s;
        let find = |partition: Option<&Partition>| -> Option<Row> {
            let partition = partition?;
            let same = match is_static {
                true => partition.static_row.as_ref(),
                false => partition.rows.iter().find(|other| other.clustering == row.clustering),
            };
            same.filter(|row| row.is_live(now_s)).cloned()
        };
        let is_deleted = row.deletion.is_some() && row.marker.is_none();
        let pre = self.log.capture.preimage;
        if pre != Preimage::None
            && let Some(was) = find(before)
        {
            let changed = (pre == Preimage::Changed && !is_deleted).then_some(row);
            let image = self.image(&was, changed);
            self.push(operation::PREIMAGE, clustering, image);
        }
        let operation = match (is_deleted, row.marker) {
            (true, _) => operation::DELETE_ROW,
            (false, Some(_)) => operation::INSERT,
            (false, None) => operation::UPDATE,
        };
        let delta = self.delta(row);
        self.push(operation, clustering, delta);
        if self.log.capture.postimage
            && let Some(is) = find(after)
        {
            let image = self.image(&is, None);
            self.push(operation::POSTIMAGE, clustering, image);
        }
    }

    fn write(&mut self, partition: &Partition, before: Option<&Partition>) {
        let after = self.log.capture.postimage.then(|| {
            let mut after = before.cloned().unwrap_or_else(|| Partition::new(partition.key.clone()));
            after.merge(partition.clone(), self.base);
            after.purge_shadowed(self.base);
            after
        });
        if partition.deletion.is_some() {
            let rows: Vec<Row> =
                before.into_iter().flat_map(|before| before.live_rows(self.stamp.now_s)).cloned().collect();
            if self.log.capture.preimage != Preimage::None {
                for row in &rows {
                    let image = self.image(row, None);
                    self.push(operation::PREIMAGE, Some(&row.clustering), image);
                }
            }
            self.push(operation::DELETE_PARTITION, None, Values::new());
        }
        for tombstone in &partition.range_tombstones {
            let bound = |first: i8, inclusive: bool| first + i8::from(!inclusive);
            let start = bound(operation::RANGE_START, tombstone.start.inclusive);
            self.push(start, Some(&tombstone.start.prefix), Values::new());
            let end = bound(operation::RANGE_END, tombstone.end.inclusive);
            self.push(end, Some(&tombstone.end.prefix), Values::new());
        }
        for row in partition.static_row.iter().chain(&partition.rows) {
            self.change(row, before, after.as_ref());
        }
        if let (Some(last), Some(at)) = (self.rows.last_mut(), self.log.table.regular_index(END_OF_BATCH)) {
            last.cells.push((at as u16, self.stamp.cell(vec![1u8])));
            last.cells.sort_by_key(|(column, _)| *column);
        }
    }
}

/// The newest timestamp in a partition of a write.
fn newest(partition: &Partition) -> i64 {
    let of_complex = |column: &ComplexColumn| {
        let cells = column.cells.iter().map(|(_, cell)| cell.timestamp);
        cells.chain(column.deletion.map(|deletion| deletion.timestamp + 1)).max()
    };
    let of_row = |row: &Row| {
        let cells = row.cells.iter().map(|(_, cell): &(u16, Cell)| cell.timestamp);
        let marker = row.marker.map(|marker| marker.timestamp);
        let deletion = row.deletion.map(|deletion| deletion.timestamp);
        cells.chain(row.complex.iter().filter_map(of_complex)).chain(marker).chain(deletion).max()
    };
    let rows = partition.static_row.iter().chain(&partition.rows).filter_map(of_row);
    let ranges = partition.range_tombstones.iter().map(|tombstone| tombstone.deletion.timestamp);
    rows.chain(ranges).chain(partition.deletion.map(|deletion| deletion.timestamp)).max().unwrap_or(0)
}

impl Node {
    /// The log's mutation for what is written to one partition; `before` is what was there, if it was read.
    pub(crate) fn logged_change(
        &self,
        base: &TableDef,
        log: &Log,
        partition: &Partition,
        before: Option<&Partition>,
    ) -> Result<(Token, Vec<u8>), QueryError> {
        let token = Token::of_key(&partition.key);
        let now_s = reactor::wall_s();
        let timestamp = newest(partition);
        let mut writer = Writer {
            base,
            log,
            key: partition_key_components(&partition.key, base.partition_key.len()).map_err(server)?,
            time: uuid::from_time(timestamp, 0, reactor::random()),
            stamp: Stamp { timestamp, ttl_s: log.capture.ttl_s, now_s },
            rows: Vec::new(),
        };
        writer.write(partition, before);
        let mut logged = Partition::new(self.stream_of(token).to_vec());
        logged.rows = writer.rows;
        let token = Token::of_key(&logged.key);
        Ok((token, Mutation::bytes(&log.table, logged)))
    }

    /// [`logged_change`](Self::logged_change) for all that a statement writes, with the images that the log wants.
    pub(crate) async fn logged_changes(
        self: &Rc<Self>,
        base: &Arc<TableDef>,
        log: &Log,
        partitions: &[Partition],
        consistency: Consistency,
    ) -> Result<Vec<(Token, Vec<u8>)>, QueryError> {
        let mut logged = Vec::with_capacity(partitions.len());
        for partition in partitions.iter().filter(|partition| !partition.is_empty()) {
            let before = match log.wants_images() {
                true => self.read_before(base, partition, consistency).await?,
                false => None,
            };
            logged.push(self.logged_change(base, log, partition, before.as_ref())?);
        }
        Ok(logged)
    }

    async fn read_before(
        self: &Rc<Self>,
        base: &Arc<TableDef>,
        partition: &Partition,
        consistency: Consistency,
    ) -> Result<Option<Partition>, QueryError> {
        let mut slices: Vec<Slice> = Vec::new();
        if !base.clustering.is_empty() && partition.deletion.is_none() {
            slices = partition.rows.iter().map(|row| Slice::prefix(row.clustering.clone())).collect();
        }
        let now_s = reactor::wall_s();
        let key: Bytes = partition.key.clone();
        let command = ReadCommand { slices, ..ReadCommand::partition(base.id, key, now_s) };
        let level = match consistency {
            Consistency::Any => Consistency::One,
            Consistency::EachQuorum => Consistency::Quorum,
            level => level,
        };
        self.read(base, Token::of_key(&partition.key), command, level, None).await
    }

    /// The stream of a token.
    fn stream_of(&self, token: Token) -> [u8; 16] {
        let ring = self.topology().starting_tokens();
        let at = ring.partition_point(|end| *end < token) % ring.len().max(1);
        let all = streams(ring.into_iter());
        all.skip(at).map(|(_, id)| id).next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use storage::{DeletionTime, Liveness};
    use types::CqlType;

    use super::*;

    struct Table {
        base: TableDef,
        log: Log,
    }

    fn table(with: &str) -> Table {
        let text = format!(
            "CREATE TABLE ks.t (p int, c int, v int, m map<text, int>, PRIMARY KEY (p, c)) WITH cdc = {{'enabled': true{with}}}"
        );
        let base = crate::ddl::read_table(&text, &Default::default()).unwrap();
        let log = Log { table: Arc::new(crate::ddl::cdc::log(&base, 1)), capture: Capture::of(&base).unwrap() };
        Table { base, log }
    }

    impl Table {
        /// Rows of the log: operation, and names with values as JSON.
        fn logged(&self, partition: &Partition, before: Option<&Partition>) -> Vec<(i8, String)> {
            let stamp = Stamp { timestamp: newest(partition), ttl_s: 0, now_s: 10 };
            let key = vec![&[0, 0, 0, 1][..]];
            let mut writer = Writer { base: &self.base, log: &self.log, key, time: [1; 16], stamp, rows: Vec::new() };
            writer.write(partition, before);
            let shown = |row: &Row| {
                let value = |name: &str| row.cell(self.log.table.regular_index(name)? as u16)?.value.clone();
                let operation = value(OPERATION).map_or(-1, |bytes| bytes[0] as i8);
                let hidden = [OPERATION, "p"];
                let all = self.log.table.regulars.iter().filter(|column| !hidden.contains(&column.name.as_str()));
                let told = all.filter_map(|column| {
                    Some(format!("{}={}", column.name, column.ty.to_json(&value(&column.name)?).ok()?))
                });
                (operation, told.collect::<Vec<_>>().join(" "))
            };
            writer.rows.iter().map(shown).collect()
        }
    }

    fn row(value: Option<i32>, timestamp: i64) -> Row {
        let mut row = Row::new(Clustering::new([2i32.to_be_bytes()]));
        let cell = match value {
            Some(value) => Cell::live(timestamp, value.to_be_bytes().to_vec()),
            None => Stamp { timestamp, ttl_s: 0, now_s: 10 }.tombstone(),
        };
        row.cells.push((1, cell));
        row
    }

    fn of_rows(rows: Vec<Row>) -> Partition {
        let mut partition = Partition::new(1i32.to_be_bytes().to_vec());
        partition.rows = rows;
        partition
    }

    #[test]
    fn writes_of_rows() {
        let table = table("");
        assert_eq!(table.base.regular_index("v"), Some(1));
        let mut inserted = row(Some(7), 5);
        inserted.marker = Some(Liveness::live(5));
        let end = "cdc$end_of_batch=true";
        assert_eq!(table.logged(&of_rows(vec![inserted]), None), [(2, format!("c=2 {end} v=7"))]);
        assert_eq!(table.logged(&of_rows(vec![row(None, 5)]), None), [(1, format!("c=2 cdc$deleted_v=true {end}"))]);
        let mut set = Row::new(Clustering::new([2i32.to_be_bytes()]));
        let map = set.complex.get_or_insert(0);
        map.cells.push((b"a".to_vec().into(), Cell::live(5, 1i32.to_be_bytes().to_vec())));
        map.cells.push((b"b".to_vec().into(), Stamp { timestamp: 5, ttl_s: 0, now_s: 10 }.tombstone()));
        let told = format!("c=2 cdc$deleted_elements_m=[\"b\"] {end} m={{\"a\": 1}}");
        assert_eq!(table.logged(&of_rows(vec![set]), None), [(1, told)]);
        let deletion = Some(DeletionTime { timestamp: 5, local_s: 10 });
        let deleted = Row { deletion, ..Row::new(Clustering::new([2i32.to_be_bytes()])) };
        assert_eq!(table.logged(&of_rows(vec![deleted]), None), [(3, format!("c=2 {end}"))]);
        let partition = Partition { deletion, ..of_rows(Vec::new()) };
        assert_eq!(table.logged(&partition, None), [(4, end.to_string())]);
    }

    #[test]
    fn images_of_before_and_behind() {
        let table = table(", 'preimage': true, 'postimage': true");
        let mut was = row(Some(7), 5);
        was.marker = Some(Liveness::live(5));
        let before = of_rows(vec![was]);
        let logged = table.logged(&of_rows(vec![row(Some(8), 6)]), Some(&before));
        let expected = [(0, "c=2 v=7"), (1, "c=2 v=8"), (9, "c=2 cdc$end_of_batch=true v=8")];
        assert_eq!(logged, expected.map(|(operation, told)| (operation, told.to_string())));
        // Of a row that was not there nothing is shown.
        let logged = table.logged(&of_rows(vec![row(Some(8), 6)]), None);
        assert_eq!(logged.iter().map(|(operation, _)| *operation).collect::<Vec<_>>(), [1, 9]);
    }

    #[test]
    fn streams_are_ranges() {
        let all: Vec<_> = streams([Token(-5), Token(9)].into_iter()).collect();
        assert_eq!(all[0].1[..8], (-5i64).to_be_bytes());
        assert_ne!(all[0].1[8..], all[1].1[8..]);
        assert_eq!(CqlType::Blob.to_json(&all[1].1).unwrap(), "\"0x00000000000000090000000000000011\"");
    }
}
