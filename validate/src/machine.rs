//! This machine as the place of a scenario: its processors dealt out to nodes and loaders, and the same bounds for the
//! simulated hosts.

use hwprofiles::{Disk, Figure, Instance, Moment, Moments, Network, Profiles, Standing, System, UnknownProfile};
use scenarios::Run;

use crate::probe::network::{self, Wakes};
use crate::probe::spread::Spread;
use crate::real::Conditions;
use crate::speed::{self, Sight};

const SOURCE: &str = "the bounds of a local cluster";
const BESIDE: &str = "beside the real run";

#[derive(Debug, thiserror::Error)]
pub enum BoundsError {
    #[error("nodes and their loader need two processors; this process may use {0}")]
    OneProcessor(usize),
    #[error("a cluster needs at least one node")]
    NoNodes,
}

/// Which processors are whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// By node. Nodes have the same where there are more nodes than processors.
    pub nodes: Vec<Vec<usize>>,
    pub loaders: Vec<usize>,
    /// Nodes on one processor.
    pub nodes_sharing: usize,
}

impl Bounds {
    /// Loaders have a third of the processors, as a client spends about half of what a server does on an operation, and
    /// nodes equal parts of the rest.
    pub fn deal(nodes: usize, cpus: &[usize]) -> Result<Self, BoundsError> {
        if nodes == 0 {
            return Err(BoundsError::NoNodes);
        }
        if cpus.len() < 2 {
            return Err(BoundsError::OneProcessor(cpus.len()));
        }
        let (of_nodes, of_loaders) = cpus.split_at(cpus.len() - (cpus.len() / 3).max(1));
        let each = (of_nodes.len() / nodes).max(1);
        let places = (of_nodes.len() / each).min(nodes);
        let own = |node: usize| of_nodes[node % places * each..][..each].to_vec();
        Ok(Self {
            nodes: (0..nodes).map(own).collect(),
            loaders: of_loaders.to_vec(),
            nodes_sharing: nodes.div_ceil(places),
        })
    }

    /// Processors, and so shards, of a node.
    pub fn shards(&self) -> usize {
        self.nodes[0].len()
    }
}

/// What a real run's processors were like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Against {
    /// Times as fast as when the costs were found, the nodes' and the loaders'; where both are known.
    pub speed: [Option<f64>; 2],
    /// Part of their time that other threads had while there was work, the nodes' and the loaders'.
    pub taken: [f64; 2],
}

/// Profiles that describe a machine to the simulator.
#[derive(Clone, Debug)]
pub struct Machine {
    pub instance: Instance,
    pub disk: Disk,
    pub network: Network,
    pub system: System,
    pub loader_system: System,
}

impl Machine {
    /// `name`: of the instance, the disk and the network, as `orrery probe` names all three.
    pub fn find(profiles: &Profiles, name: &str, system: &str, loader_system: &str) -> Result<Self, UnknownProfile> {
        Ok(Self {
            instance: profiles.instance(name)?.clone(),
            disk: profiles.disk(name)?.clone(),
            network: profiles.network(name)?.clone(),
            system: profiles.system(system)?.clone(),
            loader_system: profiles.system(loader_system)?.clone(),
        })
    }

    /// The scenario on this machine: its nodes and loaders within `bounds`, its workloads as they are.
    pub fn host(&self, run: &Run, bounds: &Bounds) -> Run {
        let nodes = bounds.nodes.len() as u32;
        // Several loaders' threads share the loaders' processors.
        let loader_cpus = (bounds.loaders.len() / run.loader_nodes as usize).max(1);
        let loaders_sharing = (run.loader_nodes as usize * loader_cpus).div_ceil(bounds.loaders.len());
        let mut system = self.system.clone();
        // The mode is what the scenario tells, sizes are this system's.
        if let (Some(own), Some(told), Some(_)) =
            (&mut system.commitlog, &run.system.commitlog, run.settings.commitlog_sync)
        {
            own.sync = told.sync.clone();
        }
        if run.settings.busy_poll.is_some() {
            system.busy_poll = run.system.busy_poll.clone();
        }
        Run {
            reported_as: self.system.name.clone(),
            instance: self.part(bounds.shards(), bounds.nodes_sharing),
            nodes,
            data_disk: share_of(&self.disk, nodes),
            commitlog_disk: None,
            network: self.network.clone(),
            loader_system: self.loader_system.clone(),
            loader_instance: self.part(loader_cpus, loaders_sharing),
            replication_factor: run.replication_factor.min(nodes),
            system,
            ..run.clone()
        }
    }

