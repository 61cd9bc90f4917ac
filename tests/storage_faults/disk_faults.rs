//! Disks that lie, fail, stall and fill up: an answer is right, or an error that names a file. Never a wrong answer.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use reactor::Group;
use sim::disk::faults::{Aim, DiskFault, IoError, LostWrite, MisdirectedWrite, Stall, TornWrite};
use sim::{Crash, HostId, Settings, World};
use storage::{Error, Stats, Storage};

use super::crash_points::model;
use super::model::Era;
use super::reading::{Answers, check, read_each};
use super::workload::{Entry, Known, Workload, config};

const S: u64 = 1_000_000_000;

/// A simulated host, what runs on it, and what it was asked for.
struct Bench {
    world: Rc<World>,
    host: HostId,
    workload: Rc<RefCell<Option<Workload>>>,
    storage: Rc<RefCell<Option<Rc<Storage>>>>,
    era: Era,
    journal: Rc<RefCell<Vec<Entry>>>,
}

impl Bench {
    fn new(world: &Rc<World>, seed: u64) -> Self {
        let host = world.add_host([10, 0, 0, 1].into(), model("works"));
        world.boot(host, |_| std::future::pending());
        let workload = Workload::new(seed);
        Self {
            world: world.clone(),
            host,
            era: workload.era,
            journal: workload.journal.clone(),
            workload: Rc::new(RefCell::new(Some(workload))),
            storage: Rc::default(),
        }
    }

    /// Runs a task on the host to its end.
    fn perform<T: 'static, F: Future<Output = T> + 'static>(&self, task: impl FnOnce() -> F) -> T {
        let told = Rc::new(RefCell::new(None));
        let place = told.clone();
        let spawned = self.world.on_shard(self.host, 0, |shard| {
            let task = task();
            drop(shard.spawn(Group::Statement, "test", async move {
                let value = task.await;
                *place.borrow_mut() = Some(value);
            }));
        });
        spawned.expect("the host runs");
        assert!(self.world.run_until_true(self.world.now() + 600 * S, || told.borrow().is_some()), "a task hangs");
        told.take().expect("it has just been told")
    }

    fn open(&self) -> Result<(), Error> {
        let defs = self.known().defs(self.era);
        // Without a cache every read is one of the disk.
        let config = storage::Config { cache_bytes: 0, ..config() };
        let storage = self.perform(move || Storage::open(config, defs))?;
        *self.storage.borrow_mut() = Some(storage);
        Ok(())
    }

    fn storage(&self) -> Rc<Storage> {
        self.storage.borrow().clone().expect("it is open")
    }

    /// `rounds` of writes, with flushes and compactions between, ended early by a write that is refused.
    fn write(&self, rounds: u32) {
        let (storage, workload) = (self.storage(), self.workload.clone());
        let journal = self.journal.clone();
        self.perform(move || async move {
            let mut taken = workload.borrow_mut().take().expect("one at a time");
            for round in 0..rounds {
                let before = journal.borrow().len();
                taken.write_some(&storage).await;
                if journal.borrow()[before..].iter().any(|entry| matches!(entry, Entry::Failed(_))) {
                    break;
                }
                match round % 9 {
                    4 => drop(storage.flush(None).await),
                    8 => {
                        for def in taken.defs() {
                            let _ = storage.compact(def.id).await;
                        }
                    }
                    _ => {}
                }
            }
            *workload.borrow_mut() = Some(taken);
        });
    }

    fn flush(&self) -> Result<(), Error> {
        let storage = self.storage();
        self.perform(move || async move { storage.flush(None).await })
    }

    fn known(&self) -> Known {
        let mut known = Known::new();
        let journal = self.journal.borrow();
        known.advance(&journal, journal.len());
        known
    }

    /// What was said of writes that were refused.
    fn refusals(&self) -> Vec<String> {
        let journal = self.journal.borrow();
        let told = journal.iter().filter_map(|entry| if let Entry::Failed(told) = entry { Some(told) } else { None });
        told.cloned().collect()
    }

    fn failures(&self) -> usize {
        self.refusals().len()
    }

    fn read(&self) -> Answers {
        let (storage, defs) = (self.storage(), self.known().defs(self.era));
        self.perform(move || async move { read_each(&storage, &defs).await })
    }

    fn stats(&self) -> Stats {
        let storage = self.storage();
        self.perform(move || async move { storage.stats() })
    }

    fn crash(&self, crash: Crash) {
        self.storage.borrow_mut().take();
        self.world.crash(self.host, crash);
        self.world.restart(self.host);
    }

    /// All answers are right, none is an error.
    fn all_is_right(&self, when: &str) {
        check(&self.known(), &self.read(), false).unwrap_or_else(|what| panic!("{when}: {what}"));
    }

