//! All profiles by kind and name: those in the binary, overridden by those of a folder of the user's.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use miette::Diagnostic;

use crate::cost::{CostFile, CostTable};
use crate::disk::Disk;
use crate::document::{Document, DocumentError};
use crate::instance::{Instance, InstanceFile};
use crate::nearest::nearest;
use crate::network::Network;
use crate::processor::Processor;
use crate::system::{System, Threading};

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

#[derive(Clone, Debug)]
pub struct Profiles {
    pub processors: BTreeMap<String, Processor>,
    pub instances: BTreeMap<String, Instance>,
    pub disks: BTreeMap<String, Disk>,
    pub networks: BTreeMap<String, Network>,
    pub systems: BTreeMap<String, System>,
}

#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ProfileError {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Document(#[from] Box<DocumentError>),
    #[error("cannot read profiles from {path}")]
    Unreadable { path: String, source: io::Error },
}

/// A name that no profile has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {kind} profile `{name}`")]
pub struct UnknownProfile {
    pub kind: &'static str,
    pub name: String,
    pub nearest: Option<String>,
    pub known: Vec<String>,
}

impl UnknownProfile {
    /// What to do about it, for an error's help.
    pub fn help(&self) -> String {
        match &self.nearest {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known {} profiles: {}", self.kind, self.known.join(", ")),
        }
    }
}

impl Profiles {
    /// The profiles that the binary carries.
    pub fn embedded() -> Self {
        let documents = EMBEDDED
            .iter()
            .map(|(folder, file, text)| (*folder, Document::new(format!("hwprofiles/{folder}/{file}"), *text)));
        Self::read(documents).expect("the embedded profiles are read by this crate's tests")
    }

