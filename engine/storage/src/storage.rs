//! One shard's storage.
//!
//! Under construction: everything lives in one sorted map until the commit log and the memtable land.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use types::{TableDef, TableId, Token};

use crate::data::{MutationHead, check_partition};
use crate::{Bytes, Config, Error, Partition, ReadCommand, ScanCommand, Stats};

/// One shard's tables on one shard's disks.
pub struct Storage {
    tables: RefCell<BTreeMap<TableId, Table>>,
}

struct Table {
    def: Arc<TableDef>,
    partitions: BTreeMap<(Token, Bytes), Partition>,
}

impl Storage {
    /// Opens or creates the folders, removes leftovers of a crash, replays the commit log.
    pub async fn open(config: Config, tables: Vec<Arc<TableDef>>) -> Result<Rc<Storage>, Error> {
        drop(config);
        let storage = Rc::new(Storage { tables: RefCell::new(BTreeMap::new()) });
        for table in tables {
            storage.add_table(table).await?;
        }
        Ok(storage)
    }

    /// Makes a table known, with its folder. Known already: nothing happens.
    pub async fn add_table(&self, def: Arc<TableDef>) -> Result<(), Error> {
        self.tables.borrow_mut().entry(def.id).or_insert_with(|| Table { def, partitions: BTreeMap::new() });
        Ok(())
    }

    /// A new version of a table's definition.
    pub async fn update_table(&self, def: Arc<TableDef>) -> Result<(), Error> {
        match self.tables.borrow_mut().get_mut(&def.id) {
            Some(table) => table.def = def,
            None => return Err(Error::UnknownTable(def.id)),
        }
        Ok(())
    }

    /// Removes a table and its files.
    pub async fn drop_table(&self, id: TableId) -> Result<(), Error> {
        self.tables.borrow_mut().remove(&id);
        Ok(())
    }

    /// Removes all of a table's data.
    pub async fn truncate(&self, id: TableId) -> Result<(), Error> {
        let mut tables = self.tables.borrow_mut();
        tables.get_mut(&id).ok_or(Error::UnknownTable(id))?.partitions.clear();
        Ok(())
    }

    /// Applies an encoded [`crate::Mutation`]; resolves when it is as durable as the sync mode promises.
    pub async fn apply(&self, mutation: &[u8]) -> Result<(), Error> {
        let head = MutationHead::read(mutation)?;
        let mut tables = self.tables.borrow_mut();
        let table = tables.get_mut(&head.table).ok_or(Error::UnknownTable(head.table))?;
        check_partition(head.partition, &table.def)?;
        let partition = Partition::decode(head.partition)?;
        let key = (Token::of_key(&partition.key), partition.key.clone());
        let Table { def, partitions } = table;
        partitions.entry(key).or_insert_with_key(|(_, key)| Partition::new(key.clone())).merge(partition, def);
        Ok(())
    }

    /// The wanted part of a partition, with the tombstones that matter for reconciliation between replicas; `None`
    /// when there is nothing at all. What deletions shadow is gone already.
    pub async fn read(&self, command: ReadCommand) -> Result<Option<Partition>, Error> {
        let tables = self.tables.borrow();
        let table = tables.get(&command.table).ok_or(Error::UnknownTable(command.table))?;
        let key = (Token::of_key(&command.key), command.key);
        let Some(mut partition) = table.partitions.get(&key).cloned() else { return Ok(None) };
        partition.purge_shadowed(&table.def);
        partition.restrict(&command.slices, command.reverse, command.limit_rows, command.now_s, &table.def);
        Ok(Some(partition).filter(|partition| !partition.is_empty()))
    }

    /// Partitions in token order, and whether there may be more behind them.
    pub async fn scan(&self, command: ScanCommand) -> Result<(Vec<Partition>, bool), Error> {
        let tables = self.tables.borrow();
        let table = tables.get(&command.table).ok_or(Error::UnknownTable(command.table))?;
        let mut answer = Vec::new();
        let mut left = command.limit_rows;
        let after = command.after.map(|(key, row)| ((Token::of_key(&key), key), row));
        for (key, partition) in &table.partitions {
            let (start, end) = command.tokens;
            let inside = if start < end { start < key.0 && key.0 <= end } else { start < key.0 || key.0 <= end };
            if !(inside || end == Token(i64::MIN)) {
                continue;
            }
            let mut partition = partition.clone();
            partition.purge_shadowed(&table.def);
            let mut slices = command.slices.clone();
            if let Some((last, row)) = &after {
                if key < last || (key == last && row.is_none()) {
                    continue;
                }
                if let (true, Some(row)) = (key == last, row) {
                    slices = crate::data::behind(&slices, row, &table.def);
                }
            }
            if left == 0 {
                return Ok((answer, true));
            }
            partition.restrict(&slices, false, left, command.now_s, &table.def);
            let live = partition.live_rows(command.now_s).count();
            left -= live.max(usize::from(partition.has_live_static(command.now_s))).min(left);
            if !partition.is_empty() {
                answer.push(partition);
            }
        }
        Ok((answer, false))
    }

    /// Writes memtables to SSTables: one table's, or all.
    pub async fn flush(&self, table: Option<TableId>) -> Result<(), Error> {
        match table {
            Some(id) if !self.tables.borrow().contains_key(&id) => Err(Error::UnknownTable(id)),
            _ => Ok(()),
        }
    }

    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Flushes nothing, syncs the commit log and ends the shard's storage tasks.
    pub async fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}
