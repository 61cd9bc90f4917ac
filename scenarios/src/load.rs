//! From a scenario's file to what can be run: everything named is found, everything impossible is refused.
//!
//! A mistake of any kind, syntax or meaning, is a [`DocumentError`] with its place in the file and a next step.
//! Workloads come out scaled and per loader; nothing behind this module reads the file again.

use std::path::Path;
use std::{fs, io};

use hwprofiles::document::{Document, DocumentError};
use hwprofiles::quantity::{Quantity, Ratio};
use hwprofiles::{Disk, Family, Figure, Instance, Profiles, Standing, System, UnknownProfile, nearest};

use crate::generate::Keys;
use crate::model::{CommitlogSync, Meanwhile, PerLoader, Phase, Scenario, Ycsb};
use crate::run::{PhasePlan, Run};
use crate::scale::Scale;
use crate::stress;
use crate::workload::{CONNECTIONS_PER_HOST, Consistency, Row, Workload};

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

type Result<T> = std::result::Result<T, Box<DocumentError>>;

/// A scenario ready to run, once for each of its systems.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub scenario: Scenario,
    pub document: Document,
    pub runs: Vec<Run>,
    /// What its data were to be scaled by, where that was less than the scenario's least scale.
    pub raised_from: Option<Quantity<Ratio>>,
}

/// Names of the scenarios that the binary carries.
pub fn names() -> impl Iterator<Item = &'static str> {
    EMBEDDED.iter().map(|(name, _)| *name)
}

/// The text behind a name that the binary carries, or a path to a file.
pub fn find(name_or_path: &str) -> Result<Document> {
    if let Some((name, text)) = EMBEDDED.iter().find(|(name, _)| *name == name_or_path) {
        return Ok(Document::new(format!("scenarios/{name}.yaml"), *text));
    }
    match fs::read_to_string(Path::new(name_or_path)) {
        Ok(text) => Ok(Document::new(name_or_path, text)),
        Err(error) => {
            let document = Document::new(name_or_path, "");
            let message = match error.kind() {
                io::ErrorKind::NotFound => format!("there is no scenario `{name_or_path}`, and no such file"),
                _ => format!("cannot read `{name_or_path}`: {error}"),
            };
            let help = match nearest(name_or_path, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known scenarios: {}", names().collect::<Vec<_>>().join(", ")),
            };
            Err(document.error_nowhere(message, Some(help)))
        }
    }
}

pub fn read(document: &Document, profiles: &Profiles) -> Result<Experiment> {
    read_at(document, profiles, |_| ())
}

/// The same at another scale.
pub fn read_at(document: &Document, profiles: &Profiles, rescale: impl FnOnce(&mut Scale)) -> Result<Experiment> {
    let mut scenario: Scenario = document.parse()?;
    rescale(&mut scenario.scale);
    let asked = scenario.scale;
    scenario.scale = asked.raised();
    let reader = Reader { document, scenario: &scenario, profiles };
    let runs = reader.runs()?;
    let raised_from = (scenario.scale != asked).then_some(asked.data);
    Ok(Experiment { scenario, document: document.clone(), runs, raised_from })
}

struct Reader<'a> {
    document: &'a Document,
    scenario: &'a Scenario,
    profiles: &'a Profiles,
}

impl<'a> Reader<'a> {
    fn fail<T>(&self, path: &[&str], message: impl Into<String>, label: &str, help: Option<String>) -> Result<T> {
        Err(self.document.error_in(path, message, label, help))
    }

