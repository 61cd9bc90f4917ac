//! `orrery serve`: a real node.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use reactor::{Group, uring};
use server::NodeConfig;
use storage::SyncMode;

use crate::args::{Serve, Sync};
use crate::exit::{Code, Failure};
use crate::io_properties;
use crate::signal;

/// A sync of the commit log on a slow disk takes less.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// Why the node ends.
enum End {
    Signal,
    Failed(String),
}

pub fn run(args: &Serve) -> Result<(), Failure> {
    let config = Arc::new(node_config(args)?);
    let shards = uring::Config {
        shards: args.shards,
        cpus: (!args.cpus.is_empty()).then(|| args.cpus.clone()),
        busy_poll: Duration::from_micros(args.busy_poll),
        io: args.io_properties.as_deref().map(io_properties::load).transpose()?.unwrap_or_default(),
        ..Default::default()
    };
    let (ended, end) = mpsc::channel();
    let ready = Arc::new(AtomicUsize::new(0));
    let host = {
        let (config, ended, listen, count) = (config.clone(), ended.clone(), args.listen, args.shards);
        uring::Host::start(shards, move |_| {
            let (config, ended, ready) = (config.clone(), ended.clone(), ready.clone());
            async move {
                let on_ready = move || {
                    if ready.fetch_add(1, Ordering::SeqCst) + 1 == count {
                        eprintln!("ready: CQL on {listen}");
                    }
                };
                if let Err(error) = server::run_shard(config, on_ready).await {
                    let _ = ended.send(End::Failed(error.to_string()));
                }
            }
        })
        .map_err(Failure::unexpected)?
    };
    signal::on_stop(move || drop(ended.send(End::Signal))).map_err(Failure::unexpected)?;
    let failed = match end.recv() {
        Ok(End::Failed(cause)) => Some(cause),
        _ => None,
    };
    drain(&host);
    host.stop();
    host.join().map_err(Failure::unexpected)?;
    match failed {
        None => Ok(()),
        Some(cause) => Err(Failure::with_help(Code::Unexpected, cause, "`orrery serve --help` lists the settings")),
    }
}

/// Gives every shard the time to make its last writes durable.
fn drain(host: &uring::Host) {
    let (done, all) = mpsc::channel();
    for shard in 0..host.shards() {
        let done = done.clone();
        host.run_on(shard, move || {
            drop(reactor::spawn(Group::Maintenance, "drain", async move {
                server::drain_shard().await;
                let _ = done.send(());
            }));
        });
    }
    for _ in 0..host.shards() {
        if all.recv_timeout(DRAIN_MAX).is_err() {
            tracing::error!("a shard did not close in time");
            return;
        }
    }
}

fn node_config(args: &Serve) -> Result<NodeConfig, Failure> {
    let path = |path: &std::path::Path| -> Result<String, Failure> {
        path.to_str().map(str::to_string).ok_or_else(|| {
            let text = format!("the path {} is not UTF-8", path.display());
            Failure::with_help(Code::Usage, text, "give the folder a name of UTF-8 characters")
        })
    };
    // Mount points are absolute.
    let absolute = |folder: &std::path::Path| std::path::absolute(folder).map_err(Failure::unexpected);
    let known = args.io_properties.is_some();
    let data = path(&if known { absolute(&args.data)? } else { args.data.clone() })?;
    let address = args.listen.ip();
    let mut config = NodeConfig::single(address, &data);
    if let Some(commitlog) = &args.commitlog {
        config.commitlog_dir = path(&if known { absolute(commitlog)? } else { commitlog.clone() })?;
    }
    if !args.nodes.is_empty() {
        if !args.nodes.contains(&address) {
            return Err(Failure::with_help(
                Code::Usage,
                format!("--nodes does not name this node, {address}"),
                "give all nodes the same list, each with its own --listen in it",
            ));
        }
        config.nodes = args.nodes.iter().copied().map(cluster::NodeConfig::new).collect();
    }
    for node in &mut config.nodes {
        // One port for all: a driver asks every node on the port that it was given.
        node.native_port = args.listen.port();
    }
    config.cluster_name.clone_from(&args.cluster_name);
    let access = [("authenticator", &args.authenticator), ("authorizer", &args.authorizer)];
    config.settings.extend(access.map(|(name, class)| (name.to_string(), class.clone())));
    config.sync = match args.commitlog_sync {
        Sync::Batch => SyncMode::Batch,
        Sync::Periodic => SyncMode::Periodic { every: Duration::from_millis(args.commitlog_sync_period) },
    };
    let eighth = memory_bytes() / 8;
    config.memtable_bytes = args.memtable_mib.map_or(eighth, |mib| mib << 20);
    config.cache_bytes = args.cache_mib.map_or(eighth, |mib| mib << 20);
    config.compaction_mb_per_s = (args.compaction_throughput > 0.0).then_some(args.compaction_throughput);
    Ok(config)
}

/// The machine's memory, as Linux tells it.
fn memory_bytes() -> u64 {
    let total_kib = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()
    });
    // Where it is unknown, 4 GiB is a machine that the defaults fit.
    total_kib.map_or(4 << 30, |kib| kib << 10)
}
