//! `WITH name = value` of keyspaces and tables. Unknown names are refused; known ones without effect are kept.

use std::collections::BTreeMap;

use cql::ast::{Properties, PropertyValue};
use types::{KeyspaceDef, Replication, TableId, TableOptions};

use super::cdc;
use crate::error::QueryError;
use crate::guardrails::large;

/// Options that are stored as they are written; most change nothing yet.
const KEPT: &[&str] = &[
    "additional_write_policy",
    "cdc",
    "crc_check_chance",
    "dclocal_read_repair_chance",
    large::OPTION,
    "max_index_interval",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "paxos_grace_seconds",
    "read_repair",
    "read_repair_chance",
    "synchronous_updates",
];

fn text<'a>(name: &str, value: &'a PropertyValue) -> Result<&'a str, QueryError> {
    match value {
        PropertyValue::Text(text) => Ok(text),
        PropertyValue::Map(_) => {
            Err(QueryError::syntax(format!("Invalid value for property '{name}'. It should be a string.")))
        }
    }
}

fn map(name: &str, value: &PropertyValue) -> Result<BTreeMap<String, String>, QueryError> {
    match value {
        PropertyValue::Map(map) => Ok(map.clone()),
        PropertyValue::Text(_) => {
            Err(QueryError::syntax(format!("Invalid value for property '{name}'. It should be a map.")))
        }
    }
}

fn double(name: &str, value: &PropertyValue) -> Result<f64, QueryError> {
    let text = text(name, value)?;
    text.parse().map_err(|_| QueryError::syntax(format!("Invalid double value {text} for '{name}'")))
}

/// Twenty years: the longest time to live, as Cassandra's `Attributes.MAX_TTL`.
const TTL_MAX_S: u32 = 20 * 365 * 24 * 60 * 60;

fn at_least_zero(name: &str, value: &PropertyValue, max: u32) -> Result<u32, QueryError> {
    let text = text(name, value)?;
    let refuse = || QueryError::syntax(format!("Invalid integer value {text} for '{name}'"));
    let number: i32 = text.parse().map_err(|_| refuse())?;
    match u32::try_from(number) {
        Err(_) => Err(QueryError::config(format!("{name} must be greater than or equal to 0 (got {number})"))),
        Ok(number) if number > max => {
            Err(QueryError::config(format!("{name} must be less than or equal to {max} (got {number})")))
        }
        Ok(number) => Ok(number),
    }
}

pub(crate) fn apply_to_keyspace(def: &mut KeyspaceDef, properties: &Properties) -> Result<(), QueryError> {
    for (name, value) in properties {
        match name.as_str() {
            "replication" => {
                def.replication = replication(map(name, value)?)?;
                if def.replication == Replication::Local {
                    return Err(QueryError::config("LocalStrategy is for the system's own keyspaces"));
                }
            }
            "tablets" => {
                let options = map(name, value)?;
                if options.get("enabled").is_none_or(|enabled| !enabled.eq_ignore_ascii_case("false")) {
                    return Err(QueryError::config("Tablets are not supported: data lies in vnodes"));
                }
            }
            "storage" => {
                let options = map(name, value)?;
                if options.get("type").is_none_or(|kind| kind != "LOCAL") || options.len() > 1 {
                    return Err(QueryError::config("Storage options: only {'type': 'LOCAL'} is known"));
                }
            }
            "durable_writes" => {
                def.durable_writes = match text(name, value)?.to_ascii_lowercase().as_str() {
                    "true" => true,
                    "false" => false,
                    other => return Err(QueryError::syntax(format!("Invalid value {other} for 'durable_writes'"))),
                }
            }
            _ => return Err(QueryError::syntax(format!("Unknown property '{name}'"))),
        }
    }
    Ok(())
}

/// Without a class it is NetworkTopologyStrategy; without factors that keeps one replica in each data centre.
pub(super) fn replication(mut options: BTreeMap<String, String>) -> Result<Replication, QueryError> {
    const DEFAULT: &str = "NetworkTopologyStrategy";
    let class = options.entry("class".to_string()).or_insert_with(|| DEFAULT.to_string());
    if class.ends_with(DEFAULT) && options.len() == 1 {
        options.insert("replication_factor".to_string(), "1".to_string());
    }
    Replication::from_options(&options).map_err(|error| QueryError::config(error.to_string()))
}