    /// `run` on processors that are interrupted as these were beside the real run, and as fast or slow, and others', from
    /// moment to moment as they were in it.
    pub fn under(&self, run: &mut Run, conditions: &Conditions) -> Against {
        let sides = [
            (&mut run.instance, &self.system, &conditions.nodes),
            (&mut run.loader_instance, &self.loader_system, &conditions.loaders),
        ];
        let mut speed = [None; 2];
        for (side, (instance, system, sights)) in sides.into_iter().enumerate() {
            let interruptions = conditions.interruptions.iter().map(|seen| hwprofiles::Interruptions {
                every: Figure::new(seen.every_ns as f64, Standing::Measured, BESIDE),
                lasts: seen.lasts.quantiles(BESIDE),
            });
            instance.interruptions = interruptions.collect();
            if !conditions.wakes.is_empty() {
                let wakes = conditions.wakes.iter().map(Wakes::wake).collect::<Vec<_>>();
                instance.wake = Some(Spread::mean(&wakes).quantiles(BESIDE));
                let timers = conditions.wakes.iter().map(|wakes| wakes.timer).collect::<Vec<_>>();
                instance.timer = Some(Spread::mean(&timers).quantiles(BESIDE));
                let dozes: Vec<network::Doze> = conditions.wakes.iter().filter_map(Wakes::doze).collect();
                instance.doze = dozes.last().map(|doze| hwprofiles::Doze {
                    lasts: Figure::new(doze.lasts_ns as f64, Standing::Measured, BESIDE),
                    wake: Spread::mean(&dozes.iter().map(|doze| doze.wake).collect::<Vec<_>>()).quantiles(BESIDE),
                });
            }
            let reference = &system.costs.reference;
            let control = reference.control.as_ref().and(conditions.control(side));
            let level = control.map_or(1.0, |control| reference.slowness(control));
            speed[side] = control.map(|_| 1.0 / level);
            let span = |sights: &Vec<Sight>| {
                let paces: Vec<f64> = sights.iter().map(|sight| f64::from(sight.speed)).collect();
                let moment = |(sight, factor): (&Sight, f64)| Moment {
                    slowness: (level * factor) as f32,
                    taken_ns: sight.taken_ns,
                };
                sights.iter().zip(reference.unsteadiness(&paces)).map(moment).collect()
            };
            let spans = sights.iter().map(span).collect();
            instance.moments = Some(Moments { every_ns: speed::EVERY.as_nanos() as u64, spans });
        }
        Against { speed, taken: [&conditions.nodes, &conditions.loaders].map(|sights| speed::taken(sights)) }
    }

    /// Some of the instance's processors, each shared by `sharing`.
    fn part(&self, cpus: usize, sharing: usize) -> Instance {
        let mut part = self.instance.clone();
        let count = |n: usize| Figure::new(n as f64, Standing::Assumed, SOURCE);
        (part.vcpus, part.physical_cores) = (count(cpus), count(cpus));
        if sharing > 1 {
            // Each has its part of the time: right for what they do in all, too smooth for when.
            let clock = part.processor.clock.f64() / sharing as f64;
            part.processor.clock = Figure::new(clock, Standing::Assumed, SOURCE);
        }
        part
    }
}

/// One node's part of the one disk.
fn share_of(disk: &Disk, nodes: u32) -> Disk {
    let mut part = disk.clone();
    if nodes > 1 {
        for direction in [&mut part.read, &mut part.write] {
            let (iops, bandwidth) = (direction.iops.f64(), direction.bandwidth.f64());
            direction.iops = Figure::new(iops / f64::from(nodes), Standing::Assumed, SOURCE);
            direction.bandwidth = Figure::new(bandwidth / f64::from(nodes), Standing::Assumed, SOURCE);
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_dealt_out() {
        let deal = |nodes, cpus: usize| {
            let bounds = Bounds::deal(nodes, &(0..cpus).collect::<Vec<_>>()).unwrap();
            (bounds.nodes, bounds.loaders, bounds.nodes_sharing)
        };
        assert_eq!(deal(1, 2), (vec![vec![0]], vec![1], 1));
        assert_eq!(deal(3, 2), (vec![vec![0], vec![0], vec![0]], vec![1], 3));
        assert_eq!(deal(2, 6), (vec![vec![0, 1], vec![2, 3]], vec![4, 5], 1));
        assert_eq!(deal(3, 4), (vec![vec![0], vec![1], vec![2]], vec![3], 1));
        assert!(Bounds::deal(1, &[0]).is_err() && Bounds::deal(0, &[0, 1]).is_err());
    }

    #[test]
    fn a_scenario_moves_to_this_machine_with_its_workloads() {
        let profiles = Profiles::embedded();
        let machine = Machine::find(&profiles, "local", "orrery", "orrery-bench").unwrap();
        let document = scenarios::load::find("lowend/read-small").unwrap();
        let run = &scenarios::load::read(&document, &profiles).unwrap().runs[1];
        let moved = machine.host(run, &Bounds::deal(1, &[0, 1]).unwrap());
        assert_eq!((moved.nodes, moved.replication_factor, moved.shards()), (1, 1, (1, 1)));
        assert_eq!(moved.phases, run.phases);
        assert_eq!(moved.system.name, "orrery");
        // Three loaders on one processor.
        assert!(moved.loader_instance.processor.clock.f64() * 2.9 < machine.instance.processor.clock.f64());
    }
}
