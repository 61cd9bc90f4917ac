//! What hosts used of what they have, and what their tasks waited for: from counters, taken now and then.

use hwprofiles::Family;
use reactor::Group;
use scenarios::{Explanation, On, Resource, Run, Timeline, Wait};

use crate::HostCounters;

/// More steps than this are merged two by two.
const STEPS_MAX: usize = 128;

/// One kind of resource between two looks: each place's name, utilisation (1 is all of it) and queue (how many waited).
struct Usage {
    name: String,
    places: Vec<(String, f64, f64)>,
}

/// Looks at the counters of a phase, first the servers' and then the loaders'.
pub(crate) struct Watch {
    looks: Vec<(u64, Vec<HostCounters>)>,
    step_ns: u64,
}

impl Watch {
    pub fn new(now: u64, step_ns: u64, counters: Vec<HostCounters>) -> Self {
        Self { looks: vec![(now, counters)], step_ns }
    }

    /// Counters are asked for when a step has passed.
    pub fn look(&mut self, now: u64, counters: impl FnOnce() -> Vec<HostCounters>) {
        if self.looks.last().is_some_and(|(last, _)| now < last + self.step_ns) {
            return;
        }
        self.looks.push((now, counters()));
        if self.looks.len() > STEPS_MAX {
            let mut index = 0;
            self.looks.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.step_ns *= 2;
        }
    }

    /// `waits`: of the measured window, from [`waits`].
    pub fn explain(self, run: &Run, waits: Vec<Wait>) -> Explanation {
        let steps: Vec<Vec<Usage>> =
            self.looks.windows(2).map(|pair| usages(run, &pair[0].1, &pair[1].1, pair[1].0 - pair[0].0)).collect();
        let Some(first) = steps.first() else { return Explanation { timelines: Vec::new(), waits } };
        let timelines = first.iter().enumerate().map(|(kind, usage)| {
            let of_kind = || steps.iter().map(|step| &step[kind]);
            Timeline {
                name: usage.name.clone(),
                step_ns: self.step_ns,
                utilisation_mean: of_kind().map(|usage| rounded(usage.mean().min(1.0))).collect(),
                utilisation_max: of_kind().map(|usage| rounded(usage.busiest().min(1.0))).collect(),
                queue: of_kind().map(|usage| rounded(usage.queue())).collect(),
            }
        });
        let is_used =
            |timeline: &Timeline| timeline.utilisation_max.iter().chain(&timeline.queue).any(|&value| value > 0.0);
        Explanation { timelines: timelines.filter(is_used).collect(), waits }
    }
}

/// Four digits behind the point: what a plot shows, and no more.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

impl Usage {
    fn mean(&self) -> f64 {
        self.places.iter().map(|(_, used, _)| used).sum::<f64>() / self.places.len().max(1) as f64
    }

    fn busiest(&self) -> f64 {
        self.places.iter().map(|(_, used, _)| *used).fold(0.0, f64::max)
    }

    fn queue(&self) -> f64 {
        self.places.iter().map(|(.., queue)| queue).sum::<f64>() / self.places.len().max(1) as f64
    }
}

/// Utilisation of everything that can saturate, over `ns`.
pub(crate) fn resources(run: &Run, before: &[HostCounters], after: &[HostCounters], ns: u64) -> Vec<Resource> {
    let resource = |usage: Usage| {
        let mean = usage.mean().min(1.0);
        let (place, most, queue) = usage.places.into_iter().max_by(|(_, a, _), (_, b, _)| a.total_cmp(b))?;
        Some(Resource {
            name: usage.name,
            place,
            utilisation_mean: mean,
            utilisation_max: most.min(1.0),
            queue: rounded(queue),
        })
    };
    usages(run, before, after, ns).into_iter().filter_map(resource).collect()
}

