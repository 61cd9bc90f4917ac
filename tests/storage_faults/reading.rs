//! Everything that a storage answers, and whether it may.

use std::rc::Rc;
use std::sync::Arc;

use storage::{Error, ReadCommand, ScanCommand, Storage};
use types::TableDef;

use super::model::{KEYS, TABLES, View, Write, seen, view};
use super::workload::Known;

/// By table and key.
pub type Answers = Vec<Vec<Result<View, String>>>;

/// Reads every partition there may be, one by one.
pub async fn read_each(storage: &Storage, defs: &[Arc<TableDef>]) -> Answers {
    let mut answers = Answers::new();
    for def in defs {
        let mut table = Vec::new();
        for key in 0..KEYS {
            let answer = storage.read(ReadCommand::partition(def.id, &[key], 0)).await;
            table.push(answer.map(|found| found.as_ref().map(seen).unwrap_or_default()).map_err(|e| e.to_string()));
        }
        answers.push(table);
    }
    answers
}

/// Reads a table's partitions by one scan.
pub async fn scan(storage: &Storage, def: &TableDef) -> Result<Vec<(u8, View)>, Error> {
    let command = ScanCommand::all(def.id, 0);
    let (partitions, _) = storage.scan(command).await?;
    Ok(partitions.iter().map(|partition| (partition.key[0], seen(partition))).filter(|(_, v)| !v.is_empty()).collect())
}

/// What a scan says must be what single reads say.
pub async fn check_scans(storage: &Rc<Storage>, defs: &[Arc<TableDef>], answers: &Answers) -> Result<(), String> {
    for (def, table) in defs.iter().zip(answers) {
        let mut scanned = scan(storage, def).await.map_err(|error| format!("a scan: {error}"))?;
        scanned.sort_by_key(|(key, _)| *key);
        let single = (0..KEYS).zip(table).filter_map(|(key, view)| Some((key, view.clone().ok()?)));
        let single: Vec<_> = single.filter(|(_, view)| !view.is_empty()).collect();
        if scanned != single {
            return Err(format!("a scan of {} gives\n  {scanned:?}\nand single reads\n  {single:?}", def.name));
        }
    }
    Ok(())
}

/// An answer must be what was acknowledged, with any of the unanswered writes, each of them whole. Without answers
/// from `tolerated` errors: those are nothing wrong.
pub fn check(known: &Known, answers: &Answers, errors_are_fine: bool) -> Result<(), String> {
    for table in 0..TABLES {
        // A truncation is of the whole table.
        let fits = |truncated: bool| -> Result<(), String> {
            for key in 0..KEYS {
                let answer = &answers[usize::from(table)][usize::from(key)];
                let acknowledged = if truncated { &[] } else { known.acknowledged(table, key) };
                match answer {
                    Err(error) if errors_are_fine => {
                        if !error.contains('/') {
                            return Err(format!("an error that names no file: {error}"));
                        }
                    }
                    Err(error) => return Err(format!("table {table}, key {key}: {error}")),
                    Ok(found) => check_one(acknowledged, &known.open_writes(table, key), found)
                        .map_err(|what| format!("table {table}, key {key}: {what}"))?,
                }
            }
            Ok(())
        };
        let result = fits(false);
        if result.is_err() && known.may_be_truncated(table) {
            fits(true)?;
        } else {
            result?;
        }
    }
    Ok(())
}

fn check_one(acknowledged: &[Write], open: &[&Write], found: &View) -> Result<(), String> {
    assert!(open.len() < 16, "too many open ends to try them all");
    for some in 0..1u32 << open.len() {
        let taken = open.iter().enumerate().filter(|(at, _)| some & 1 << at != 0).map(|(_, write)| *write);
        if view(acknowledged.iter().chain(taken)) == *found {
            return Ok(());
        }
    }
    let expect = view(acknowledged.iter());
    Err(format!(
        "read\n  {found:?}\nexpected\n  {expect:?}\nwith any of {} unanswered writes\n  {open:?}\nacknowledged\n  {acknowledged:?}",
        open.len()
    ))
}