    /// Gives how many answers were errors.
    fn right_or_refused(&self, when: &str) -> usize {
        let answers = self.read();
        check(&self.known(), &answers, true).unwrap_or_else(|what| panic!("{when}: {what}"));
        answers.iter().flatten().filter(|answer| answer.is_err()).count()
    }
}

fn each_seed(seeds: std::ops::Range<u64>, experiment: impl Fn(&Bench) -> usize + Send + Sync) -> usize {
    let mut sum = 0;
    for seed in seeds {
        sum += sim::run(seed, Settings::default(), |world| {
            let bench = Bench::new(world, seed);
            bench.open().unwrap();
            experiment(&bench)
        })
        .value;
    }
    sum
}

fn quarantined(stats: &Stats) -> u64 {
    stats.tables.values().map(|table| table.quarantined_sstables).sum()
}

#[test]
fn rotten_sstables_are_never_believed() {
    let refused = each_seed(0..40, |bench| {
        bench.write(30);
        bench.flush().unwrap();
        let rotten = bench.world.rot(bench.host, "/data/*-big-*", 3);
        let mut refused = bench.right_or_refused(&format!("after {rotten:?}"));
        if refused > 0 {
            assert!(quarantined(&bench.stats()) > 0, "reads failed, and nobody counts it");
        }
        bench.crash(Crash::PowerLoss);
        bench.open().unwrap_or_else(|error| panic!("one rotten file is no reason to stay down: {error}"));
        refused += bench.right_or_refused(&format!("reopened after {rotten:?}"));
        // The rest goes on.
        let failures = bench.failures();
        bench.write(10);
        assert_eq!(bench.failures(), failures, "writes go on");
        refused + bench.right_or_refused(&format!("long after {rotten:?}"))
    });
    assert!(refused > 20, "{refused} reads met the damage");
}

#[test]
fn a_rotten_manifest_is_told_not_guessed() {
    each_seed(0..10, |bench| {
        bench.write(20);
        bench.flush().unwrap();
        assert_eq!(bench.world.rot(bench.host, "/data/*.manifest", 1).len(), 1);
        bench.crash(Crash::Kill);
        match bench.open() {
            // A checksum in capital letters is the same checksum.
            Ok(()) => bench.all_is_right("the damage changes nothing"),
            Err(error) => assert!(error.to_string().contains("shard-0-of-1.manifest"), "{error}"),
        }
        0
    });
}

/// Injects the fault at the n-th write that fits, n being the seed.
fn lies(fault: fn() -> Box<dyn Fn(&Bench, Aim)>) {
    each_seed(0..60, |bench| {
        bench.write(2);
        fault()(bench, Aim::at("/data/*-big-*").nth(bench.world.seed() * 2 % 77));
        bench.write(40);
        let mut refused = bench.right_or_refused("while it runs");
        bench.crash(Crash::Kill);
        match bench.open() {
            Ok(()) => {
                refused += bench.right_or_refused("reopened");
                bench.write(20);
                refused + bench.right_or_refused("later")
            }
            Err(error) => {
                assert!(error.to_string().contains('/'), "an error that names no file: {error}");
                1
            }
        }
    });
}

fn with<F: DiskFault + 'static>(fault: fn() -> F) -> Box<dyn Fn(&Bench, Aim)> {
    Box::new(move |bench, aim| {
        bench.world.inject(bench.host, aim, fault());
    })
}

#[test]
fn lost_writes_are_never_believed() {
    lies(|| with(|| LostWrite));
}

#[test]
fn torn_writes_are_never_believed() {
    lies(|| with(|| TornWrite));
}

#[test]
fn misdirected_writes_are_never_believed() {
    lies(|| with(|| MisdirectedWrite));
}

#[test]
fn a_read_error_fails_the_read_and_nothing_else() {
    let refused = each_seed(0..20, |bench| {
        bench.write(30);
        bench.flush().unwrap();
        let id = bench.world.inject(bench.host, Aim::at("/data/*").times(3), IoError::read());
        let refused = bench.right_or_refused("while reads fail");
        bench.world.withdraw(bench.host, id);
        assert_eq!(quarantined(&bench.stats()), 0, "an error of the moment is no damage");
        bench.all_is_right("afterwards");
        bench.write(20);
        assert_eq!(bench.failures(), 0);
        bench.all_is_right("later");
        refused
    });
    assert!(refused > 20, "{refused}");
}

#[test]
fn reads_that_fail_below_flush_and_compaction_do_no_harm() {
    each_seed(0..20, |bench| {
        bench.write(10);
        bench.world.inject(bench.host, Aim::at("/data/*").nth(bench.world.seed()), IoError::read());
        bench.write(40);
        bench.all_is_right("later");
        assert_eq!(bench.failures(), 0, "writes go on");
        bench.crash(Crash::PowerLoss);
        bench.open().unwrap();
        bench.all_is_right("reopened");
        0
    });
}

