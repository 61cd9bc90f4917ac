//! A crash at every boundary of a disk operation, and what must be there after it.
//!
//! A workload runs once, and the disks are copied whenever an operation that changes them is submitted or ends. Each
//! copy is then crashed (the power fails, or the process is killed) and recovered from on another host, twice: what
//! the first recovery has shown, the power failing again must not take away. Some recoveries are crashed too.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use reactor::fs;
use sim::disk::image::Image;
use sim::disk::model::DiskModel;
use sim::{Crash, Generator, HostId, HostModel, Settings, World};
use storage::Storage;

use super::model::TABLES;
use super::reading::{Answers, check, check_scans, read_each};
use super::workload::{Entry, Known, Workload, config};

const S: u64 = 1_000_000_000;
/// Rounds of a workload: some thousand boundaries.
const ROUNDS: u32 = 60;
/// Of so many recoveries one is itself crashed at each of its boundaries.
const NESTED_EVERY: usize = 200;

pub fn model(name: &str) -> HostModel {
    let mut model = HostModel::plain(name, 1);
    model.disks.push(("/data".into(), DiskModel::fast("data")));
    model.disks.push(("/log".into(), DiskModel::fast("log")));
    model
}

/// A moment of the workload's run.
struct Moment {
    image: Image,
    /// Entries in the journal.
    journal: usize,
}

/// Crashes `points` times, or fewer where the workload is over before; gives how often.
pub fn crash_everywhere(seed: u64, points: u64) -> u64 {
    crash_everywhere_of(seed, points, false)
}

/// With `skip_sync` the commit log claims to have synced without doing so.
pub fn crash_everywhere_of(seed: u64, points: u64, skip_sync: bool) -> u64 {
    let outcome = sim::run(seed, Settings::default(), |world| {
        let (era, journal, moments) = record(world, seed, skip_sync);
        let host = world.add_host([10, 0, 0, 2].into(), model("recovers"));
        let recovery = Recovery::boot(world, host);
        let mut known = Known::new();
        let mut done = 0;
        for (point, moment) in moments.into_iter().enumerate() {
            if done == points {
                break;
            }
            known.advance(&journal, moment.journal);
            // Power failures find more; kills are a quarter.
            let crash = if point % 4 == 3 { Crash::Kill } else { Crash::PowerLoss };
            let mut random = Generator::new(seed << 32 | point as u64);
            world.replace_disks(host, moment.image, crash, &mut random);
            recovery.defs.replace(known.defs(era));
            let within: Rc<RefCell<Vec<Image>>> = Rc::default();
            if point % NESTED_EVERY == NESTED_EVERY / 2 {
                let kept = within.clone();
                world.watch_disks(host, move |image| kept.borrow_mut().push(image));
            }
            let mut result = recovery.check(world, host, &known);
            done += 1;
            world.end_watch(host);
            for (at, image) in within.take().into_iter().enumerate() {
                if result.is_ok() && done < points {
                    world.replace_disks(host, image, Crash::PowerLoss, &mut random);
                    result = recovery.check(world, host, &known).map_err(|what| format!("again, at {at}: {what}"));
                    done += 1;
                }
            }
            if let Err(what) = result {
                let told = format!("{crash:?} at boundary {point} of seed {seed}: {what}");
                panic!(
                    "{told}\nto repeat: ORRERY_CRASH_SEED={seed} cargo test -p orrery-tests --test storage_faults crash"
                );
            }
        }
        done
    });
    outcome.value
}

/// Runs the workload of `seed` with an eye on its disks.
fn record(world: &Rc<World>, seed: u64, skip_sync: bool) -> (super::model::Era, Vec<Entry>, Vec<Moment>) {
    let host = world.add_host([10, 0, 0, 1].into(), model("works"));
    let mut workload = Workload::new(seed);
    workload.skip_sync = skip_sync;
    let (era, journal) = (workload.era, workload.journal.clone());
    let moments: Rc<RefCell<Vec<Moment>>> = Rc::default();
    let (kept, seen) = (moments.clone(), journal.clone());
    world.watch_disks(host, move |image| {
        kept.borrow_mut().push(Moment { image, journal: seen.borrow().len() });
    });
    let (workload, over) = (RefCell::new(Some(workload)), Rc::new(Cell::new(false)));
    let ended = over.clone();
    world.boot(host, move |_| {
        let (workload, ended) = (workload.borrow_mut().take(), ended.clone());
        async move {
            let mut workload = workload.expect("it runs once");
            workload.run(ROUNDS).await.expect("nothing goes wrong without a fault");
            ended.set(true);
        }
    });
    assert!(world.run_until_true(world.now() + 600 * S, || over.get()), "seed {seed}: the workload hangs");
    world.end_watch(host);
    world.crash(host, Crash::Kill);
    let (journal, moments) = (journal.borrow().clone(), moments.take());
    (era, journal, moments)
}