    fn profile<T>(&self, path: &[&str], found: std::result::Result<&'a T, UnknownProfile>) -> Result<&'a T> {
        found.map_err(|e| self.document.error_in(path, e.to_string(), "named here", Some(e.help())))
    }

    fn runs(&self) -> Result<Vec<Run>> {
        let scenario = self.scenario;
        let cluster = &scenario.cluster;
        let systems = self.systems()?;
        let instance = self.profile(&["cluster", "instance"], self.profiles.instance(&cluster.instance))?;
        let data_disk = self.disk(&["cluster", "data_disk"], &cluster.data_disk, instance)?;
        let commitlog_disk = match &cluster.commitlog_disk {
            Some(name) => Some(self.disk(&["cluster", "commitlog_disk"], name, instance)?.clone()),
            None => None,
        };
        let network = self.profile(&["cluster", "network"], self.profiles.network(&cluster.network))?;
        let loader_instance =
            self.profile(&["loaders", "instance"], self.profiles.instance(&scenario.loaders.instance))?;
        let loader_system = self.profile(&["loaders", "system"], self.profiles.system(&scenario.loaders.system))?;
        self.sizes()?;
        let shards = |system: &System| system.threading.shards(instance.vcpus.u64()) as u32;
        let phases: Vec<_> =
            systems.iter().map(|system| self.phases(data_disk, shards(system))).collect::<Result<_>>()?;
        self.faults()?;
        self.checks()?;
        self.references()?;
        let one = systems.len() == 1;
        let runs = systems.into_iter().zip(phases).map(|(system, phases)| Run {
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            bench: scenario.bench.clone(),
            reported_as: cluster.reported_as.clone().unwrap_or_else(|| system.name.clone()),
            system: self.told(system),
            settings: cluster.settings,
            instance: instance.clone(),
            nodes: cluster.nodes,
            data_disk: data_disk.clone(),
            commitlog_disk: commitlog_disk.clone(),
            network: network.clone(),
            loader_system: loader_system.clone(),
            loader_instance: loader_instance.clone(),
            loader_nodes: scenario.loaders.nodes,
            keyspace: scenario.schema.keyspace.name.clone(),
            replication_factor: scenario.schema.keyspace.replication_factor,
            row: scenario.schema.row.unwrap_or(Row::STRESS_DEFAULT),
            compaction: scenario.schema.compaction.clone(),
            seed: scenario.seed,
            seeds: scenario.seeds,
            scale: scenario.scale,
            phases,
            faults: scenario.faults.clone(),
            checks: scenario.checks.clone(),
            references: scenario
                .reference
                .iter()
                .filter(|r| r.system.as_ref().is_none_or(|name| one || *name == system.name))
                .cloned()
                .collect(),
        });
        Ok(runs.collect())
    }

    /// The system with what the scenario tells it.
    fn told(&self, system: &System) -> System {
        let cluster = &self.scenario.cluster;
        let source = "the scenario's settings";
        let mut system = system.clone();
        if cluster.unthrottled {
            system.throttles = Default::default();
        }
        if let (Some(commitlog), Some(sync)) = (&mut system.commitlog, cluster.settings.commitlog_sync) {
            commitlog.sync = match sync {
                CommitlogSync::Batch {} => hwprofiles::CommitlogSync::Batch,
                CommitlogSync::Periodic(every) => {
                    hwprofiles::CommitlogSync::Periodic(Figure::new(every.f64(), Standing::Assumed, source))
                }
            };
        }
        if let Some(busy_poll) = cluster.settings.busy_poll {
            system.busy_poll = Some(Figure::new(busy_poll.f64(), Standing::Assumed, source));
        }
        system
    }

    fn systems(&self) -> Result<Vec<&'a System>> {
        let cluster = &self.scenario.cluster;
        match (&cluster.system, cluster.systems.is_empty()) {
            (None, true) => {
                let known = self.servers().collect::<Vec<_>>().join(", ");
                return self.fail(
                    &["cluster"],
                    "the cluster runs no system",
                    "this one",
                    Some(format!("add `system: ..`, one of {known}")),
                );
            }
            (Some(_), false) => {
                return self.fail(
                    &["cluster", "systems"],
                    "`system` and `systems` exclude each other",
                    "both are there",
                    Some("keep one".into()),
                );
            }
            (None, false) if cluster.reported_as.is_some() => {
                let help = Some("keep one system, or leave `reported_as` out".into());
                return self.fail(
                    &["cluster", "reported_as"],
                    "several systems cannot have one name",
                    "this one",
                    help,
                );
            }
            _ => {}
        }
        let mut found = Vec::new();
        for (i, name) in cluster.system_names().enumerate() {
            let index = i.to_string();
            let path: &[&str] =
                if cluster.system.is_some() { &["cluster", "system"] } else { &["cluster", "systems", &index] };
            let system = self.profile(path, self.profiles.system(name))?;
            if system.memory.is_none() {
                let help = format!("servers: {}", self.servers().collect::<Vec<_>>().join(", "));
                return self.fail(
                    path,
                    format!("`{name}` is a loading client, not a server"),
                    "named here",
                    Some(help),
                );
            }
            found.push(system);
        }
        Ok(found)
    }