/// `ALWAYS`, `NONE`, `99PERCENTILE`, `50ms`, in the form that ScyllaDB gives them.
fn speculative_retry(text: &str) -> Result<String, QueryError> {
    let upper = text.to_ascii_uppercase();
    let refuse = || QueryError::config(format!("cannot convert {text} to speculative_retry\n"));
    let number = |digits: &str| digits.parse::<f64>().ok().filter(|number| number.is_finite());
    if matches!(upper.as_str(), "ALWAYS" | "NONE") {
        return Ok(upper);
    }
    if let Some(digits) = upper.strip_suffix("PERCENTILE").or_else(|| upper.strip_suffix('P')) {
        return match number(digits) {
            Some(percentile) if (0.0..=100.0).contains(&percentile) => Ok(format!("{percentile:.1}PERCENTILE")),
            Some(_) => Err(QueryError::config(format!(
                "Invalid value {text} for PERCENTILE option 'speculative_retry': must be between (0.0 and 100.0)"
            ))),
            None => Err(refuse()),
        };
    }
    match upper.strip_suffix("MS").and_then(number) {
        Some(ms) if ms >= 0.0 => Ok(format!("{ms:.2}ms")),
        _ => Err(refuse()),
    }
}

/// Replaces `replication_factor`, which stands for every data centre, and refuses data centres that do not exist.
pub(super) fn resolve_data_centres(replication: &mut Replication, known: &[String]) -> Result<(), QueryError> {
    let Replication::NetworkTopology(factors) = replication else { return Ok(()) };
    if let Some(factor) = factors.remove("replication_factor") {
        for dc in known {
            factors.entry(dc.clone()).or_insert(factor);
        }
    }
    match factors.keys().find(|dc| !known.contains(dc)) {
        Some(dc) => Err(QueryError::config(format!(
            "Unrecognized strategy option {{{dc}}} passed to NetworkTopologyStrategy; the data centers are {}",
            known.join(", ")
        ))),
        None => Ok(()),
    }
}

/// As [`apply_to_table`], over what a table has that says nothing: LZ4, in chunks that one small read brings, as
/// ScyllaDB's tables have them (`compression_parameters::DEFAULT_CHUNK_LENGTH`).
pub(super) fn apply_to_new_table(
    options: &mut TableOptions,
    properties: &Properties,
) -> Result<Option<TableId>, QueryError> {
    let lz4 = [("class", "LZ4Compressor"), ("chunk_length_in_kb", "4")];
    let lz4 = lz4.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    options.compression = storage::Compression::normal_options(lz4).map_err(QueryError::config)?;
    apply_to_table(options, properties)
}

/// What a table has whose statement says nothing.
pub(crate) fn new_table_options() -> TableOptions {
    let mut options = TableOptions::default();
    match apply_to_new_table(&mut options, &Properties::new()) {
        Ok(_) => options,
        Err(_) => TableOptions::default(),
    }
}

