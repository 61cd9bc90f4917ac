//! Loads on a simulated host's disk through the reactor's own operations, as fio makes them on a real one.

use reactor::{Buf, Group, OpenFlags, fs, spawn, time};
use sim::disk::model::DiskModel;
use sim::{HostModel, Settings};

use super::{Log, ip, rw};

#[derive(Clone, Copy, Debug)]
pub enum Arrival {
    /// So many in flight, always.
    Depth(u64),
    /// So many a second, at uneven distances.
    Rate(f64),
}

#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub writes: bool,
    pub block: u64,
    pub arrival: Arrival,
}

impl Load {
    pub fn reads(block: u64, arrival: Arrival) -> Self {
        Self { writes: false, block, arrival }
    }

    pub fn writes(block: u64, arrival: Arrival) -> Self {
        Self { writes: true, block, arrival }
    }
}

/// What one load saw after the first third of the time.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Operations a second.
    pub rate: f64,
    /// Sorted.
    latencies_ns: Vec<u64>,
}

impl Seen {
    pub fn quantile_us(&self, q: f64) -> f64 {
        let last = self.latencies_ns.len() - 1;
        self.latencies_ns[(last as f64 * q) as usize] as f64 / 1e3
    }
}

const FILE_BYTES: u64 = 1 << 30;

async fn operation(file: &fs::File, load: Load, place: u64, mut buf: Buf) -> Buf {
    let offset = place % (FILE_BYTES / load.block) * load.block;
    if load.writes {
        let (result, buf) = file.write_all_at(offset, buf).await;
        result.unwrap();
        return buf;
    }
    buf.clear();
    let (result, buf) = file.read_at(offset, load.block as usize, buf).await;
    assert_eq!(result.unwrap() as u64, load.block);
    buf
}

fn buffer(load: Load) -> Buf {
    let mut buf = Buf::direct(load.block as usize);
    if load.writes {
        buf.resize(load.block as usize, 0);
    }
    buf
}

/// Runs the loads at once on one disk for `for_ns`.
pub fn run(disk: DiskModel, loads: &[Load], for_ns: u64) -> Vec<Seen> {
    let outcome = sim::run(1, Settings::default(), |world| {
        let mut model = HostModel::plain("loaded", 1);
        model.disks[0].1 = disk.clone();
        let host = world.add_host(ip(1), model);
        let done: Vec<Log<(u64, u64)>> = loads.iter().map(|_| Log::new()).collect();
        let (tasks, logs) = (loads.to_vec(), done.clone());
        world.boot(host, move |_| {
            let (loads, logs) = (tasks.clone(), logs.clone());
            async move {
                let file = fs::File::open("/data", OpenFlags { direct: true, ..rw() }).await.unwrap();
                file.truncate(FILE_BYTES).await.unwrap();
                file.datasync().await.unwrap();
                for (load, log) in loads.into_iter().zip(logs) {
                    drop(spawn(Group::Statement, "load", drive(file.clone(), load, log)));
                }
            }
        });
        world.run_until(for_ns);
        done.iter().map(|log| log.all()).collect::<Vec<_>>()
    });
    let from = for_ns / 3;
    let seen = outcome.value.into_iter().map(|done| {
        let mut latencies_ns: Vec<u64> = done.iter().filter(|(at, _)| *at >= from).map(|(_, ns)| *ns).collect();
        latencies_ns.sort_unstable();
        Seen { rate: latencies_ns.len() as f64 / ((for_ns - from) as f64 / 1e9), latencies_ns }
    });
    seen.collect()
}

async fn drive(file: fs::File, load: Load, log: Log<(u64, u64)>) {
    match load.arrival {
        Arrival::Depth(depth) => {
            for _ in 0..depth {
                let (file, log) = (file.clone(), log.clone());
                drop(spawn(Group::Statement, "worker", async move {
                    let mut buf = buffer(load);
                    loop {
                        let began = reactor::now();
                        buf = operation(&file, load, reactor::random(), buf).await;
                        log.push((reactor::now(), reactor::now() - began));
                    }
                }));
            }
        }
        Arrival::Rate(rate) => {
            let gap_ns = (1e9 / rate) as u64;
            let mut due = reactor::now();
            loop {
                due += gap_ns - gap_ns / 4 + reactor::random() % (gap_ns / 2).max(1);
                time::sleep_until(due).await;
                let (file, log) = (file.clone(), log.clone());
                drop(spawn(Group::Statement, "arrival", async move {
                    drop(operation(&file, load, reactor::random(), buffer(load)).await);
                    log.push((reactor::now(), reactor::now() - due));
                }));
            }
        }
    }
}