    fn servers(&self) -> impl Iterator<Item = &'a str> {
        self.profiles.systems.values().filter(|s| s.memory.is_some()).map(|s| s.name.as_str())
    }

    fn disk(&self, path: &[&str], name: &str, instance: &Instance) -> Result<&'a Disk> {
        let disk = self.profile(path, self.profiles.disk(name))?;
        if disk.family.is_local() && !instance.local_disks.contains(&disk.name) {
            let help = match instance.local_disks.as_slice() {
                [] => format!("{} has none; use a network volume", instance.name),
                disks => format!("{} has {}", instance.name, disks.join(", ")),
            };
            return self.fail(
                path,
                format!("{} has no local disk `{name}`", instance.name),
                "not built in",
                Some(help),
            );
        }
        if disk.family == Family::Ebs && instance.ebs.is_none() {
            return self.fail(path, format!("{} cannot attach EBS volumes", instance.name), "a volume", None);
        }
        Ok(disk)
    }

    fn sizes(&self) -> Result<()> {
        let scenario = self.scenario;
        let (nodes, rf) = (scenario.cluster.nodes, scenario.schema.keyspace.replication_factor);
        if nodes == 0 {
            return self.fail(&["cluster", "nodes"], "a cluster needs at least one node", "none", None);
        }
        if scenario.loaders.nodes == 0 {
            return self.fail(
                &["loaders", "nodes"],
                "somebody has to load the cluster",
                "no loader",
                Some("use 1 or more".into()),
            );
        }
        let path = ["schema", "keyspace", "replication_factor"];
        if rf == 0 {
            return self.fail(&path, "a replication factor of 0 keeps no data", "none", Some("use 1 or more".into()));
        }
        if rf > nodes {
            let message = format!("{rf} replicas do not fit on {nodes} node{}", if nodes == 1 { "" } else { "s" });
            return self.fail(
                &path,
                message,
                "more than `cluster.nodes`",
                Some(format!("lower it to {nodes}, or raise `cluster.nodes` to {rf}")),
            );
        }
        let Scale { data, time, least, .. } = scenario.scale;
        for (name, ratio) in [("data", Some(data)), ("time", time), ("least", least)] {
            if ratio.is_some_and(|ratio| ratio.f64() <= 0.0 || ratio.f64() > 1.0) {
                let help = Some("write `1/1000`".into());
                return self.fail(&["scale", name], "a scale lies above 0 and at most at 1", "outside", help);
            }
        }
        Ok(())
    }

    /// `shards`: of one server.
    fn phases(&self, data_disk: &Disk, shards: u32) -> Result<Vec<PhasePlan>> {
        if self.scenario.phases.is_empty() {
            return self.fail(&["phases"], "a scenario needs at least one phase", "empty", None);
        }
        let mut plans: Vec<PhasePlan> = Vec::new();
        let mut last_row = 0;
        for (i, phase) in self.scenario.phases.iter().enumerate() {
            let index = i.to_string();
            if plans.iter().any(|p| p.name == phase.name) {
                return self.fail(
                    &["phases", &index, "name"],
                    format!("two phases are called `{}`", phase.name),
                    "again",
                    None,
                );
            }
            self.extras(&index, phase)?;
            let mut plan = PhasePlan {
                name: phase.name.clone(),
                workloads: Vec::new(),
                background: None,
                vary: phase.vary.map_or(0.0, |vary| vary.f64()),
                warmup_ns: 0,
                time_part: None,
                quiesce: phase.quiesce,
                search: phase.search,
                footprint: phase.footprint,
                meanwhile: phase.meanwhile,
                major_compaction_after: phase.major_compaction_after,
            };
            if phase.footprint.is_some() {
                plans.push(plan);
                continue;
            }
            let full = self.workload(&index, phase)?;
            let loaders = phase.loaders.unwrap_or(self.scenario.loaders.nodes);
            if loaders == 0 || loaders > self.scenario.loaders.nodes {
                let message = format!("{loaders} loaders cannot take part: there are {}", self.scenario.loaders.nodes);
                return self.fail(&["phases", &index, "loaders"], message, "too many or none", None);
            }
            let warmup_ns = phase.warmup.map_or(0, |w| w.u64());
            if full.duration_ns.is_some_and(|d| warmup_ns >= d) {
                return self.fail(&["phases", &index, "warmup"], "the warm-up takes the whole phase", "too long", None);
            }
            let mut scale = self.scenario.scale;
            scale.window = phase.window.unwrap_or(scale.window);
            for loader in 0..u64::from(loaders) {
                let own = self.for_loader(&index, phase, &full, loader)?;
                let written = own.operations.unwrap_or(u64::MAX).min(own.keys.count());
                if own.mix.write > 0 {
                    last_row = last_row.max(own.keys.range().0 + written - 1);
                }
                let (scaled_warmup, scaled) = scale.workload(&own, warmup_ns, shards);
                plan.warmup_ns = scaled_warmup;
                let durations = scaled.duration_ns.zip(own.duration_ns);
                plan.time_part = durations.map(|(part, whole)| part as f64 / whole as f64);
                plan.workloads.push(scaled);
            }
            self.fits(&index, last_row, &full.row, data_disk)?;
            if let Some(line) = &phase.background {
                if loaders == self.scenario.loaders.nodes {
                    let help = Some("lower the phase's `loaders`, or raise `loaders.nodes`".into());
                    let at = ["phases", &index, "background"];
                    return self.fail(&at, "no loader is left for the background", "whose work?", help);
                }
                let full = self.stress(&index, "background", line)?;
                let (_, mut background) = self.scenario.scale.workload(&full, 0, shards);
                background.duration_ns = plan.workloads.first().and_then(|workload| workload.duration_ns);
                plan.background = Some(background);
            }
            plans.push(plan);
        }
        Ok(plans)
    }

    /// What a phase says beside its load.
    fn extras(&self, index: &str, phase: &Phase) -> Result<()> {
        let at = |key| ["phases", index, key];
        if let Some(search) = &phase.search {
            let (from, to, step) = (search.from.f64(), search.to.f64(), search.step.f64());
            if step <= 0.0 || from <= 0.0 || to < from {
                let help = Some("write `{from: 20k/s, to: 200k/s, step: 10k/s, p99_under: 10 ms}`".into());
                return self.fail(&at("search"), "a search goes up, in steps", "this one does not", help);
            }
            if phase.duration.is_none() && !says(phase, "duration=") {
                let help = Some("add `duration:`, or `duration=` to the command line".into());
                return self.fail(&at("search"), "each step of a search takes a time", "how long?", help);
            }
        }
        if let Some(Meanwhile::MajorCompaction { node }) = phase.meanwhile
            && (node == 0 || node > self.scenario.cluster.nodes)
        {
            let help = Some(format!("nodes are counted from 1 to {}", self.scenario.cluster.nodes));
            return self.fail(&at("meanwhile"), format!("there is no node {node}"), "named here", help);
        }
        let has_load = phase.stress.is_some() || phase.ycsb.is_some() || phase.mix.is_some();
        if phase.vary.is_some() && phase.operations.is_none() && !says(phase, "n=") {
            let help = Some("add `operations:`, or `n=` to the command line".into());
            return self.fail(&at("vary"), "only a number of operations varies", "of which?", help);
        }
        if phase.footprint.is_some() && has_load {
            return self.fail(&at("footprint"), "a footprint is counted without load", "beside a load", None);
        }
        Ok(())
    }

    /// The data of all rows up to the highest one written, on each node.
    fn fits(&self, index: &str, rows: u64, row: &Row, disk: &Disk) -> Result<()> {
        let rf = u64::from(self.scenario.schema.keyspace.replication_factor);
        let bytes = rows.saturating_mul(row.stored_bytes()).saturating_mul(rf) / u64::from(self.scenario.cluster.nodes);
        if bytes <= disk.capacity.u64() {
            return Ok(());
        }
        let message = format!(
            "the data does not fit: about {} GB a node on a `{}` of {} GB",
            bytes / 1_000_000_000,
            disk.name,
            disk.capacity.u64() / 1_000_000_000
        );
        self.fail(
            &["phases", index, "stress"],
            message,
            "writes this much",
            Some("more nodes, fewer replicas or a smaller range".into()),
        )
    }

    fn workload(&self, index: &str, phase: &Phase) -> Result<Workload> {
        let native = phase.mix.is_some() || phase.keys.is_some();
        let workload = match (&phase.stress, phase.ycsb, native) {
            (Some(line), None, false) if phase.arrival.is_none() => self.stress(index, "stress", line)?,
            (None, Some(ycsb), false) => self.ycsb(index, phase, ycsb)?,
            (None, None, true) => self.native(index, phase)?,
            (None, None, false) => {
                let help = "add `stress: \"write n=..\"`, `ycsb: a`, or `mix`, `keys` and `arrival`".to_string();
                return self.fail(&["phases", index], "this phase does nothing", "no workload", Some(help));
            }
            (stress, ..) => {
                let help = "keep one of `stress`, `ycsb`, and `mix` with `keys`".to_string();
                let key = if stress.is_some() { "stress" } else { "ycsb" };
                return self.fail(&["phases", index, key], "two workloads in one phase", "beside another", Some(help));
            }
        };
        let rf = self.scenario.schema.keyspace.replication_factor;
        if workload.consistency.replicas(rf) > rf {
            let message = format!(
                "{} needs {} replicas, the keyspace keeps {rf}",
                workload.consistency,
                workload.consistency.replicas(rf)
            );
            return self.fail(&["phases", index], message, "could never succeed", None);
        }
        Ok(workload)
    }

    fn stress(&self, index: &str, key: &str, line: &str) -> Result<Workload> {
        let path = ["phases", index, key];
        let command = stress::parse(line)
            .map_err(|e| self.document.error_within(&path, line, e.at.clone(), e.message, "here", e.help))?;
        let rf = self.scenario.schema.keyspace.replication_factor;
        if let Some(asked) = command.replication_factor.filter(|asked| *asked != rf) {
            let help = format!("the scenario's `schema.keyspace.replication_factor` is {rf}");
            let at = line.find("factor=").map_or(0..line.len(), |at| at..at + format!("factor={asked}").len());
            return Err(self.document.error_within(
                &path,
                line,
                at,
                format!("the command line asks for {asked} replicas"),
                "here",
                Some(help),
            ));
        }
        let mut workload = command.workload;
        // What the line does not say the schema does.
        if workload.row == Row::STRESS_DEFAULT {
            workload.row = self.scenario.schema.row.unwrap_or(workload.row);
        }
        Ok(workload)
    }

    fn ycsb(&self, index: &str, phase: &Phase, ycsb: Ycsb) -> Result<Workload> {
        let Some(records) = phase.records.filter(|records| *records > 0) else {
            let help = Some("add `records:`, the number of keys that were loaded".to_string());
            return self.fail(&["phases", index], "a YCSB workload needs `records`", "in this phase", help);
        };
        let phase = Phase { mix: Some(ycsb.mix()), keys: Some(ycsb.keys(records)), ..phase.clone() };
        self.native(index, &phase)
    }

    fn native(&self, index: &str, phase: &Phase) -> Result<Workload> {
        let missing = |key: &str| -> Result<()> {
            self.fail(&["phases", index], format!("a native workload needs `{key}`"), "in this phase", None)
        };
        let Some(mix) = phase.mix else { return missing("mix").and(Err(self.unreached())) };
        let Some(keys) = phase.keys else { return missing("keys").and(Err(self.unreached())) };
        let Some(arrival) = phase.arrival else { return missing("arrival").and(Err(self.unreached())) };
        if mix.total() == 0 {
            return self.fail(&["phases", index, "mix"], "a mix of nothing", "all zero", None);
        }
        let (from, to) = keys.range();
        if to < from {
            return self.fail(&["phases", index, "keys"], format!("the range {from}..{to} is empty"), "here", None);
        }
        if phase.operations.is_none() && phase.duration.is_none() {
            let help = Some("add `duration:` or `operations:`".to_string());
            return self.fail(&["phases", index], "this phase has no end", "in this phase", help);
        }
        let arrival = arrival.arrival();
        if arrival.threads() == 0 || arrival.rate().is_some_and(|rate| rate <= 0.0) {
            return self.fail(&["phases", index, "arrival"], "no operation would ever arrive", "nobody", None);
        }
        Ok(Workload {
            mix,
            keys,
            arrival,
            consistency: phase.consistency.unwrap_or(Consistency::Quorum),
            operations: phase.operations,
            duration_ns: phase.duration.map(|d| d.u64()),
            row: self.scenario.schema.row.unwrap_or(Row::STRESS_DEFAULT),
            connections_per_host: CONNECTIONS_PER_HOST,
        })
    }

    fn unreached(&self) -> Box<DocumentError> {
        self.document.error_nowhere("a key is missing".into(), None)
    }

    fn for_loader(&self, index: &str, phase: &Phase, full: &Workload, loader: u64) -> Result<Workload> {
        let mut own = full.clone();
        if phase.per_loader == PerLoader::Disjoint {
            let Keys::Sequence { from, to } = full.keys else {
                return self.fail(
                    &["phases", index, "per_loader"],
                    "only sequences can be disjoint",
                    "not a sequence",
                    Some("use `-pop seq=A..B`".into()),
                );
            };
            let count = to - from + 1;
            own.keys = Keys::Sequence { from: from + loader * count, to: to + loader * count };
        }
        if own.arrival.threads() == 0 {
            return self.fail(&["phases", index], "a workload without threads", "here", None);
        }
        Ok(own)
    }

    fn phase_exists(&self, path: &[&str], name: &str) -> Result<()> {
        let both = |p: &Phase| ["write", "read"].map(|side| format!("{}-{side}-slo", p.name));
        let is = |p: &Phase| p.name == name || (p.search.is_some() && both(p).iter().any(|n| n == name));
        if self.scenario.phases.iter().any(is) {
            return Ok(());
        }
        let names = || self.scenario.phases.iter().map(|p| p.name.as_str());
        let help = match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("phases: {}", names().collect::<Vec<_>>().join(", ")),
        };
        self.fail(path, format!("there is no phase `{name}`"), "named here", Some(help))
    }

    fn faults(&self) -> Result<()> {
        let nodes = self.scenario.cluster.nodes;
        for (i, fault) in self.scenario.faults.iter().enumerate() {
            let index = i.to_string();
            self.phase_exists(&["faults", &index, "at"], &fault.at.phase)?;
            let kinds = [fault.kill.is_some(), fault.partition.is_some(), fault.pause.is_some()];
            if kinds.iter().filter(|k| **k).count() != 1 {
                let help = Some("write one of `kill`, `partition` and `pause`".to_string());
                return self.fail(&["faults", &index], "a fault is one thing that goes wrong", "this one", help);
            }
            let kill = fault.kill.iter().map(|k| ("kill", k.node));
            let partition = fault.partition.iter().flat_map(|p| p.nodes.iter().map(|n| ("partition", *n)));
            let pause = fault.pause.iter().map(|p| ("pause", p.node));
            for (kind, node) in kill.chain(partition).chain(pause) {
                if node == 0 || node > nodes {
                    let help = Some(format!("nodes are counted from 1 to {nodes}"));
                    return self.fail(
                        &["faults", &index, kind],
                        format!("there is no node {node}"),
                        "named here",
                        help,
                    );
                }
            }
        }
        Ok(())
    }

    fn checks(&self) -> Result<()> {
        for (i, slo) in self.scenario.checks.slo.iter().enumerate() {
            let index = i.to_string();
            let at = |key| ["checks", "slo", index.as_str(), key];
            self.phase_exists(&at("phase"), &slo.phase)?;
            if slo.max.is_none() && slo.min.is_none() {
                return self.fail(
                    &["checks", "slo", &index],
                    "this check bounds nothing",
                    "no bound",
                    Some("add `max:` or `min:`".into()),
                );
            }
            for (key, bound) in [("max", &slo.max), ("min", &slo.min)] {
                let Some(text) = bound else { continue };
                if let Err(error) = slo.metric.parse_value(text) {
                    return self.fail(&at(key), error.to_string(), "this bound", None);
                }
            }
        }
        Ok(())
    }

    fn references(&self) -> Result<()> {
        let several = !self.scenario.cluster.systems.is_empty();
        for (i, reference) in self.scenario.reference.iter().enumerate() {
            let index = i.to_string();
            let at = |key| ["reference", index.as_str(), key];
            self.phase_exists(&at("phase"), &reference.phase)?;
            if let Err(error) = reference.metric.parse_value(&reference.value) {
                return self.fail(&at("value"), error.to_string(), "this value", None);
            }
            let reported = self.scenario.cluster.reported_as.as_ref();
            let names = || self.scenario.cluster.system_names().chain(reported).map(String::as_str);
            match &reference.system {
                None if several => {
                    let help = Some(format!("add `system:`, one of {}", names().collect::<Vec<_>>().join(", ")));
                    return self.fail(&["reference", &index], "whose result is this?", "this reference", help);
                }
                Some(name) if !names().any(|n| n == name) => {
                    let help = nearest(name, names()).map(|n| format!("did you mean `{n}`?"));
                    return self.fail(
                        &at("system"),
                        format!("`{name}` does not run in this scenario"),
                        "named here",
                        help,
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether the phase's command line has a word that begins so.
fn says(phase: &Phase, word: &str) -> bool {
    phase.stress.as_ref().is_some_and(|line| line.split_whitespace().any(|other| other.starts_with(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::PhaseShare;
    use crate::model::Quiesce;
    use crate::workload::Mix;

    fn experiment(name: &str) -> Experiment {
        read(&find(name).unwrap(), &Profiles::embedded()).unwrap()
    }

    #[test]
    fn every_embedded_scenario_is_read() {
        for name in names() {
            assert_eq!(experiment(name).scenario.name, name);
        }
    }

    #[test]
    fn a_scale_below_the_scenarios_least_is_raised() {
        let at = |name: &str, data: &str| {
            let ratio = Quantity::parse(data).unwrap();
            let rescale = |scale: &mut Scale| *scale = scale.with_data(ratio);
            let experiment = read_at(&find(name).unwrap(), &Profiles::embedded(), rescale).unwrap();
            (experiment.runs[0].scale.data.f64(), experiment.raised_from)
        };
        assert_eq!(at("lowend/writes-scylla", "1/400"), (1.0 / 400.0, None));
        assert_eq!(at("lowend/writes-scylla", "1/2000"), (1.0 / 500.0, Some(Quantity::parse("1/2000").unwrap())));
        assert_eq!(at("lowend/read-small", "1/2000"), (1.0 / 2000.0, None));
    }

    #[test]
    fn read_small_comes_out_scaled_and_per_loader() {
        let runs = experiment("lowend/read-small").runs;
        assert_eq!(
            runs.iter().map(|r| r.system.name.as_str()).collect::<Vec<_>>(),
            ["scylla-1.6.1", "cassandra-3.0.9"]
        );
        let populate = &runs[0].phases[0];
        let ranges: Vec<_> = populate.workloads.iter().map(|w| w.keys.range()).collect();
        assert_eq!(ranges, [(1, 270_258), (270_259, 540_516), (540_517, 810_774)]);
        assert_eq!(populate.workloads[0].operations, Some(270_258));
        let read = &runs[0].phases[1];
        assert_eq!((read.workloads.len(), read.quiesce), (3, Quiesce::Before));
        // The least warm-up, and the scenario's window.
        assert_eq!(read.workloads[0].duration_ns, Some(8_000_000_000));
        assert_eq!(runs[0].references.len(), 2);
    }

    #[test]
    fn shares_of_a_phase_use_streams_of_their_own() {
        let run = &experiment("lowend/read-small").runs[0];
        // A loader is one process, whose threads share what they have.
        assert_eq!(run.shards(), (7, 1));
        let shares: Vec<PhaseShare> = (0..2).flat_map(|p| (0..3).flat_map(move |l| run.shares(p, l))).collect();
        let streams: std::collections::BTreeSet<u64> = shares.iter().map(|s| s.stream).collect();
        assert_eq!((shares.len(), streams.len()), (6, 6));
        let memory = run.memory();
        assert_eq!(memory.engine, (15 * (1u64 << 30) - 3 * (1 << 29)) / 1000);
        // Scylla has 1,071 B of a row of which this engine has 300.
        let rows = |bytes: u64, each: u64| bytes / each;
        assert_eq!(rows(memory.memtable, 300), rows(memory.engine * 9 / 20, 1_071));
    }

    #[test]
    fn the_schema_for_editors_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema.json");
        let current = crate::model::json_schema();
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            fs::write(&path, &current).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap_or_default(), current, "run again with UPDATE_SCHEMA=1");
    }

    #[test]
    fn write_10k_has_one_loader() {
        // Half an hour, at 1/500 and at 1/50.
        for (name, duration_ns) in [("writes-scylla", 3_600_000_000), ("writes-cassandra", 36_000_000_000)] {
            let run = &experiment(&format!("lowend/{name}")).runs[0];
            assert_eq!(run.phases[2].workloads.len(), 1);
            assert_eq!(run.phases[2].workloads[0].duration_ns, Some(duration_ns));
            assert_eq!(run.references.len(), 5);
        }
    }

    #[test]
    fn bursts_last_as_long_as_the_floors_of_a_phase() {
        let part = |data: &str| {
            let data = hwprofiles::quantity::Quantity::parse(data).unwrap();
            let document = find("memcached-i4i/memory").unwrap();
            let experiment =
                read_at(&document, &Profiles::embedded(), |scale| (scale.data, scale.least) = (data, None)).unwrap();
            experiment.runs[0].burst_part()
        };
        // Half an hour, or the floors of its warm-up and of what is measured.
        assert_eq!((part("1"), part("1/1000"), part("1/20000")), (1.0, 1e-3, 200e6 / 1800e9));
    }

    #[test]
    fn a_phase_that_varies_has_as_many_operations_as_its_seed_says() {
        let run = &experiment("lowend/writes-scylla").runs[0];
        let of = |seed| run.clone().with_seed(seed).phases[0].workloads[0].operations.unwrap();
        let own = run.phases[0].workloads[0].operations.unwrap();
        assert_eq!((of(0), of(1)), (own, (own as f64 * (1.0 + 0.25 * 0.618_033_988_749_895)).round() as u64));
        let mut five: Vec<_> = (1..=5).map(of).collect();
        five.sort_unstable();
        assert!(five.windows(2).all(|two| two[1] - two[0] > own / 42) && five[4] < own * 5 / 4, "{five:?}");
        assert_eq!(run.clone().with_seed(7).phases[1].workloads, run.phases[1].workloads);
    }

    #[test]
    fn a_background_is_another_loader_for_as_long() {
        let run = &experiment("lowend/read-during-write-scylla").runs[0];
        let index = run.phases.iter().position(|phase| phase.background.is_some()).unwrap();
        let loads: Vec<Vec<PhaseShare>> = (0..3).map(|loader| run.shares(index, loader)).collect();
        assert_eq!(loads.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0]);
        assert_eq!(loads[1][0].shared.workload.mix, Mix::WRITE);
    }

    #[test]
    fn a_search_reports_each_side_of_its_load() {
        let run = &experiment("i4i-vs-i3/i3-disk").runs[0];
        assert_eq!(run.reported_as, "scylla-4.4.3/i3.4xlarge");
        let reported = |name: &str| -> Vec<String> {
            let phase = run.phases.iter().find(|phase| phase.name == name).unwrap();
            phase.reported().into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(reported("disk-read"), ["disk-read"]);
        assert_eq!(reported("disk-mixed"), ["disk-mixed-write-slo", "disk-mixed-read-slo"]);
    }
}
