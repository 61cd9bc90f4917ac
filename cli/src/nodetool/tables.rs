//! What commands show of tables: figures, percentiles, compactions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::api::{Api, encoded};
use super::args::{Table, Tables};
use super::table::{self, bytes};
use crate::exit::Failure;

/// Tables that keep something, by keyspace.
fn chosen(api: &Api, tables: &Tables) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let all = api.get("/column_family/")?;
    let mut by_keyspace: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in all.as_array().into_iter().flatten() {
        let (keyspace, name) = (one["ks"].as_str().unwrap_or_default(), one["cf"].as_str().unwrap_or_default());
        let is_meant = match &tables.keyspace {
            Some(wanted) => {
                // `keyspace.table` names a table too.
                let (wanted, one) = wanted.split_once('.').map_or((wanted.as_str(), None), |(k, t)| (k, Some(t)));
                let is_named = tables.tables.is_empty() || tables.tables.iter().any(|table| table == name);
                wanted == keyspace && one.is_none_or(|one| one == name) && is_named
            }
            None => !keyspace.starts_with("system"),
        };
        if is_meant {
            by_keyspace.entry(keyspace.to_string()).or_default().push(name.to_string());
        }
    }
    Ok(by_keyspace)
}

fn metric(api: &Api, name: &str, table: &str) -> Result<f64, Failure> {
    api.number(&format!("/column_family/metrics/{name}/{}", encoded(table)))
}

/// Counts by classes.
struct Histogram {
    counts: Vec<f64>,
    offsets: Vec<f64>,
}

impl Histogram {
    fn get(api: &Api, name: &str, table: &str) -> Result<Self, Failure> {
        Self::at(api, &format!("/column_family/metrics/{name}/{}", encoded(table)))
    }

    fn at(api: &Api, path: &str) -> Result<Self, Failure> {
        let value = api.get(path)?;
        let numbers = |of: &str| value[of].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        Ok(Self { counts: numbers("buckets"), offsets: numbers("bucket_offsets") })
    }

    /// The class that `fraction` of all are in or below.
    fn percentile(&self, fraction: f64) -> f64 {
        let wanted = (self.counts.iter().sum::<f64>() * fraction).ceil().max(1.0);
        let mut seen = 0.0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        at.map_or(0.0, |at| self.offsets.get(at).or(self.offsets.last()).copied().unwrap_or(0.0))
    }

    fn mean(&self) -> f64 {
        let count: f64 = self.counts.iter().sum();
        let sum: f64 = self.counts.iter().zip(&self.offsets).map(|(count, offset)| count * offset).sum();
        if count == 0.0 { f64::NAN } else { sum / count }
    }
}

pub fn stats(api: &Api, tables: &Tables) -> Result<(), Failure> {
    let by_keyspace = chosen(api, tables)?;
    println!("Total number of tables: {}\n----------------", by_keyspace.values().map(Vec::len).sum::<usize>());
    for (keyspace, names) in by_keyspace {
        let full: Vec<String> = names.iter().map(|name| format!("{keyspace}:{name}")).collect();
        let sum = |metric_name: &str| full.iter().map(|name| metric(api, metric_name, name)).sum::<Result<f64, _>>();
        println!("Keyspace : {keyspace}");
        println!("\tRead Count: {}\n\tWrite Count: {}", sum("read")?, sum("write")?);
        println!("\tPending Flushes: {}", sum("pending_flushes")?);
        for (name, full) in names.iter().zip(&full) {
            let get = |metric_name: &str| metric(api, metric_name, full);
            let (read, write) = (
                Histogram::get(api, "read_latency_histogram", full)?,
                Histogram::get(api, "write_latency_histogram", full)?,
            );
            println!("\t\tTable: {name}");
            println!("\t\tSSTable count: {}", get("live_ss_table_count")?);
            println!("\t\tSpace used (live): {}", get("live_disk_space_used")?);
            println!("\t\tSpace used (total): {}", get("total_disk_space_used")?);
            println!("\t\tNumber of partitions (estimate): {}", get("estimated_row_count")?);
            println!("\t\tMemtable cell count: {}", get("memtable_columns_count")?);
            println!("\t\tMemtable data size: {}", get("memtable_live_data_size")?);
            println!("\t\tMemtable switch count: {}", get("memtable_switch_count")?);
            println!("\t\tLocal read count: {}", get("read")?);
            println!("\t\tLocal read latency: {:.3} ms", read.mean() / 1000.0);
            println!("\t\tLocal write count: {}", get("write")?);
            println!("\t\tLocal write latency: {:.3} ms", write.mean() / 1000.0);
            println!("\t\tPending flushes: {}", get("pending_flushes")?);
            println!("\t\tBloom filter false positives: {}", get("bloom_filter_false_positives")?);
            println!("\t\tBloom filter false ratio: {:.5}", get("bloom_filter_false_ratio")?);
            println!("\t\tBloom filter space used: {}", get("bloom_filter_disk_space_used")?);
            println!("\t\tCompacted partition mean bytes: {}", get("mean_row_size")?);
            let per_read = |metric_name: &str| Histogram::get(api, metric_name, full);
            let (live, tombstones) = (per_read("live_scanned_histogram")?, per_read("tombstone_scanned_histogram")?);
            println!("\t\tAverage live cells per slice: {:.1}", live.mean());
            println!("\t\tMaximum live cells per slice: {}", live.percentile(1.0));
            println!("\t\tAverage tombstones per slice: {:.1}", tombstones.mean());
            println!("\t\tMaximum tombstones per slice: {}\n", tombstones.percentile(1.0));
        }
        println!("----------------");
    }
    Ok(())
}