    /// The embedded profiles and, over them, those in `folder/{processors,instances,disks,networks,systems}/*.yaml`.
    pub fn with_folder(folder: &Path) -> Result<Self, ProfileError> {
        let mut documents: Vec<(&str, Document)> = EMBEDDED
            .iter()
            .map(|(kind, file, text)| (*kind, Document::new(format!("hwprofiles/{kind}/{file}"), *text)))
            .collect();
        let unreadable = |path: &Path| {
            let path = path.display().to_string();
            move |source| ProfileError::Unreadable { path, source }
        };
        fs::read_dir(folder).map_err(unreadable(folder))?;
        for kind in ["processors", "instances", "disks", "networks", "systems"] {
            let path = folder.join(kind);
            if !path.is_dir() {
                continue;
            }
            let entries =
                fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(unreadable(&path))?;
            let mut files: Vec<_> = entries.into_iter().map(|e| e.path()).collect();
            files.sort();
            for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "yaml")) {
                let text = fs::read_to_string(file).map_err(unreadable(file))?;
                documents.push((kind, Document::new(file.display().to_string(), text)));
            }
        }
        Ok(Self::read(documents.into_iter())?)
    }

    /// Later documents replace earlier ones of the same kind and name.
    fn read<'a>(documents: impl Iterator<Item = (&'a str, Document)>) -> Result<Self, Box<DocumentError>> {
        let mut processors = BTreeMap::new();
        let mut instance_files = Vec::new();
        let mut disks = BTreeMap::new();
        let mut networks = BTreeMap::new();
        let mut systems = BTreeMap::new();
        let mut system_files: BTreeMap<String, (System<CostFile>, Document)> = BTreeMap::new();
        for (folder, document) in documents {
            match folder {
                "processors" => put(&mut processors, document.parse::<Processor>()?, |p| &p.name),
                "instances" => {
                    let file: InstanceFile = document.parse()?;
                    let rises = file.quantiles().all(|times| times.sampler().is_some());
                    rising(&document, &["wake"], rises)?;
                    instance_files.push((file, document));
                }
                "disks" => {
                    let disk: Disk = document.parse()?;
                    let falling = disk.falling();
                    rising(&document, falling.as_deref().unwrap_or_default(), falling.is_none())?;
                    put(&mut disks, disk, |d| &d.name);
                }
                "networks" => {
                    let network: Network = document.parse()?;
                    rising(&document, &["rtt"], network.rtt.sampler().is_some())?;
                    let rises = network.zones.as_ref().is_none_or(|zones| zones.rtt.sampler().is_some());
                    rising(&document, &["zones", "rtt"], rises)?;
                    put(&mut networks, network, |n| &n.name);
                }
                "systems" => {
                    let system: System<CostFile> = document.parse()?;
                    let rises = system.pauses.as_ref().is_none_or(|p| p.pause.sampler().is_some());
                    rising(&document, &["pauses", "pause"], rises)?;
                    let rises = match &system.threading {
                        Threading::Pool { wake: Some(wake), .. } => wake.sampler().is_some(),
                        _ => true,
                    };
                    rising(&document, &["threading", "pool", "wake"], rises)?;
                    let rises = system.start.as_ref().is_none_or(|start| start.stop.sampler().is_some());
                    rising(&document, &["start", "stop"], rises)?;
                    system_files.insert(system.name.clone(), (system, document));
                }
                other => unreachable!("folder {other} is not a kind of profile"),
            }
        }
        // Instances last: their processors may come from any file.
        let mut instances = BTreeMap::new();
        for (file, document) in instance_files {
            let processor = find("processor", &processors, file.processor_name())
                .map_err(|e| document.error_in(&["processor"], e.to_string(), "named here", Some(e.help())))?
                .clone();
            put(&mut instances, file.resolve(processor), |i| &i.name);
        }
        for name in system_files.keys() {
            let costs = costs(name, &system_files, system_files.len())?;
            systems.insert(name.clone(), system_files[name].0.clone().with_costs(costs));
        }
        Ok(Self { processors, instances, disks, networks, systems })
    }

    pub fn instance(&self, name: &str) -> Result<&Instance, UnknownProfile> {
        find("instance", &self.instances, name)
    }

    pub fn disk(&self, name: &str) -> Result<&Disk, UnknownProfile> {
        find("disk", &self.disks, name)
    }

    pub fn network(&self, name: &str) -> Result<&Network, UnknownProfile> {
        find("network", &self.networks, name)
    }

    pub fn system(&self, name: &str) -> Result<&System, UnknownProfile> {
        find("system", &self.systems, name)
    }
}

/// A system's cost table; those of others that it follows are found through at most `depth` files.
fn costs(
    name: &str,
    files: &BTreeMap<String, (System<CostFile>, Document)>,
    depth: usize,
) -> Result<CostTable, Box<DocumentError>> {
    let (system, document) = &files[name];
    let base = match &system.costs.of {
        None => None,
        Some(of) if depth == 0 => {
            let help = Some("one of them has to write its costs out".to_string());
            return Err(document.error_in(
                &["costs", "of"],
                format!("the costs of `{of}` follow themselves"),
                "here",
                help,
            ));
        }
        Some(of) => {
            find("system", files, of)
                .map_err(|e| document.error_in(&["costs", "of"], e.to_string(), "named here", Some(e.help())))?;
            Some(costs(of, files, depth - 1)?)
        }
    };
    system.costs.clone().resolve(base.as_ref()).ok_or_else(|| {
        let help =
            Some("keep one: costs `of` another system, or costs of one's own with their `reference`".to_string());
        document.error_in(&["costs"], "these costs are for no processor, or for two", "here", help)
    })
}

fn put<T>(map: &mut BTreeMap<String, T>, profile: T, name: impl Fn(&T) -> &String) {
    map.insert(name(&profile).clone(), profile);
}

fn rising(document: &Document, path: &[&str], rises: bool) -> Result<(), Box<DocumentError>> {
    if rises {
        return Ok(());
    }
    let help = "min, low, mid, high and max must not fall".to_string();
    Err(document.error_in(path, "the points of this distribution do not rise", "these", Some(help)))
}

