//! Faults, one file each, and schedules of them.
//!
//! A fault strikes at one virtual time and ends at another. A [`Schedule`] is drawn from the world's fault stream
//! before anything happens, so that it depends on the seed alone and not on what the system under test does, and is
//! told in words, so that a failure can be read.

mod bit_rot;
mod disk_trouble;
mod kill;
mod no_space;
mod partition;
mod pause;
mod power_loss;

use std::fmt;
use std::ops::Range;
use std::rc::Rc;

pub use bit_rot::BitRot;
pub use disk_trouble::DiskTrouble;
pub use kill::Kill;
pub use no_space::NoSpace;
pub use partition::{Partition, Way};
pub use pause::Pause;
pub use power_loss::PowerLoss;

use crate::host::HostId;
use crate::random::{Generator, Stream};
use crate::world::World;

/// Something that goes wrong and ends. Its text reads behind "begins: " and "ends: ".
pub trait Fault: fmt::Display {
    fn strike(&self, world: &Rc<World>);
    fn end(&self, world: &Rc<World>);
}

pub struct Window {
    pub at_ns: u64,
    pub until_ns: u64,
    pub fault: Box<dyn Fault>,
}

/// What a lane draws its faults from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    PowerLoss,
    Kill,
    Pause,
    /// From the other nodes, or from everybody; both ways or one way.
    Partition,
}

/// Faults that follow one another: a gap, a fault, a gap, ..
#[derive(Clone, Debug)]
pub struct Lane {
    /// Each as likely as the next; name one twice to have it twice as often.
    pub kinds: Vec<Kind>,
    pub gap_ns: Range<u64>,
    pub lasts_ns: Range<u64>,
}

/// What a schedule is drawn from. Lanes run side by side and never strike one node at the same time, so with as many
/// lanes as nodes everything may be down at once.
#[derive(Clone, Debug)]
pub struct Plan {
    pub lanes: Vec<Lane>,
    /// No fault begins before; all have ended by then.
    pub within_ns: Range<u64>,
    pub nodes: Vec<HostId>,
    /// Hosts that are no nodes and may be cut off from a node.
    pub clients: Vec<HostId>,
}

/// Windows in the order of their begin.
#[derive(Default)]
pub struct Schedule {
    windows: Vec<Window>,
}

/// The schedules' own part of the fault stream.
const PART: u64 = 1;

impl Schedule {
    pub fn new(mut windows: Vec<Window>) -> Self {
        windows.sort_by_key(|window| (window.at_ns, window.until_ns));
        Self { windows }
    }

    /// Draws a schedule from the world's fault stream.
    pub fn draw(world: &World, plan: &Plan) -> Self {
        let mut random = world.random(Stream::Faults, &[PART]);
        let mut struck: Vec<(Range<u64>, HostId)> = Vec::new();
        let mut windows = Vec::new();
        let mut next_at: Vec<u64> =
            plan.lanes.iter().map(|lane| plan.within_ns.start + within(&mut random, &lane.gap_ns)).collect();
        // The lane whose next fault comes first draws it, so that it knows which nodes the others have struck.
        while let Some((index, at_ns)) = next_at.iter().copied().enumerate().min_by_key(|(_, at)| *at)
            && at_ns < plan.within_ns.end
        {
            let lane = &plan.lanes[index];
            let until_ns = (at_ns + within(&mut random, &lane.lasts_ns)).min(plan.within_ns.end);
            next_at[index] = until_ns + within(&mut random, &lane.gap_ns).max(1);
            let is_struck = |node: &HostId| struck.iter().any(|(when, other)| other == node && when.end >= at_ns);
            let free: Vec<HostId> = plan.nodes.iter().copied().filter(|node| !is_struck(node)).collect();
            if free.is_empty() {
                continue;
            }
            let node = free[random.below(free.len() as u64) as usize];
            let kind = lane.kinds[random.below(lane.kinds.len() as u64) as usize];
            struck.push((at_ns..until_ns, node));
            windows.push(Window { at_ns, until_ns, fault: kind.draw(&mut random, node, plan) });
        }
        Self::new(windows)
    }

    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// When the last fault has ended.
    pub fn ends_ns(&self) -> u64 {
        self.windows.iter().map(|window| window.until_ns).max().unwrap_or(0)
    }

