//! What commands show of the cluster: status, ring, schema versions, gossip.

use std::collections::BTreeMap;

use serde_json::Value;

use super::api::{Api, encoded};
use super::table;
use crate::exit::Failure;

/// `[{key, value}, ..]`.
fn pairs(value: &Value) -> BTreeMap<String, Value> {
    let one = |pair: &Value| Some((pair["key"].as_str()?.to_string(), pair["value"].clone()));
    value.as_array().into_iter().flatten().filter_map(one).collect()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_string).collect()
}

fn place(api: &Api, host: &str) -> Result<(String, String), Failure> {
    let ask = |what: &str| {
        let answer = api.get_with(&format!("/snitch/{what}"), &[("host", host)])?;
        Ok::<_, Failure>(answer.as_str().unwrap_or_default().to_string())
    };
    Ok((ask("datacenter")?, ask("rack")?))
}

pub fn status(api: &Api, keyspace: Option<&str>) -> Result<(), Failure> {
    let live = texts(&api.get("/gossiper/endpoint/live")?);
    let joining = texts(&api.get("/storage_service/nodes/joining")?);
    let ids = pairs(&api.get("/storage_service/host_id")?);
    let loads = pairs(&api.get("/storage_service/load_map")?);
    let owned = match keyspace {
        Some(keyspace) => pairs(&api.get(&format!("/storage_service/ownership/{}", encoded(keyspace)))?),
        None => pairs(&api.get("/storage_service/ownership")?),
    };
    let mut by_place: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for (host, id) in &ids {
        let (centre, rack) = place(api, host)?;
        let tokens = texts(&api.get(&format!("/storage_service/tokens/{host}"))?).len();
        let up = if live.contains(host) { "U" } else { "D" };
        let load = loads.get(host).and_then(Value::as_f64).map_or("?".to_string(), table::bytes);
        let owns = owned.get(host).and_then(Value::as_f64).unwrap_or(0.0);
        by_place.entry(centre).or_default().push(vec![
            format!("{up}{}", if joining.contains(host) { "J" } else { "N" }),
            host.clone(),
            load,
            tokens.to_string(),
            format!("{:.1}%", owns * 100.0),
            id.as_str().unwrap_or_default().to_string(),
            rack,
        ]);
    }
    let owns = if keyspace.is_some() { "Owns (effective)" } else { "Owns" };
    for (centre, nodes) in by_place {
        let title = format!("Datacenter: {centre}");
        println!("{title}\n{}\nStatus=Up/Down\n|/ State=Normal/Leaving/Joining/Moving", "=".repeat(title.len()));
        let head = ["--", "Address", "Load", "Tokens", owns, "Host ID", "Rack"].map(String::from).to_vec();
        let rows: Vec<Vec<String>> = [head].into_iter().chain(nodes).collect();
        println!("{}", table::render(&rows));
    }
    Ok(())
}

pub fn info(api: &Api) -> Result<(), Failure> {
    let (centre, rack) = (api.text("/snitch/datacenter")?, api.text("/snitch/rack")?);
    let yes = |value: Value| if value == Value::Bool(true) { "true" } else { "false" };
    let cache = |name: &str| {
        let number = |what: &str| api.number(&format!("/cache_service/metrics/{name}/{what}"));
        let (hits, requests) = (number("hits")?, number("requests")?);
        let rate = if requests == 0.0 { "NaN".to_string() } else { format!("{:.3}", hits / requests) };
        let size = table::bytes(number("size")?);
        Ok::<_, Failure>(format!("size {size}, {hits} hits, {requests} requests, {rate} recent hit rate"))
    };
    let lines = [
        ("ID", api.text("/storage_service/hostid/local")?),
        ("Gossip active", yes(api.get("/storage_service/gossiping")?).into()),
        ("Native Transport active", yes(api.get("/storage_service/native_transport")?).into()),
        ("Load", table::bytes(api.number("/storage_service/load")?)),
        ("Uptime (seconds)", format!("{:.0}", api.number("/system/uptime_ms")? / 1000.0)),
        ("Data Center", centre),
        ("Rack", rack),
        ("Row Cache", cache("row")?),
        ("Key Cache", cache("key")?),
        ("Tokens", texts(&api.get("/storage_service/tokens")?).len().to_string()),
    ];
    for (name, value) in lines {
        println!("{name:<23}: {value}");
    }
    Ok(())
}

pub fn describe(api: &Api) -> Result<(), Failure> {
    println!("Cluster Information:");
    println!("\tName: {}", api.text("/storage_service/cluster_name")?);
    println!("\tSnitch: {}", api.text("/snitch/name")?);
    println!("\tPartitioner: {}", api.text("/storage_service/partitioner_name")?);
    println!("\tSchema versions:");
    for (version, nodes) in pairs(&api.get("/storage_service/schema_versions")?) {
        println!("\t\t{version}: [{}]\n", texts(&nodes).join(", "));
    }
    Ok(())
}

pub fn ring(api: &Api) -> Result<(), Failure> {
    let live = texts(&api.get("/gossiper/endpoint/live")?);
    let loads = pairs(&api.get("/storage_service/load_map")?);
    let owned = pairs(&api.get("/storage_service/ownership")?);
    let mut places = BTreeMap::new();
    for host in owned.keys() {
        places.insert(host.clone(), place(api, host)?);
    }
    let centres: std::collections::BTreeSet<&String> = places.values().map(|(centre, _)| centre).collect();
    let tokens = api.get("/storage_service/tokens_endpoint")?;
    for centre in centres {
        println!("\nDatacenter: {centre}\n==========");
        let head = ["Address", "Rack", "Status", "State", "Load", "Owns", "Token"].map(String::from).to_vec();
        let mut rows = vec![head];
        for pair in tokens.as_array().into_iter().flatten() {
            let host = pair["value"].as_str().unwrap_or_default();
            let Some((_, rack)) = places.get(host).filter(|(of, _)| of == centre) else { continue };
            rows.push(vec![
                host.to_string(),
                rack.clone(),
                if live.iter().any(|other| other == host) { "Up" } else { "Down" }.to_string(),
                "Normal".to_string(),
                loads.get(host).and_then(Value::as_f64).map_or("?".to_string(), table::bytes),
                format!("{:.2}%", owned.get(host).and_then(Value::as_f64).unwrap_or(0.0) * 100.0),
                pair["key"].as_str().unwrap_or_default().to_string(),
            ]);
        }
        print!("{}", table::render(&rows));
    }
    Ok(())
}

pub fn gossip_info(api: &Api) -> Result<(), Failure> {
    /// Names of `gms::application_state`, by number.
    const NAMES: [&str; 13] = [
        "STATUS",
        "LOAD",
        "SCHEMA_OLD",
        "SCHEMA",
        "DC",
        "RACK",
        "RELEASE_VERSION",
        "REMOVAL_COORDINATOR",
        "RPC_ADDRESS",
        "X_11_PADDING",
        "SEVERITY",
        "NET_VERSION",
        "HOST_ID",
    ];
    for node in api.get("/failure_detector/endpoints")?.as_array().into_iter().flatten() {
        println!("/{}", node["addrs"].as_str().unwrap_or_default());
        println!("  generation:{}\n  heartbeat:{}", node["generation"], node["version"]);
        for state in node["application_state"].as_array().into_iter().flatten() {
            let at = state["application_state"].as_u64().unwrap_or(u64::MAX);
            let name = NAMES.get(at as usize).copied().unwrap_or("UNKNOWN");
            println!("  {name}:{}:{}", state["version"], state["value"].as_str().unwrap_or_default());
        }
    }
    Ok(())
}