/// Sets the options; gives the `id` when there is one.
pub(super) fn apply_to_table(
    options: &mut TableOptions,
    properties: &Properties,
) -> Result<Option<TableId>, QueryError> {
    let mut id = None;
    for (name, value) in properties {
        match name.as_str() {
            "comment" => options.comment = text(name, value)?.to_string(),
            "default_time_to_live" => options.default_time_to_live_s = at_least_zero(name, value, TTL_MAX_S)?,
            "gc_grace_seconds" => options.gc_grace_seconds = at_least_zero(name, value, i32::MAX as u32)?,
            "bloom_filter_fp_chance" => {
                let chance = double(name, value)?;
                // The least chance that Cassandra's table of bits per key reaches.
                if !(6.71e-5..=1.0).contains(&chance) {
                    return Err(QueryError::config(format!(
                        "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got {chance})"
                    )));
                }
                options.bloom_filter_fp_chance = chance;
            }
            "compaction" => options.compaction = compaction(map(name, value)?)?,
            "compression" => {
                let given = map(name, value)?;
                options.compression = storage::Compression::normal_options(given).map_err(QueryError::config)?;
            }
            // Cassandra's is a flag, and means another thing.
            "cdc" if matches!(value, PropertyValue::Map(_)) => options.cdc = cdc::read_options(map(name, value)?)?,
            "caching" => options.caching = caching(map(name, value)?)?,
            "id" => {
                let invalid_id = |error| QueryError::config(format!("Invalid table id: {error}"));
                let bytes = types::uuid::parse(text(name, value)?).map_err(invalid_id)?;
                id = Some(TableId(u128::from_be_bytes(bytes)));
            }
            "speculative_retry" => {
                let told = speculative_retry(text(name, value)?)?;
                options.other.insert(name.clone(), crate::schema::describe::string(&told));
            }
            "tombstone_gc" => {
                let told = crate::schema::describe::map_of(&map(name, value)?);
                options.other.insert(name.clone(), told);
            }
            kept if KEPT.contains(&kept) => {
                check_kept(kept, value)?;
                let text = text(name, value)?;
                let text = if kept == large::OPTION { &text.to_ascii_lowercase() } else { text };
                let plain = text.parse::<f64>().is_ok() || matches!(text, "true" | "false");
                let text = if plain { text.to_string() } else { crate::schema::describe::string(text) };
                options.other.insert(name.clone(), text);
            }
            _ => return Err(QueryError::syntax(format!("Unknown property '{name}'"))),
        }
    }
    Ok(id)
}

/// What is wrong with an option that is only kept.
fn check_kept(name: &str, value: &PropertyValue) -> Result<(), QueryError> {
    match name {
        "crc_check_chance" | "dclocal_read_repair_chance" | "read_repair_chance" => match double(name, value)? {
            chance if (0.0..=1.0).contains(&chance) => Ok(()),
            chance => Err(QueryError::config(format!(
                "{name} must be larger than or equal to 0 and smaller than or equal to 1.0 (got {chance:?})"
            ))),
        },
        "min_index_interval" | "max_index_interval" => match at_least_zero(name, value, i32::MAX as u32)? {
            0 => Err(QueryError::config(format!("{name} must be greater than or equal to 1 (got 0)"))),
            _ => Ok(()),
        },
        "memtable_flush_period_in_ms" | "paxos_grace_seconds" => {
            at_least_zero(name, value, i32::MAX as u32).map(|_| ())
        }
        "read_repair" => match text(name, value)?.to_ascii_uppercase().as_str() {
            "BLOCKING" | "NONE" => Ok(()),
            other => Err(QueryError::config(format!("Invalid value {other} for option '{name}': BLOCKING or NONE"))),
        },
        large::OPTION => match text(name, value)?.to_ascii_lowercase().as_str() {
            "true" | "false" => Ok(()),
            other => Err(QueryError::syntax(format!("Invalid boolean value {other} for '{name}'"))),
        },
        "additional_write_policy" => speculative_retry(text(name, value)?).map(|_| ()),
        _ => Ok(()),
    }
}

fn caching(options: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, QueryError> {
    for (name, value) in &options {
        let all_or_none = ["ALL", "NONE"].iter().any(|known| value.eq_ignore_ascii_case(known));
        let (valid, allowed) = match name.as_str() {
            "keys" => (all_or_none, "'ALL' and 'NONE'"),
            "rows_per_partition" => (all_or_none || value.parse::<u32>().is_ok(), "'ALL', 'NONE', and integer values"),
            // ScyllaDB's.
            "enabled" => (matches!(value.as_str(), "true" | "false"), "'true' and 'false'"),
            _ => {
                return Err(QueryError::config(format!(
                    "Invalid caching sub-options [{name}]: only 'keys' and 'rows_per_partition' are allowed"
                )));
            }
        };
        if !valid {
            return Err(QueryError::config(format!(
                "Invalid value '{value}' for caching sub-option '{name}': only {allowed} are allowed"
            )));
        }
    }
    Ok(options)
}

fn compaction(options: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, QueryError> {
    storage::validate_compaction(&options).map_err(QueryError::config)?;
    Ok(options)
}
