//! `hosts.yaml`: servers that run already, of any make that speaks CQL, and the profiles that stand for them.
//!
//! ```yaml
//! nodes: [10.0.0.1:9042, 10.0.0.2:9042]
//! system: cassandra-3.0.9      # what to simulate; the scenario's own where a key is absent
//! instance: i4i.2xlarge
//! data_disk: i4i-4xlarge-nvme
//! network: one-zone
//! loader: {instance: c5.4xlarge, system: orrery-bench, cpus: [2, 3]}
//! ```

use std::net::{IpAddr, SocketAddr};

use hwprofiles::document::{Document, DocumentError};
use hwprofiles::{Profiles, UnknownProfile};
use scenarios::Run;
use serde::Deserialize;

const CQL_PORT: u16 = 9042;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostsFile {
    nodes: Vec<String>,
    #[serde(default)]
    system: Option<String>,
    #[serde(default)]
    instance: Option<String>,
    #[serde(default)]
    data_disk: Option<String>,
    #[serde(default)]
    network: Option<String>,
    #[serde(default)]
    loader: LoaderFile,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoaderFile {
    #[serde(default)]
    instance: Option<String>,
    #[serde(default)]
    system: Option<String>,
    /// Of this machine; none: threads are not pinned.
    #[serde(default)]
    cpus: Vec<usize>,
}

/// Servers to drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Hosts {
    pub nodes: Vec<SocketAddr>,
    pub loader_cpus: Vec<usize>,
    file: HostsFile,
}

impl Hosts {
    pub fn read(document: &Document) -> Result<Self, Box<DocumentError>> {
        let file: HostsFile = document.parse()?;
        if file.nodes.is_empty() {
            let help = Some("write `nodes: [ADDRESS:PORT, ..]`".to_string());
            return Err(document.error_in(&["nodes"], "there is no server to drive", "empty", help));
        }
        let mut nodes = Vec::new();
        for (index, text) in file.nodes.iter().enumerate() {
            let plain = || text.parse().map(|ip: IpAddr| SocketAddr::new(ip, CQL_PORT)).ok();
            let Some(address) = text.parse().ok().or_else(plain) else {
                let message = format!("`{text}` is not an IP address, with or without :PORT");
                return Err(document.error_in(&["nodes", &index.to_string()], message, "this one", None));
            };
            nodes.push(address);
        }
        Ok(Self { nodes, loader_cpus: file.loader.cpus.clone(), file })
    }

    /// The scenario with what the file says in place of its own.
    pub fn host(&self, run: &Run, document: &Document, profiles: &Profiles) -> Result<Run, Box<DocumentError>> {
        fn or_own<'a, T: Clone + 'a>(
            document: &Document,
            path: &[&str],
            name: &Option<String>,
            find: impl FnOnce(&str) -> Result<&'a T, UnknownProfile>,
            own: &T,
        ) -> Result<T, Box<DocumentError>> {
            let Some(name) = name else { return Ok(own.clone()) };
            let found = find(name).cloned();
            found.map_err(|error| document.error_in(path, error.to_string(), "named here", Some(error.help())))
        }
        let file = &self.file;
        let system = or_own(document, &["system"], &file.system, |name| profiles.system(name), &run.system)?;
        if system.memory.is_none() {
            let message = format!("`{}` is a loading client, not a server", system.name);
            return Err(document.error_in(&["system"], message, "named here", None));
        }
        let nodes = self.nodes.len() as u32;
        Ok(Run {
            nodes,
            replication_factor: run.replication_factor.min(nodes),
            reported_as: file.system.clone().unwrap_or_else(|| run.reported_as.clone()),
            system,
            instance: or_own(document, &["instance"], &file.instance, |name| profiles.instance(name), &run.instance)?,
            data_disk: or_own(document, &["data_disk"], &file.data_disk, |name| profiles.disk(name), &run.data_disk)?,
            // The commit log's disk is known where the data's is not told either.
            commitlog_disk: run.commitlog_disk.clone().filter(|_| file.data_disk.is_none()),
            network: or_own(document, &["network"], &file.network, |name| profiles.network(name), &run.network)?,
            loader_instance: or_own(
                document,
                &["loader", "instance"],
                &file.loader.instance,
                |name| profiles.instance(name),
                &run.loader_instance,
            )?,
            loader_system: or_own(
                document,
                &["loader", "system"],
                &file.loader.system,
                |name| profiles.system(name),
                &run.loader_system,
            )?,
            ..run.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Hosts, Box<DocumentError>> {
        Hosts::read(&Document::new("hosts.yaml", text))
    }

    #[test]
    fn addresses_may_leave_the_port_out() {
        let hosts = read("nodes: [127.0.0.1, 127.0.0.2:9043]\nloader: {cpus: [1]}\n").unwrap();
        assert_eq!(hosts.nodes.iter().map(SocketAddr::port).collect::<Vec<_>>(), [9042, 9043]);
        assert_eq!(hosts.loader_cpus, [1]);
    }

    #[test]
    fn mistakes_have_line_and_column() {
        for (text, place, said) in [
            ("nodes: [127.0.0.1]\nsytem: orrery\n", (2, 1), "system"),
            ("nodes:\n  - 127.0.0.1\n  - somewhere:9042\n", (3, 5), "not an IP address"),
            ("nodes: []\n", (1, 8), "no server"),
            ("nodes: [127.0.0.1]\nloader: {cpu: [1]}\n", (2, 10), "cpus"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!((error.line, error.column), place, "{text}: {error}");
            let help = error.help.clone().unwrap_or_default();
            assert!(format!("{error} {help}").contains(said), "{text}: {error} {help}");
        }
    }

    #[test]
    fn unknown_profiles_come_with_the_nearest() {
        let profiles = Profiles::embedded();
        let document = Document::new("hosts.yaml", "nodes: [127.0.0.1]\ninstance: i4i.2xlrage\n");
        let scenario = scenarios::load::find("lowend/read-small").unwrap();
        let run = &scenarios::load::read(&scenario, &profiles).unwrap().runs[0];
        let error = Hosts::read(&document).unwrap().host(run, &document, &profiles).unwrap_err();
        assert_eq!((error.line, error.column), (2, 11));
        assert_eq!(error.help.as_deref(), Some("did you mean `i4i.2xlarge`?"));
        let whole = Document::new("hosts.yaml", "nodes: [127.0.0.1]\ninstance: i4i.2xlarge\n");
        let moved = Hosts::read(&whole).unwrap().host(run, &whole, &profiles).unwrap();
        assert_eq!((moved.nodes, moved.instance.name.as_str()), (1, "i4i.2xlarge"));
    }
}
