//! `orrery nodetool`: what operators know from Cassandra, printed as they expect it, over the node's admin API.

mod api;
pub mod args;
mod cluster;
mod table;
mod tables;
mod top_partitions;

use std::net::SocketAddr;

use serde_json::Value;

use crate::exit::Failure;
use api::{Api, encoded};
use args::{Command, Nodetool, Tables};

pub fn run(args: &Nodetool) -> Result<(), Failure> {
    let api = Api::new(SocketAddr::new(args.host, args.port));
    match &args.command {
        Command::Flush(tables) => each(&api, tables, "keyspace_flush", &[]),
        Command::Compact(tables) => each(&api, tables, "keyspace_compaction", &[("flush_memtables", "false")]),
        Command::Cleanup(tables) => each(&api, tables, "keyspace_cleanup", &[]),
        Command::Scrub(tables) => each(&api, tables, "keyspace_scrub", &[]),
        Command::Upgradesstables(tables) => each(&api, tables, "keyspace_upgrade_sstables", &[]),
        Command::Garbagecollect(tables) => each(&api, tables, "keyspace_garbage_collect", &[]),
        Command::Enableautocompaction(tables) => each(&api, tables, "auto_compaction", &[]),
        Command::Disableautocompaction(tables) => {
            for (keyspace, names) in meant(&api, tables)? {
                api.delete(&format!("/storage_service/auto_compaction/{}", encoded(&keyspace)), &[("cf", &names)])?;
            }
            Ok(())
        }
        Command::Tablestats(chosen) => tables::stats(&api, chosen),
        Command::Tablehistograms(table) => tables::histograms(&api, table),
        Command::Proxyhistograms => tables::proxy_histograms(&api),
        Command::Toppartitions { keyspace, table, duration, count, capacity } => {
            let table = keyspace.as_deref().zip(table.as_deref());
            top_partitions::print(&api, table, *duration, *count, *capacity)
        }
        Command::Compactionstats => tables::compaction_stats(&api),
        Command::Compactionhistory => tables::compaction_history(&api),
        Command::Stop => api.post("/compaction_manager/stop_compaction", &[]).map(drop),
        Command::Status { keyspace } => cluster::status(&api, keyspace.as_deref()),
        Command::Info => cluster::info(&api),
        Command::Describecluster => cluster::describe(&api),
        Command::Ring => cluster::ring(&api),
        Command::Gossipinfo => cluster::gossip_info(&api),
        Command::Snapshot { keyspaces, tag, tables, skip_flush, ttl } => {
            snapshot(&api, keyspaces, tag.as_deref(), tables, *skip_flush, ttl.as_deref())
        }
        Command::Listsnapshots => list_snapshots(&api),
        Command::Clearsnapshot { keyspaces, tag, .. } => {
            let tag = tag.as_deref().unwrap_or("");
            let keyspaces = keyspaces.join(",");
            api.delete("/storage_service/snapshots", &[("tag", tag), ("kn", &keyspaces)])?;
            let named = if tag.is_empty() { "all snapshots".into() } else { format!("snapshot {tag}") };
            let of = if keyspaces.is_empty() { "all keyspaces" } else { &keyspaces };
            println!("Requested clearing {named} for [{of}]");
            Ok(())
        }
        Command::Refresh(table) => {
            let path = format!("/storage_service/sstables/{}", encoded(&table.keyspace));
            api.post(&path, &[("cf", &table.table)]).map(drop)
        }
        Command::Drain => api.post("/storage_service/drain", &[]).map(drop),
        Command::Settraceprobability { probability } => {
            api.post("/storage_service/trace_probability", &[("probability", &probability.to_string())]).map(drop)
        }
        Command::Gettraceprobability => {
            println!("Current trace probability: {}", api.number("/storage_service/trace_probability")?);
            Ok(())
        }
        Command::Invalidatepermissionscache => api.post("/authorization_cache/reset", &[]).map(drop),
        Command::Reloadssl => api.post("/storage_service/reload_ssl", &[]).map(drop),
        Command::Enablebinary => api.post("/storage_service/native_transport", &[]).map(drop),
        Command::Disablebinary => api.delete("/storage_service/native_transport", &[]).map(drop),
        Command::Statusbinary => {
            let runs = api.get("/storage_service/native_transport")? == Value::Bool(true);
            println!("{}", if runs { "running" } else { "not running" });
            Ok(())
        }
        Command::Version => {
            println!("ReleaseVersion: {}", api.text("/storage_service/release_version")?);
            Ok(())
        }
    }
}

/// Keyspaces, each with the names of its tables between commas; nothing between them is all.
fn meant(api: &Api, tables: &Tables) -> Result<Vec<(String, String)>, Failure> {
    if let Some(keyspace) = &tables.keyspace {
        return Ok(vec![(keyspace.clone(), tables.tables.join(","))]);
    }
    let all = api.get_with("/storage_service/keyspaces", &[("type", "user")])?;
    let names = all.as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(names.map(|name| (name.to_string(), String::new())).collect())
}

fn each(api: &Api, tables: &Tables, what: &str, parameters: &[(&str, &str)]) -> Result<(), Failure> {
    for (keyspace, names) in meant(api, tables)? {
        let all: Vec<(&str, &str)> = [("cf", names.as_str())].into_iter().chain(parameters.iter().copied()).collect();
        api.post(&format!("/storage_service/{what}/{}", encoded(&keyspace)), &all)?;
    }
    Ok(())
}

fn snapshot(
    api: &Api,
    keyspaces: &[String],
    tag: Option<&str>,
    tables: &[String],
    skip_flush: bool,
    ttl: Option<&str>,
) -> Result<(), Failure> {
    let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
    let tag = tag.map_or_else(|| now_ms.to_string(), str::to_string);
    let parameters = [
        ("tag", tag.as_str()),
        ("kn", &keyspaces.join(",")),
        ("cf", &tables.join(",")),
        ("sf", if skip_flush { "true" } else { "false" }),
        ("ttl", ttl.unwrap_or("")),
    ];
    let of = if keyspaces.is_empty() { "all keyspaces".to_string() } else { keyspaces.join(", ") };
    println!(
        "Requested creating snapshot(s) for [{of}] with snapshot name [{tag}] and options {{skipFlush={skip_flush}}}"
    );
    api.post("/storage_service/snapshots", &parameters)?;
    println!("Snapshot directory: {tag}");
    Ok(())
}

fn list_snapshots(api: &Api) -> Result<(), Failure> {
    let all = api.get("/storage_service/snapshots")?;
    println!("Snapshot Details:");
    let mut rows = vec![
        ["Snapshot name", "Keyspace name", "Column family name", "True size", "Size on disk"]
            .map(String::from)
            .to_vec(),
    ];
    for tag in all.as_array().into_iter().flatten() {
        for one in tag["value"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
            let size = |value: &Value| table::bytes(value.as_f64().unwrap_or(0.0));
            rows.push(vec![
                text(&tag["key"]),
                text(&one["ks"]),
                text(&one["cf"]),
                size(&one["live"]),
                size(&one["total"]),
            ]);
        }
    }
    if rows.len() == 1 {
        println!("There are no snapshots");
        return Ok(());
    }
    print!("{}", table::render(&rows));
    let total = api.number("/storage_service/snapshots/size/true")?;
    println!("\nTotal TrueDiskSpaceUsed: {}\n", table::bytes(total));
    Ok(())
}