fn find<'a, T>(kind: &'static str, map: &'a BTreeMap<String, T>, name: &str) -> Result<&'a T, UnknownProfile> {
    map.get(name).ok_or_else(|| UnknownProfile {
        kind,
        name: name.to_string(),
        nearest: nearest(name, map.keys().map(String::as_str)).map(str::to_string),
        known: map.keys().cloned().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_profile_is_read_and_named_as_its_file() {
        let profiles = Profiles::embedded();
        for (folder, file, _) in EMBEDDED {
            let name = file.trim_end_matches(".yaml");
            let known = match *folder {
                "processors" => profiles.processors.contains_key(name),
                "instances" => profiles.instances.contains_key(name),
                "disks" => profiles.disks.contains_key(name),
                "networks" => profiles.networks.contains_key(name),
                _ => profiles.systems.contains_key(name),
            };
            assert!(known, "{folder}/{file} does not define `{name}`");
        }
    }

    #[test]
    fn no_profile_holds_a_bare_number() {
        for (folder, file, text) in EMBEDDED {
            assert_eq!(crate::bare_numbers(text), Vec::<String>::new(), "{folder}/{file}");
        }
    }

    #[test]
    fn local_disks_of_instances_exist() {
        let profiles = Profiles::embedded();
        for instance in profiles.instances.values() {
            for disk in &instance.local_disks {
                assert!(profiles.disk(disk).unwrap().family.is_local(), "{} of {}", disk, instance.name);
            }
        }
    }

    #[test]
    fn a_folder_overrides_and_its_errors_have_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let disks = folder.path().join("networks");
        fs::create_dir(&disks).unwrap();
        let text = EMBEDDED.iter().find(|(_, file, _)| *file == "one-zone.yaml").unwrap().2;
        fs::write(disks.join("mine.yaml"), text.replace("5 Gbps", "1 Gbps")).unwrap();
        let profiles = Profiles::with_folder(folder.path()).unwrap();
        assert_eq!(profiles.network("one-zone").unwrap().per_flow.f64(), 125e6);

        // An instance too, wherever the folder's path stands in the order of paths.
        let instances = folder.path().join("instances");
        fs::create_dir(&instances).unwrap();
        let (_, _, local) =
            EMBEDDED.iter().find(|(kind, file, _)| (*kind, *file) == ("instances", "local.yaml")).unwrap();
        fs::write(instances.join("local.yaml"), local.replace("ram: 23 GiB", "ram: 5 GiB")).unwrap();
        let profiles = Profiles::with_folder(folder.path()).unwrap();
        assert_eq!(profiles.instance("local").unwrap().ram.u64(), 5 << 30);

        fs::write(disks.join("mine.yaml"), text.replace("per_flow: 5 Gbps", "per_flow: 5 Gbs")).unwrap();
        let ProfileError::Document(error) = Profiles::with_folder(folder.path()).unwrap_err() else {
            panic!("a place")
        };
        assert_eq!((error.line, error.column), (9, 11));
        assert!(error.message.contains("did you mean `Gbps`"), "{}", error.message);
    }

    #[test]
    fn a_start_whose_stops_do_not_rise_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let systems = folder.path().join("systems");
        fs::create_dir(&systems).unwrap();
        let (_, _, text) = EMBEDDED.iter().find(|(_, file, _)| *file == "cassandra-stress.yaml").unwrap();
        fs::write(systems.join("mine.yaml"), text.replace("mid: 238 ms", "mid: 138 ms")).unwrap();
        let ProfileError::Document(error) = Profiles::with_folder(folder.path()).unwrap_err() else {
            panic!("a place")
        };
        assert!(error.message.contains("do not rise"), "{}", error.message);
    }

    #[test]
    fn unknown_names_come_with_the_nearest() {
        let error = Profiles::embedded().instance("c3.2xlrage").unwrap_err();
        assert_eq!(error.to_string(), "there is no instance profile `c3.2xlrage`");
        assert_eq!(error.help(), "did you mean `c3.2xlarge`?");
    }
}