    /// Lets the faults happen in `world`, which has not come to the first of them yet. `told` hears of each begin and
    /// end, in words.
    pub fn install(self, world: &Rc<World>, told: impl Fn(u64, String) + 'static) {
        let told = Rc::new(told);
        for Window { at_ns, until_ns, fault } in self.windows {
            let fault: Rc<dyn Fault> = Rc::from(fault);
            let (begins, tell) = (fault.clone(), told.clone());
            world.at(at_ns, move |world| {
                tell(world.now(), format!("begins: {begins}"));
                begins.strike(world);
            });
            let tell = told.clone();
            world.at(until_ns, move |world| {
                tell(world.now(), format!("ends: {fault}"));
                fault.end(world);
            });
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Window { at_ns, until_ns, fault } in &self.windows {
            writeln!(f, "{at_ns:>14} ns .. {until_ns} ns  {fault}")?;
        }
        Ok(())
    }
}

fn within(random: &mut Generator, range: &Range<u64>) -> u64 {
    range.start + random.below((range.end - range.start).max(1))
}

impl Kind {
    fn draw(self, random: &mut Generator, node: HostId, plan: &Plan) -> Box<dyn Fault> {
        match self {
            Kind::PowerLoss => Box::new(PowerLoss { node }),
            Kind::Kill => Box::new(Kill { node }),
            Kind::Pause => Box::new(Pause { node }),
            Kind::Partition => {
                let mut from: Vec<HostId> = plan.nodes.iter().copied().filter(|other| *other != node).collect();
                if random.chance(1, 2) {
                    from.extend(&plan.clients);
                }
                let way = [Way::Both, Way::Both, Way::In, Way::Out][random.below(4) as usize];
                Box::new(Partition { node, from, way })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Settings;

    fn drawn(seed: u64) -> (String, Vec<(u64, u64, String)>) {
        crate::shell::run(seed, Settings::default(), |world| {
            let lane = |kinds: &[Kind]| Lane { kinds: kinds.to_vec(), gap_ns: 100..1_000, lasts_ns: 100..2_000 };
            let schedule = Schedule::draw(
                world,
                &Plan {
                    lanes: vec![lane(&[Kind::PowerLoss, Kind::Kill]), lane(&[Kind::Partition, Kind::Pause])],
                    within_ns: 1_000..50_000,
                    nodes: (0..3).map(HostId).collect(),
                    clients: vec![HostId(3)],
                },
            );
            let windows = schedule.windows.iter();
            (schedule.to_string(), windows.map(|w| (w.at_ns, w.until_ns, w.fault.to_string())).collect())
        })
        .value
    }

    #[test]
    fn faults_stay_within_their_time_and_never_meet_on_a_node() {
        for seed in 0..50 {
            let (_, windows) = drawn(seed);
            assert!(windows.len() > 20);
            assert!(windows.iter().all(|(at, until, _)| *at >= 1_000 && at <= until && *until <= 50_000));
            let node = |text: &str| text.split("host ").nth(1).map(|rest| rest.chars().take(1).collect::<String>());
            for (index, (at, _, text)) in windows.iter().enumerate() {
                for (_, until, other) in &windows[..index] {
                    assert!(until < at || node(text) != node(other), "{text} and {other}");
                }
            }
            let side_by_side = windows.windows(2).any(|pair| pair[1].0 < pair[0].1);
            assert!(side_by_side, "lanes overlap");
        }
    }

    #[test]
    fn a_schedule_is_its_seed_s() {
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