/// A failed write or sync of `files`: nothing is acknowledged any more, and what was is there.
fn failed_for_good(files: &'static str, fault: fn() -> IoError) {
    let struck = each_seed(0..30, |bench| {
        bench.write(3);
        let id = bench.world.inject(bench.host, Aim::at(files).nth(bench.world.seed() % 12), fault());
        bench.write(30);
        let struck = bench.world.withdraw(bench.host, id) as usize;
        bench.all_is_right("reads go on");
        if struck > 0 {
            let failures = bench.failures();
            bench.write(1);
            assert!(bench.failures() > failures, "a write was acknowledged after a failed write or sync");
        }
        bench.crash(Crash::PowerLoss);
        bench.open().unwrap();
        bench.all_is_right("reopened");
        struck
    });
    assert!(struck > 10, "{struck}");
}

#[test]
fn after_a_failed_sync_of_the_log_nothing_is_acknowledged() {
    failed_for_good("/log/*", IoError::sync);
}

#[test]
fn after_a_failed_write_of_the_log_nothing_is_acknowledged() {
    failed_for_good("/log/*", IoError::write);
}

#[test]
fn after_a_failed_sync_of_an_sstable_nothing_is_acknowledged() {
    failed_for_good("/data/*-big-*", IoError::sync);
}

#[test]
fn a_full_disk_stops_writes_until_there_is_room() {
    for disk in [1, 2] {
        let refused = each_seed(0..10, |bench| {
            bench.write(6);
            let left = bench.world.seed() * 9_000 + bench.world.occupied(bench.host, disk);
            bench.world.limit_space(bench.host, disk, Some(left));
            let mut rounds = 0;
            while bench.failures() == 0 && rounds < 40 {
                bench.write(10);
                rounds += 1;
            }
            let refused = bench.failures();
            for error in bench.refusals() {
                assert!(error.contains("no space") && error.contains('/'), "{error}");
            }
            bench.all_is_right("reads go on");
            bench.world.limit_space(bench.host, disk, None);
            bench.world.run_for(10 * S);
            let failures = bench.failures();
            bench.write(20);
            assert_eq!(bench.failures(), failures, "writes go on by themselves");
            bench.all_is_right("with room again");
            bench.crash(Crash::PowerLoss);
            bench.open().unwrap();
            bench.all_is_right("reopened");
            refused
        });
        assert!(refused > 0, "disk {disk} was never full");
    }
}

#[test]
fn a_crash_while_the_disk_is_full_loses_nothing() {
    each_seed(0..10, |bench| {
        bench.write(6);
        let left = bench.world.seed() * 5_000 + bench.world.occupied(bench.host, 1);
        bench.world.limit_space(bench.host, 1, Some(left));
        bench.write(60);
        bench.crash(Crash::PowerLoss);
        bench.world.limit_space(bench.host, 1, None);
        bench.open().unwrap();
        bench.all_is_right("reopened");
        0
    });
}

#[test]
fn a_stalled_disk_delays_and_no_more() {
    each_seed(0..10, |bench| {
        bench.write(5);
        bench.world.inject(bench.host, Aim::at("/*").nth(bench.world.seed() * 3), Stall { for_ns: 20 * S });
        bench.write(20);
        assert_eq!(bench.failures(), 0);
        bench.all_is_right("afterwards");
        0
    });
}

/// A later chunk says what had been durable before it; of the last one nobody knows.
#[test]
fn a_rotten_commit_log_is_told_not_guessed() {
    let refused = each_seed(0..80, |bench| {
        for _ in 0..5 {
            bench.write(4);
        }
        let last = bench.journal.borrow().len();
        bench.write(1);
        let storage = bench.storage();
        let used = bench.perform(move || async move { storage.stats().commitlog.written_bytes });
        bench.crash(Crash::PowerLoss);
        let logs = bench.world.files(bench.host).into_iter().filter(|(path, _)| path.starts_with("/log/"));
        let (log, _) = logs.min().expect("there is a log");
        // Often in a chunk's padding, or behind the log's end: then all is as it was.
        let offset = bench.world.seed() * 7_919 % used.min(16 << 10);
        bench.world.rot_at(bench.host, &log, offset, 1 << (offset % 8));
        let told = format!("byte {offset} of {log}");
        match bench.open() {
            Ok(()) => {
                let journal = bench.journal.borrow().clone();
                let answers = bench.read();
                let known = Known::with_open_end(&journal, last);
                check(&known, &answers, false).unwrap_or_else(|what| panic!("{told}: {what}"));
                0
            }
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("/log/"), "{told}: {error}");
                1
            }
        }
    });
    assert!(refused > 5, "{refused}");
}