fn usages(run: &Run, before: &[HostCounters], after: &[HostCounters], ns: u64) -> Vec<Usage> {
    let servers = run.nodes as usize;
    let mut all = Vec::new();
    let mut add = |name: &str, places: Vec<(String, f64, f64)>| {
        if !places.is_empty() {
            all.push(Usage { name: name.into(), places });
        }
    };
    let hosts = before.iter().zip(after).enumerate();
    let hosts: Vec<_> = hosts.map(|(host, (before, after))| (host, before, after)).collect();
    let (server_hosts, loader_hosts) = hosts.split_at(servers.min(hosts.len()));
    let kinds = [
        ("server", "node", server_hosts, &run.system, &run.instance),
        ("loader", "loader", loader_hosts, &run.loader_system, &run.loader_instance),
    ];
    for (kind, place, hosts, system, instance) in kinds {
        let cpus_per_shard = system.threading.cpus_per_shard(instance.vcpus.u64()) as f64;
        let mut shards = Vec::new();
        for (number, (_, before, after)) in hosts.iter().enumerate() {
            let waited: u64 = difference(&before.group_wait_ns, &after.group_wait_ns).sum();
            let queue = waited as f64 / ns as f64 / before.shard_cpu_ns.len().max(1) as f64;
            for (shard, used) in difference(&before.shard_cpu_ns, &after.shard_cpu_ns).enumerate() {
                let used = used as f64 / ns as f64 / cpus_per_shard;
                shards.push((format!("{place} {} shard {shard}", number + 1), used, queue));
            }
        }
        add(&format!("{kind} CPU"), shards);
    }
    let disks = [("data disk", 0, Some(&run.data_disk)), ("commit log disk", 1, run.commitlog_disk.as_ref())];
    for (name, disk, profile) in disks {
        let Some(profile) = profile else { continue };
        let (mut iops, mut bandwidth) = (Vec::new(), Vec::new());
        for (number, (_, before, after)) in server_hosts.iter().enumerate() {
            let (old, new) = (&before.disks[disk], &after.disks[disk]);
            let rate = |old: u64, new: u64| (new - old) as f64 / ns as f64 * 1e9;
            let (reads, writes) = (rate(old.reads, new.reads), rate(old.writes, new.writes));
            let (read, written) = (rate(old.read_bytes, new.read_bytes), rate(old.write_bytes, new.write_bytes));
            let queue = (new.wait_ns + new.throttled_ns - old.wait_ns - old.throttled_ns) as f64 / ns as f64;
            let place = format!("node {}", number + 1);
            let (iops_used, bandwidth_used) = match &profile.total {
                Some(total) => ((reads + writes) / total.iops.f64(), (read + written) / total.bandwidth.f64()),
                None => {
                    let share = |rate: f64, limit: f64| rate / limit / profile.members() as f64;
                    (
                        share(reads, profile.read.iops.f64()) + share(writes, profile.write.iops.f64()),
                        share(read, profile.read.bandwidth.f64()) + share(written, profile.write.bandwidth.f64()),
                    )
                }
            };
            iops.push((place.clone(), iops_used, queue));
            bandwidth.push((place, bandwidth_used, queue));
        }
        add(&format!("{name} IOPS"), iops);
        add(&format!("{name} bandwidth"), bandwidth);
    }
    let has_volumes = disks.iter().any(|(.., disk)| disk.is_some_and(|disk| disk.family == Family::Ebs));
    if run.instance.ebs.is_some() && has_volumes {
        // What an instance lets its volumes do together is often less than what one of them does.
        let volumes = server_hosts.iter().map(|(number, before, after)| {
            let throttled = |counters: &HostCounters| counters.disks.iter().map(|disk| disk.throttled_ns).sum::<u64>();
            let share = |old: u64, new: u64| (new - old) as f64 / ns as f64;
            let used = share(before.volumes_busy_ns, after.volumes_busy_ns);
            (format!("node {}", number + 1), used, share(throttled(before), throttled(after)))
        });
        add("server volumes", volumes.collect());
    }
    for (kind, place, hosts, _, instance) in kinds {
        // A run is far shorter than a bucket of credits lasts.
        let nic = &instance.nic;
        let limit = if nic.burst_credit.f64() > 0.0 { nic.burst.f64() } else { nic.base.f64() };
        let bytes_of = |bytes: fn(&HostCounters) -> u64| -> Vec<(String, f64, f64)> {
            let each = hosts.iter().enumerate().map(|(number, (_, before, after))| {
                let rate = (bytes(after) - bytes(before)) as f64 / ns as f64 * 1e9;
                let queue = (after.network_wait_ns - before.network_wait_ns) as f64 / ns as f64;
                (format!("{place} {}", number + 1), rate / limit, queue)
            });
            each.collect()
        };
        add(&format!("{kind} NIC out"), bytes_of(|counters| counters.sent_bytes));
        add(&format!("{kind} NIC in"), bytes_of(|counters| counters.received_bytes));
    }
    let stopped = server_hosts.iter().enumerate().map(|(number, (_, before, after))| {
        (format!("node {}", number + 1), (after.paused_ns - before.paused_ns) as f64 / ns as f64, 0.0)
    });
    add("server pauses", stopped.collect());
    all
}

fn difference<'a>(before: &'a [u64], after: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
    before.iter().zip(after).map(|(before, after)| after.saturating_sub(*before))
}

/// What the servers' tasks waited for between two looks, for each of `operations` clients' operations that took
/// `latency_ns` on average.
pub(crate) fn waits(
    run: &Run,
    before: &[HostCounters],
    after: &[HostCounters],
    operations: u64,
    latency_ns: u64,
    ns: u64,
) -> Vec<Wait> {
    let servers = run.nodes as usize;
    let sum = |of: &dyn Fn(&HostCounters) -> u64| -> u64 {
        before.iter().zip(after).take(servers).map(|(before, after)| of(after).saturating_sub(of(before))).sum()
    };
    let mut waits = Vec::new();
    let mut add = |class: &str, on: On, waited_ns: f64| {
        let us_per_operation = rounded(waited_ns / 1e3 / operations.max(1) as f64);
        if us_per_operation > 0.0 {
            waits.push(Wait { class: class.into(), on, us_per_operation });
        }
    };
    for group in Group::ALL {
        let index = group as usize;
        let mut add = |on, of: &dyn Fn(&HostCounters) -> u64| add(group.name(), on, sum(of) as f64);
        add(On::Work, &|counters| counters.group_cpu_ns[index]);
        add(On::Cpu, &|counters| counters.group_wait_ns[index]);
        add(On::IoQueue, &|counters| counters.io[index].queue_delay_ns);
        add(On::Disk, &|counters| counters.io[index].execution_delay_ns);
    }
    let of_disks = |of: fn(&crate::disk::device::DiskCounters) -> u64| {
        sum(&|counters: &HostCounters| counters.disks.iter().map(of).sum()) as f64
    };
    add("all", On::DiskQueue, of_disks(|disk| disk.wait_ns));
    add("all", On::Throttle, of_disks(|disk| disk.throttled_ns));
    add("all", On::Network, sum(&|counters| counters.transit_ns) as f64);
    add("all", On::NetworkQueue, sum(&|counters| counters.network_wait_ns) as f64);
    add("all", On::Lock, sum(&|counters| counters.contended_ns) as f64);
    // An operation spends as much of its life in hosts that stand still as these do of theirs.
    let stopped = sum(&|counters| counters.paused_ns) as f64 / ns as f64 / servers.max(1) as f64;
    add("all", On::Pause, stopped * latency_ns as f64 * operations as f64);
    waits
}