type Told = Rc<RefCell<Option<Result<Answers, String>>>>;

/// A host that opens a storage whenever it boots, and tells what it reads.
pub struct Recovery {
    pub defs: Rc<RefCell<Vec<std::sync::Arc<types::TableDef>>>>,
    told: Told,
}

impl Recovery {
    /// Leaves the host off.
    pub fn boot(world: &Rc<World>, host: HostId) -> Self {
        let recovery = Self { defs: Rc::default(), told: Rc::default() };
        let (defs, told) = (recovery.defs.clone(), recovery.told.clone());
        world.boot(host, move |_| {
            let (defs, told) = (defs.borrow().clone(), told.clone());
            async move {
                if defs.is_empty() {
                    return;
                }
                // Compaction would only move what is looked at.
                let config = storage::Config { auto_compaction: false, ..config() };
                let result = async {
                    let storage = Storage::open(config, defs.clone()).await.map_err(|e| format!("opening: {e}"))?;
                    let answers = read_each(&storage, &defs).await;
                    check_scans(&storage, &defs, &answers).await?;
                    no_leftovers(&storage, &defs).await?;
                    Ok((storage, answers))
                };
                match result.await {
                    Ok((storage, answers)) => {
                        *told.borrow_mut() = Some(Ok(answers));
                        std::future::pending::<()>().await;
                        drop(storage);
                    }
                    Err(error) => *told.borrow_mut() = Some(Err(error)),
                }
            }
        });
        world.crash(host, Crash::Kill);
        recovery
    }

    fn recover(&self, world: &Rc<World>, host: HostId) -> Result<Answers, String> {
        self.told.borrow_mut().take();
        world.restart(host);
        let told = self.told.clone();
        if !world.run_until_true(world.now() + 60 * S, || told.borrow().is_some()) {
            return Err("the start hangs".into());
        }
        self.told.borrow_mut().take().expect("it has just been told")
    }

    /// Recovers twice.
    fn check(&self, world: &Rc<World>, host: HostId, known: &Known) -> Result<(), String> {
        let first = self.recover(world, host)?;
        check(known, &first, false)?;
        world.crash(host, Crash::PowerLoss);
        let second = self.recover(world, host).map_err(|what| format!("the second start: {what}"))?;
        world.crash(host, Crash::Kill);
        if first != second {
            return Err(format!("the first start showed\n  {first:?}\nand the second\n  {second:?}"));
        }
        Ok(())
    }
}

/// The tables' folders hold the files of their SSTables, and nothing else.
async fn no_leftovers(storage: &Storage, defs: &[std::sync::Arc<types::TableDef>]) -> Result<(), String> {
    let stats = storage.stats();
    for def in defs {
        let folder = format!("/data/ks/{}-{:032x}", def.name, def.id.0);
        let names = fs::read_dir(&folder).await.map_err(|error| format!("{folder}: {error}"))?;
        let files: Vec<&String> = names.iter().filter(|name| name.contains("-big-")).collect();
        let mut generations: Vec<&str> =
            files.iter().filter_map(|name| name.split_once("-big-")).map(|(front, _)| front).collect();
        generations.dedup();
        let sstables = stats.tables[&def.id].sstables;
        if generations.len() as u64 != sstables {
            return Err(format!("{sstables} SSTables of {}, and on disk {names:?}", def.name));
        }
        if let Some(name) = names.iter().find(|name| name.ends_with(".tmp")) {
            return Err(format!("a leftover: {folder}/{name}"));
        }
    }
    assert_eq!(defs.len(), usize::from(TABLES));
    Ok(())
}
