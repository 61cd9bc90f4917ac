//! Change data capture, as ScyllaDB's: the options of a table, and the log table that goes with it.
//!
//! A table with `cdc = {'enabled': true}` has a log, `NAME_scylla_cdc_log`, with the table's columns and what says what
//! happened to them. The log is an ordinary table whose columns follow the base's; without CDC it stays, and is taken
//! up again. [`crate::cdc`] writes it.

use std::collections::BTreeMap;

use cql::ast::TableChange;
use types::{ColumnDef, CqlType, DroppedColumn, TableDef, TableId};

use super::{Ddl, Decision, MASK_ALL, alter, options};
use crate::error::{QueryError, invalid};
use crate::schema::{Schema, Target, describe};

pub(super) const SUFFIX: &str = "_scylla_cdc_log";
pub(crate) const STREAM_ID: &str = "cdc$stream_id";
pub(crate) const TIME: &str = "cdc$time";
pub(crate) const SEQUENCE: &str = "cdc$batch_seq_no";
pub(crate) const OPERATION: &str = "cdc$operation";
pub(crate) const TTL: &str = "cdc$ttl";
pub(crate) const END_OF_BATCH: &str = "cdc$end_of_batch";
const DELETED: &str = "cdc$deleted_";
const DELETED_ELEMENTS: &str = "cdc$deleted_elements_";

/// Of the log's rows, in seconds, if the statement says none: a day, as ScyllaDB's.
const TTL_DEFAULT_S: &str = "86400";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preimage {
    None,
    /// Of the columns that change.
    Changed,
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    pub preimage: Preimage,
    pub postimage: bool,
    /// Of what was written the key alone.
    pub keys_only: bool,
    /// 0: rows of the log never expire.
    pub ttl_s: u32,
}

impl Capture {
    /// What is captured of a table now.
    pub fn of(table: &TableDef) -> Option<Capture> {
        let option = |name: &str| table.options.cdc.get(name).map_or("", String::as_str);
        let preimage = match option("preimage") {
            "true" => Preimage::Changed,
            "full" => Preimage::Full,
            _ => Preimage::None,
        };
        let (postimage, keys_only) = (option("postimage") == "true", option("delta") == "keys");
        let ttl_s = option("ttl").parse().unwrap_or(0);
        (option("enabled") == "true").then_some(Capture { preimage, postimage, keys_only, ttl_s })
    }
}

