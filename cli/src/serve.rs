//! `orrery serve`: a real node.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use reactor::{Group, uring};
use server::NodeConfig;
use storage::SyncMode;

use crate::args::{Serve, Sync};
use crate::config_file::ConfigFile;
use crate::exit::{Code, Failure};
use crate::io_properties;
use crate::signal;

/// A sync of the commit log on a slow disk takes less.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// A server that was killed keeps its ports until the kernel has ended what it had in flight.
const PORT_CHECKS: u32 = 50;
const BETWEEN_CHECKS: Duration = Duration::from_millis(100);

/// Why the node ends.
enum End {
    Signal,
    Failed(String),
}

pub fn run(args: &Serve) -> Result<(), Failure> {
    let file = args.config.as_deref().map(ConfigFile::load).transpose()?.unwrap_or_default();
    let listen = listen_address(args, &file)?;
    let mut config = node_config(args, &file, listen)?;
    if config.nodes.len() == 1 && config.join.is_none() {
        config.listens_alone = is_free(config.nodes[0].internode_port, listen.ip());
    }
    let config = Arc::new(config);
    let others = [config.shard_aware_port, config.encrypted_port, config.encrypted_shard_aware_port];
    for port in others.into_iter().flatten().chain([listen.port()]) {
        check_free(SocketAddr::new(listen.ip(), port))?;
    }
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
        let (config, ended, count) = (config.clone(), ended.clone(), args.shards);
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

/// The shards share their ports, which lets another server share them too: it is asked for first.
#[allow(clippy::disallowed_methods, reason = "before there are shards")]
fn check_free(address: SocketAddr) -> Result<(), Failure> {
    for attempt in 1.. {
        match TcpListener::bind(address) {
            Err(cause) if cause.kind() == io::ErrorKind::AddrInUse && attempt < PORT_CHECKS => {
                thread::sleep(BETWEEN_CHECKS);
            }
            Err(cause) => {
                let text = format!("cannot listen on {address}: {cause}");
                let help = "end the other server, or give other ports with --listen, --shard-aware-port and --tls-port";
                return Err(Failure::with_help(Code::Unexpected, text, help));
            }
            Ok(_) => break,
        }
    }
    Ok(())
}

/// Whether a node that is alone can listen for others: where another server has the port, it does without.
#[allow(clippy::disallowed_methods, reason = "before there are shards")]
fn is_free(port: u16, address: IpAddr) -> bool {
    match TcpListener::bind((address, port)) {
        Ok(_) => true,
        Err(cause) => {
            eprintln!("no node can join this one: cannot listen on {address}:{port}: {cause}");
            false
        }
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

/// Where clients connect: what the command line says, else the file, else the loopback.
fn listen_address(args: &Serve, file: &ConfigFile) -> Result<SocketAddr, Failure> {
    if let Some(listen) = args.listen {
        return Ok(listen);
    }
    let host = file.get("rpc_address").or(file.get("listen_address")).filter(|host| !host.is_empty());
    let host = match host.unwrap_or("127.0.0.1") {
        "localhost" => "127.0.0.1",
        host => host,
    };
    let address = host.parse().map_err(|_| {
        let text = format!("the configuration's address {host} is no IP address");
        Failure::with_help(Code::Invalid, text, "give rpc_address and listen_address as numbers, such as 10.0.0.1")
    })?;
    Ok(SocketAddr::new(address, file.number("native_transport_port").map_or(9042, |port| port as u16)))
}

/// The file's timeouts and sizes.
fn apply_file(config: &mut NodeConfig, file: &ConfigFile) {
    let ms = |name: &str| file.number(name).map(|ms| Duration::from_secs_f64((ms / 1000.0).max(0.0)));
    let timeouts = &mut config.timeouts;
    for (timeout, name) in [
        (&mut timeouts.read, "read_request_timeout_in_ms"),
        (&mut timeouts.write, "write_request_timeout_in_ms"),
        (&mut timeouts.range, "range_request_timeout_in_ms"),
        (&mut timeouts.truncate, "truncate_request_timeout_in_ms"),
    ] {
        *timeout = ms(name).unwrap_or(*timeout);
    }
    let mib = |name: &str| file.number(name).filter(|mib| *mib >= 1.0).map(|mib| (mib as u64) << 20);
    config.commitlog_segment_bytes = mib("commitlog_segment_size_in_mb").unwrap_or(config.commitlog_segment_bytes);
    config.commitlog_bytes = mib("commitlog_total_space_in_mb").unwrap_or(config.commitlog_bytes);
    if let Some(tokens) = file.number("num_tokens") {
        config.nodes.iter_mut().for_each(|node| node.num_tokens = tokens as u32);
    }
    // These are what the configuration itself says of the node, under the same names.
    let told = |name: &str| config.names().iter().any(|known| known == name);
    config.settings = file.values().iter().filter(|(name, _)| !told(name)).cloned().collect();
}

/// Where clients connect beside the port of `--listen`. A shard-aware port is by default as far from the ordinary one as
/// Scylla's.
fn apply_client_ports(config: &mut NodeConfig, args: &Serve, file: &ConfigFile, listen: u16) {
    const SHARD_AWARE_ABOVE: u16 = 10_000;
    let of_file = |name: &str| file.number(name).map(|port| port as u16);
    let some = |port: Option<u16>| port.filter(|port| *port != 0);
    let aware = args.shard_aware_port.or(of_file("native_shard_aware_transport_port"));
    config.shard_aware_port = some(aware.or(listen.checked_add(SHARD_AWARE_ABOVE)));
    config.encrypted_port = some(args.tls_port.or(of_file("native_transport_port_ssl")));
    let above = config.encrypted_port.and_then(|port| port.checked_add(SHARD_AWARE_ABOVE));
    config.encrypted_shard_aware_port = some(of_file("native_shard_aware_transport_port_ssl").or(above));
}

/// The command line's, in the form of the configuration's `client_encryption_options`.
fn encryption_options(
    args: &Serve,
    path: &dyn Fn(&std::path::Path) -> Result<String, Failure>,
) -> Result<Option<String>, Failure> {
    let file = |given: &Option<PathBuf>| given.as_deref().map(path).transpose();
    let Some(certificate) = file(&args.tls_certificate)? else { return Ok(None) };
    let options = serde_json::json!({
        "enabled": true,
        "certificate": certificate,
        "keyfile": file(&args.tls_key)?,
        "truststore": file(&args.tls_truststore)?,
        "require_client_auth": args.tls_require_client_auth,
    });
    Ok(Some(options.to_string()))
}

fn node_config(args: &Serve, file: &ConfigFile, listen: SocketAddr) -> Result<NodeConfig, Failure> {
    let path = |path: &std::path::Path| -> Result<String, Failure> {
        path.to_str().map(str::to_string).ok_or_else(|| {
            let text = format!("the path {} is not UTF-8", path.display());
            Failure::with_help(Code::Usage, text, "give the folder a name of UTF-8 characters")
        })
    };
    // Mount points are absolute.
    let absolute = |folder: &std::path::Path| std::path::absolute(folder).map_err(Failure::unexpected);
    let known = args.io_properties.is_some();
    let folder = args.data.clone().or(file.first("data_file_directories").map(PathBuf::from));
    let folder = folder.unwrap_or_else(|| PathBuf::from("orrery-data"));
    let data = path(&if known { absolute(&folder)? } else { folder })?;
    let address = listen.ip();
    let mut config = NodeConfig::single(address, &data);
    let commitlog = args.commitlog.clone();
    let of_file = file.get("commitlog_directory").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    if let Some(commitlog) = &commitlog.or(of_file) {
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
    if let Some(member) = args.join {
        if member.ip() == address {
            return Err(Failure::with_help(
                Code::Usage,
                format!("--join names this node itself, {address}"),
                "give the address of a node of the cluster that runs",
            ));
        }
        config.join = Some(member);
        config.nodes.iter_mut().for_each(|node| node.shards = args.shards as u16);
    }
    for node in &mut config.nodes {
        // One port for all: a driver asks every node on the port that it was given.
        node.native_port = listen.port();
    }
    apply_file(&mut config, file);
    // Behind the file's: the last one counts.
    for (name, class) in [("authenticator", &args.authenticator), ("authorizer", &args.authorizer)] {
        config.settings.extend(class.clone().map(|class| (name.to_string(), class)));
    }
    let port = |given: Option<u16>, name: &str, usual: u16| {
        let port = given.or(file.number(name).map(|port| port as u16)).unwrap_or(usual);
        (port != 0).then(|| SocketAddr::new(address, port))
    };
    config.api_address = port(args.api_port, "api_port", 10_000);
    config.prometheus_address = port(args.prometheus_port, "prometheus_port", 9180);
    apply_client_ports(&mut config, args, file, listen.port());
    if let Some(options) = encryption_options(args, &path)? {
        config.settings.push(("client_encryption_options".into(), options));
    }
    if let Some(name) = args.cluster_name.as_deref().or(file.get("cluster_name")) {
        config.cluster_name = name.to_string();
    }
    let of_file = match file.get("commitlog_sync") {
        None | Some("periodic") => Sync::Periodic,
        Some("batch") => Sync::Batch,
        Some("group") => Sync::Group,
        Some(other) => {
            let text = format!("commitlog_sync cannot be {other}");
            return Err(Failure::with_help(Code::Invalid, text, "it is periodic, batch or group"));
        }
    };
    let ms = |name: &str, usual: u64| {
        let told = args.commitlog_sync_period.or(file.number(name).map(|ms| ms as u64));
        Duration::from_millis(told.unwrap_or(usual))
    };
    config.sync = match args.commitlog_sync.unwrap_or(of_file) {
        Sync::Batch => SyncMode::Batch,
        Sync::Group => SyncMode::Group { window: ms("commitlog_sync_group_window_in_ms", 1000) },
        Sync::Periodic => SyncMode::Periodic { every: ms("commitlog_sync_period_in_ms", 10_000) },
    };
    let eighth = memory_bytes() / 8;
    let mib = |given: Option<f64>| given.map_or(eighth, |mib| (mib * f64::from(1 << 20)) as u64);
    config.memtable_bytes = mib(args.memtable_mib);
    config.cache_bytes = mib(args.cache_mib);
    let throughput = args.compaction_throughput.or(file.number("compaction_throughput_mb_per_sec"));
    config.compaction_mb_per_s = throughput.filter(|rate| *rate > 0.0);
    config.coalescing_window = coalescing_window(file)?;
    config.memtable_cleanup_threshold = cleanup_threshold(file)?.unwrap_or(config.memtable_cleanup_threshold);
    Ok(config)
}

/// The part of the memory for memtables at which the largest is flushed.
fn cleanup_threshold(file: &ConfigFile) -> Result<Option<f64>, Failure> {
    let part = file.number("memtable_cleanup_threshold");
    match part.filter(|part| !(*part > 0.0 && *part < 1.0)) {
        None => Ok(part),
        Some(other) => {
            let text = format!("memtable_cleanup_threshold cannot be {other}");
            let help = "it is a part of the memory for memtables, above 0 and below 1, such as 0.5";
            Err(Failure::with_help(Code::Invalid, text, help))
        }
    }
}

/// How long a message to another node may wait for others; `None`: not at all.
fn coalescing_window(file: &ConfigFile) -> Result<Option<Duration>, Failure> {
    let window_us = file.number("otc_coalescing_window_us").filter(|us| *us >= 1.0);
    let window = window_us.map(|us| Duration::from_micros(us as u64));
    match file.get("otc_coalescing_strategy").map(str::to_uppercase).as_deref() {
        None | Some("TIMEHORIZON") => Ok(window),
        Some("DISABLED") => Ok(None),
        Some(other) => {
            let text = format!("otc_coalescing_strategy cannot be {other}");
            Err(Failure::with_help(Code::Invalid, text, "it is TIMEHORIZON or DISABLED"))
        }
    }
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