pub fn histograms(api: &Api, table: &Table) -> Result<(), Failure> {
    let full = format!("{}:{}", table.keyspace, table.table);
    let of = |name: &str| Histogram::get(api, name, &full);
    let all = [
        of("read_latency_histogram")?,
        of("write_latency_histogram")?,
        of("sstables_per_read_histogram")?,
        of("live_scanned_histogram")?,
        of("tombstone_scanned_histogram")?,
    ];
    println!("{}/{} histograms", table.keyspace, table.table);
    let head = [
        ["Percentile", "Read Latency", "Write Latency", "SSTables", "Live Rows", "Tombstones"],
        ["", "(micros)", "(micros)", "(per read)", "(per read)", "(per read)"],
    ];
    print_percentiles(head, &all);
    Ok(())
}

pub fn proxy_histograms(api: &Api) -> Result<(), Failure> {
    let of = |what: &str| Histogram::at(api, &format!("/storage_proxy/metrics/{what}/estimated_histogram"));
    println!("proxy histograms");
    let head =
        [["Percentile", "Read Latency", "Write Latency", "Range Latency"], ["", "(micros)", "(micros)", "(micros)"]];
    print_percentiles(head, &[of("read")?, of("write")?, of("range")?]);
    Ok(())
}

/// `head`: the columns' names and their units, the percentiles' own first.
fn print_percentiles<const COLUMNS: usize>(head: [[&str; COLUMNS]; 2], all: &[Histogram]) {
    let mut rows = head.map(|line| line.map(String::from).to_vec()).to_vec();
    for (name, fraction) in
        [("50%", 0.5), ("75%", 0.75), ("95%", 0.95), ("98%", 0.98), ("99%", 0.99), ("Min", 0.0), ("Max", 1.0)]
    {
        let cells = all.iter().map(|histogram| format!("{:.2}", histogram.percentile(fraction)));
        rows.push([name.to_string()].into_iter().chain(cells).collect());
    }
    print!("{}", table::render(&rows));
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

pub fn compaction_stats(api: &Api) -> Result<(), Failure> {
    println!("pending tasks: {}", api.number("/compaction_manager/metrics/pending_tasks")?);
    let by_table = api.get("/compaction_manager/metrics/pending_tasks_by_table")?;
    for one in by_table.as_array().into_iter().flatten() {
        println!("- {}.{}: {}", text(&one["ks"]), text(&one["cf"]), one["task"]);
    }
    println!();
    let running = api.get("/compaction_manager/compactions")?;
    let mut rows = vec![
        ["id", "compaction type", "keyspace", "table", "completed", "total", "unit", "progress"]
            .map(String::from)
            .to_vec(),
    ];
    for one in running.as_array().into_iter().flatten() {
        let (done, total) = (one["completed"].as_f64().unwrap_or(0.0), one["total"].as_f64().unwrap_or(0.0));
        let progress = if total > 0.0 { format!("{:.2}%", done / total * 100.0) } else { "n/a".into() };
        let cells = ["id", "task_type", "ks", "cf", "completed", "total", "unit"].map(|key| text(&one[key]));
        rows.push(cells.into_iter().chain([progress]).collect());
    }
    if rows.len() > 1 {
        print!("{}", table::render(&rows));
    }
    Ok(())
}

pub fn compaction_history(api: &Api) -> Result<(), Failure> {
    println!("Compaction History:");
    let all = api.get("/compaction_manager/compaction_history")?;
    let head = ["id", "keyspace_name", "columnfamily_name", "compacted_at", "bytes_in", "bytes_out", "rows_merged"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for one in all.as_array().into_iter().flatten().rev() {
        let merged = one["rows_merged"].as_array().into_iter().flatten();
        let merged: Vec<String> = merged.map(|pair| format!("{}:{}", pair["key"], pair["value"])).collect();
        let at = types::calendar::timestamp_to_text(one["compacted_at"].as_i64().unwrap_or(0));
        let size = |key: &str| bytes(one[key].as_f64().unwrap_or(0.0));
        rows.push(vec![
            text(&one["id"]),
            text(&one["ks"]),
            text(&one["cf"]),
            at,
            size("bytes_in"),
            size("bytes_out"),
            format!("{{{}}}", merged.join(", ")),
        ]);
    }
    print!("{}", table::render(&rows));
    Ok(())
}