/// Checks the options, and adds what was left out.
pub(super) fn read_options(given: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, QueryError> {
    let defaults = [
        ("enabled", "false"),
        ("preimage", "false"),
        ("postimage", "false"),
        ("delta", "full"),
        ("ttl", TTL_DEFAULT_S),
    ];
    let mut all: BTreeMap<String, String> =
        defaults.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    for (name, value) in given {
        let value = value.to_ascii_lowercase();
        let flag = |value: &str| match value {
            "true" | "1" => Some("true"),
            "false" | "0" => Some("false"),
            _ => None,
        };
        let read = match name.as_str() {
            "enabled" | "postimage" => flag(&value),
            "preimage" => flag(&value).or((value == "full").then_some("full")),
            "delta" => ["full", "keys"].into_iter().find(|known| *known == value),
            "ttl" => value.parse::<i32>().ok().filter(|ttl| *ttl >= 0).map(|_| value.as_str()),
            _ => return Err(QueryError::config(format!("Invalid CDC option: {name}"))),
        };
        let Some(read) = read else {
            return Err(QueryError::config(format!("Invalid value for CDC option \"{name}\": {value}")));
        };
        all.insert(name, read.to_string());
    }
    Ok(all)
}

pub(crate) fn log_name(table: &str) -> String {
    format!("{table}{SUFFIX}")
}

/// The name of the table that a log is of; `None` when the table is no log.
pub(crate) fn base_name(table: &TableDef) -> Option<&str> {
    let is_log = table.partition_key.first().is_some_and(|column| column.name == STREAM_ID);
    table.name.strip_suffix(SUFFIX).filter(|_| is_log)
}

/// What tells that a column was deleted.
pub(crate) fn deleted(column: &str) -> String {
    format!("{DELETED}{column}")
}

/// What tells which elements of a collection were deleted.
pub(crate) fn deleted_elements(column: &str) -> String {
    format!("{DELETED_ELEMENTS}{column}")
}

/// A value in the log is of one cell; a list has the times of its elements with it.
pub(crate) fn logged_type(ty: &CqlType) -> CqlType {
    match ty {
        CqlType::List(element) => CqlType::map(CqlType::TimeUuid, (**element).clone()).frozen(),
        CqlType::Counter => CqlType::BigInt,
        ty if ty.is_multi_cell() => ty.clone().frozen(),
        ty => ty.clone(),
    }
}

/// The type of what names an element.
fn element_name(ty: &CqlType) -> Option<CqlType> {
    Some(match ty {
        CqlType::List(_) => CqlType::TimeUuid,
        CqlType::Set(element) => (**element).clone(),
        CqlType::Map(key, _) => (**key).clone(),
        CqlType::Udt(_) => CqlType::SmallInt,
        _ => return None,
    })
}

/// The log's regular columns.
fn columns(base: &TableDef) -> Vec<(String, CqlType)> {
    let mut all = vec![
        (OPERATION.to_string(), CqlType::TinyInt),
        (TTL.to_string(), CqlType::BigInt),
        (END_OF_BATCH.to_string(), CqlType::Boolean),
    ];
    for column in base.columns() {
        all.push((column.name.clone(), logged_type(&column.ty)));
        if !column.is_primary_key() {
            all.push((deleted(&column.name), CqlType::Boolean));
            if let Some(name) = element_name(&column.ty).filter(|_| column.ty.is_multi_cell()) {
                all.push((deleted_elements(&column.name), CqlType::set(name).frozen()));
            }
        }
    }
    all
}

/// What of the log is as secret as its base's columns: it is shown to those alone who may unmask it.
fn masks(base: &TableDef, log: &TableDef) -> BTreeMap<String, String> {
    let names = base.masks.keys().flat_map(|name| [name.clone(), deleted_elements(name)]);
    names.filter(|name| log.column(name).is_some()).map(|name| (name, MASK_ALL.to_string())).collect()
}

/// A new log.
pub(crate) fn log(base: &TableDef, now_us: i64) -> TableDef {
    let name = log_name(&base.name);
    let mut builder = TableDef::builder(&base.keyspace, &name)
        .partition_key(STREAM_ID, CqlType::Blob)
        .clustering(TIME, CqlType::TimeUuid)
        .clustering(SEQUENCE, CqlType::Int);
    for (name, ty) in columns(base) {
        builder = builder.regular(&name, ty);
    }
    let mut def = builder.build();
    def.masks = masks(base, &def);
    def.options = options::new_table_options();
    def.options.comment = format!("CDC log for {}.{}", base.keyspace, base.name);
    let window = [("class", "TimeWindowCompactionStrategy"), ("compaction_window_unit", "MINUTES")];
    let window = window.into_iter().chain([("compaction_window_size", "60")]);
    def.options.compaction = window.map(|(name, value)| (name.to_string(), value.to_string())).collect();
    // Nothing in it is ever deleted but by its time.
    def.options.gc_grace_seconds = 0;
    def.id = TableId::from_creation(&base.keyspace, &name, now_us as u64);
    def
}

/// The log with the columns that its base has now.
fn followed(known: &TableDef, base: &TableDef, now_us: i64) -> TableDef {
    let mut log = known.clone();
    let wanted = columns(base);
    let gone = |column: &ColumnDef| !wanted.iter().any(|(name, ty)| *name == column.name && *ty == column.ty);
    let (dropped, mut kept): (Vec<ColumnDef>, Vec<ColumnDef>) = log.regulars.into_iter().partition(gone);
    for column in dropped {
        let dropped = DroppedColumn { ty: column.ty.to_string(), is_static: false, dropped_us: now_us };
        log.dropped.insert(column.name, dropped);
    }
    for (name, ty) in wanted {
        if !kept.iter().any(|column| column.name == name) {
            kept.push(ColumnDef { name, ty, kind: types::ColumnKind::Regular, descending: false });
        }
    }
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    log.regulars = kept;
    log.masks = masks(base, &log);
    log
}

/// Refuses statements on a log that its base stands in the way of.
pub(super) fn check(ddl: &Ddl, schema: &Schema) -> Result<(), QueryError> {
    let (Ddl::AlterTable { keyspace, name, .. } | Ddl::DropTable { keyspace, name, .. }) = ddl else { return Ok(()) };
    let Some(log) = schema.table(keyspace, name) else { return Ok(()) };
    let Some(base) = base_name(log) else { return Ok(()) };
    let is_active = schema.table(keyspace, base).is_some_and(|base| Capture::of(base).is_some());
    match ddl {
        Ddl::DropTable { .. } if is_active => Err(invalid!(
            "Cannot drop log table {keyspace}.{name} because CDC is enabled on {keyspace}.{base}: disable it first"
        )),
        Ddl::AlterTable { change: TableChange::Properties(_), .. } | Ddl::DropTable { .. } => Ok(()),
        Ddl::AlterTable { change: TableChange::Rename { .. }, .. } if is_active => {
            Err(invalid!("Cannot rename a column of a CDC log table."))
        }
        Ddl::AlterTable { change: TableChange::Rename { .. }, .. } => Err(invalid!(
            "You cannot rename a column of a CDC log table. Although the base table has deactivated CDC, this table will \
             continue being a CDC log table until it is dropped."
        )),
        _ if is_active => Err(invalid!(
            "You cannot modify the set of columns of a CDC log table directly. Modify the base table instead."
        )),
        _ => Err(invalid!(
            "You cannot modify the set of columns of a CDC log table directly. Although the base table has deactivated \
             CDC, this table will continue being a CDC log table until it is dropped. If you want to modify the columns in \
             it, you can only do that by reenabling CDC on the base table, which will reattach this log table. Then you \
             will be able to modify the columns in the base table, and that will have effect on the log table too. \
             Modifying the columns of a CDC log table directly is never allowed."
        )),
    }
}

/// Adds what becomes of the log of a table.
pub(super) fn follow(ddl: &Ddl, schema: &Schema, now_us: i64, decision: &mut Decision) -> Result<(), QueryError> {
    let base = match ddl {
        Ddl::CreateTable { def, .. } => def.clone(),
        Ddl::AlterTable { keyspace, name, change, .. } => match schema.table(keyspace, name) {
            Some(known) => alter::alter(known, change, now_us)?,
            None => return Ok(()),
        },
        Ddl::DropTable { keyspace, name, .. } => {
            let log = schema.table(keyspace, &log_name(name));
            if let Some(log) = log.filter(|log| base_name(log).is_some()) {
                decision.entries.push((Target::Table(keyspace.clone(), log.name.clone()), None));
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    if Capture::of(&base).is_none() {
        return Ok(());
    }
    if base.is_counter() {
        return Err(invalid!("Cannot enable CDC on {}.{}: it is a counter table", base.keyspace, base.name));
    }
    let reserved = base.columns().find(|column| column.name.starts_with("cdc$"));
    if let Some(column) = reserved {
        return Err(invalid!("Cannot enable CDC on a table with a column named {}", column.name));
    }
    let name = log_name(&base.name);
    let log = match schema.table(&base.keyspace, &name) {
        None => log(&base, now_us),
        Some(known) if base_name(known).is_none() => {
            return Err(invalid!(
                "Cannot create CDC log table for table {}.{}: {}.{name} already exists",
                base.keyspace,
                base.name,
                base.keyspace
            ));
        }
        Some(known) => match followed(known, &base, now_us) {
            same if same == **known => return Ok(()),
            changed => changed,
        },
    };
    let target = Target::Table(base.keyspace.clone(), name);
    decision.entries.push((target, Some(describe::table_with_id(&log))));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::read_table;
    use super::*;

    fn table(columns: &str, with: &str) -> TableDef {
        read_table(&format!("CREATE TABLE ks.t ({columns}) WITH {with}"), &Default::default()).unwrap()
    }

    #[test]
    fn options_are_checked_and_completed() {
        let def = table("p int PRIMARY KEY", "cdc = {'enabled': true, 'preimage': 'full', 'ttl': 5}");
        let expected = Capture { preimage: Preimage::Full, postimage: false, keys_only: false, ttl_s: 5 };
        assert_eq!(Capture::of(&def), Some(expected));
        let again = read_table(&describe::table(&def), &Default::default()).unwrap();
        assert_eq!(again.options, def.options);
        assert_eq!(Capture::of(&table("p int PRIMARY KEY", "cdc = {'enabled': false}")), None);
        for (name, value) in [("x", "true"), ("enabled", "maybe"), ("delta", "none"), ("ttl", "-1")] {
            let given = BTreeMap::from([(name.to_string(), value.to_string())]);
            assert!(read_options(given).is_err(), "{name} = {value}");
        }
    }

    #[test]
    fn the_log_has_what_happens_to_every_column() {
        let base = table("p int, c int, s int static, l list<int>, m map<text, int>, PRIMARY KEY (p, c)", "cdc = {}");
        let log = log(&base, 7);
        let text = describe::table_with_id(&log);
        assert_eq!(read_table(&text, &Default::default()).unwrap(), log);
        assert_eq!(base_name(&log), Some("t"));
        let ty = |name: &str| log.column(name).map(|column| column.ty.to_string()).unwrap_or_default();
        assert_eq!(ty("l"), "frozen<map<timeuuid, int>>");
        assert_eq!(ty("cdc$deleted_elements_m"), "frozen<set<text>>");
        assert_eq!((ty("cdc$deleted_s").as_str(), ty("cdc$deleted_c").as_str()), ("boolean", ""));
        // A column goes, another comes.
        let base = table("p int, c int, s int static, n int, m map<text, int>, PRIMARY KEY (p, c)", "cdc = {}");
        let followed = followed(&log, &base, 9);
        assert!(followed.column("cdc$deleted_l").is_none() && followed.dropped.contains_key("l"));
        assert!(followed.column("cdc$deleted_n").is_some());
        assert_eq!(followed.id, log.id);
    }
}
