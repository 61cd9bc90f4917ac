//! What a run rests on that nobody published: the assumed figures of all profiles that it is made of.

use hwprofiles::{Assumed, assumed, moved};

use crate::run::Run;

/// One of a run's profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    System,
    Instance,
    DataDisk,
    CommitlogDisk,
    Network,
    LoaderSystem,
    LoaderInstance,
}

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Part::System => "system",
            Part::Instance => "instance",
            Part::DataDisk => "data disk",
            Part::CommitlogDisk => "commit log disk",
            Part::Network => "network",
            Part::LoaderSystem => "loaders' system",
            Part::LoaderInstance => "loaders' instance",
        }
    }
}

impl Run {
    pub fn assumed(&self) -> Vec<(Part, Assumed)> {
        let mut all = Vec::new();
        let mut add = |part, of: Vec<Assumed>| all.extend(of.into_iter().map(|assumed| (part, assumed)));
        add(Part::System, assumed(&self.system));
        add(Part::Instance, assumed(&self.instance));
        add(Part::DataDisk, assumed(&self.data_disk));
        self.commitlog_disk.iter().for_each(|disk| add(Part::CommitlogDisk, assumed(disk)));
        add(Part::Network, assumed(&self.network));
        add(Part::LoaderSystem, assumed(&self.loader_system));
        add(Part::LoaderInstance, assumed(&self.loader_instance));
        all
    }

    /// The same run with one figure of one profile times `factor`; `None` if the profile cannot be so.
    pub fn with_moved(&self, part: Part, path: &str, factor: f64) -> Option<Run> {
        let mut run = self.clone();
        match part {
            Part::System => run.system = moved(&run.system, path, factor)?,
            Part::Instance => run.instance = moved(&run.instance, path, factor)?,
            Part::DataDisk => run.data_disk = moved(&run.data_disk, path, factor)?,
            Part::CommitlogDisk => run.commitlog_disk = Some(moved(run.commitlog_disk.as_ref()?, path, factor)?),
            Part::Network => run.network = moved(&run.network, path, factor)?,
            Part::LoaderSystem => run.loader_system = moved(&run.loader_system, path, factor)?,
            Part::LoaderInstance => run.loader_instance = moved(&run.loader_instance, path, factor)?,
        }
        Some(run)
    }

    /// The same run without the phases behind the last one that a reference names, and with the references of `phase`
    /// only, if one is wanted.
    pub fn up_to_references(mut self, phase: Option<&str>) -> Run {
        self.references.retain(|reference| phase.is_none_or(|phase| reference.phase == phase));
        let is_named = |name: &str| self.references.iter().any(|reference| reference.phase == name);
        let last = self.phases.iter().rposition(|phase| phase.reported().iter().any(|(name, _)| is_named(name)));
        self.phases.truncate(last.map_or(0, |last| last + 1));
        self
    }
}

#[cfg(test)]
mod tests {
    use hwprofiles::Profiles;

    use super::*;
    use crate::load;

    #[test]
    fn what_is_moved_is_one_figure_of_one_part() {
        let document = load::find("lowend/read-small").unwrap();
        let run = load::read(&document, &Profiles::embedded()).unwrap().runs.remove(1).up_to_references(None);
        let names = |run: &Run| run.phases.iter().map(|phase| phase.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&run), ["populate", "read-small"]);
        let first = run.clone().up_to_references(Some("populate"));
        assert_eq!((names(&first), first.references.len()), (vec!["populate".to_string()], 1));
        assert!(run.clone().up_to_references(Some("read-large")).phases.is_empty());
        let all = run.assumed();
        let named = |part: Part, path: &str| all.iter().any(|(p, assumed)| *p == part && assumed.path == path);
        assert!(named(Part::System, "costs.work.compaction") && named(Part::Network, "rtt"));
        assert!(named(Part::CommitlogDisk, "flush") && named(Part::LoaderSystem, "costs.work.client-request"));
        let moved = run.with_moved(Part::Instance, "processor.ipc_factor", 1.2).unwrap();
        assert!((moved.instance.vcpu_speed() / run.instance.vcpu_speed() - 1.2).abs() < 1e-9);
        assert_eq!((moved.system, moved.loader_instance), (run.system.clone(), run.loader_instance.clone()));
        assert!(run.with_moved(Part::Network, "nothing", 1.2).is_none());
    }
}
