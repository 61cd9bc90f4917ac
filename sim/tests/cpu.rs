//! Virtual CPU: time passes by what is charged, shards of a host run side by side, pauses stop them.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{Log, MS, S, ip, plain};
use reactor::{Buf, Group, OpenFlags, Work, charge, fs, spawn, submit_to, time};
use sim::{ContentionModel, CpuModel, HostModel, InterruptModel, Latency, PauseModel, Settings, SiblingModel};

fn model(shards: usize) -> HostModel {
    let mut model = HostModel::plain("plain", shards);
    model.cpu = CpuModel::polls_only(100);
    model.cpu.set(Work::MemtableInsert, 10_000.0, 1.0);
    model
}

#[test]
fn charged_work_takes_its_time_and_one_task_waits_for_the_other() {
    let outcome = sim::run(1, Settings::default(), |world| {
        let host = world.add_host(ip(1), model(2));
        let log = Log::new();
        let seen = log.clone();
        world.boot(host, move |boot| {
            let log = seen.clone();
            async move {
                for task in 0..2 {
                    let log = log.clone();
                    drop(spawn(Group::Statement, "worker", async move {
                        for _ in 0..100 {
                            charge(Work::MemtableInsert, 1000);
                            time::yield_now().await;
                        }
                        log.push((boot.shard, task, reactor::now()));
                    }));
                }
            }
        });
        world.run_until_idle();
        (log.all(), world.host_counters(host))
    });
    let (log, counters) = outcome.value;
    assert_eq!(log.len(), 4);
    for (_, _, at) in log {
        assert!((2_180_000..2_230_000).contains(&at), "{at}"); // 200 x 11.1 us on each shard
    }
    assert!(counters.shard_cpu_ns.iter().all(|ns| (2_200_000..2_240_000).contains(ns)), "{counters:?}");
}

#[test]
fn messages_between_shards_are_answered() {
    let outcome = sim::run(1, Settings::default(), |world| {
        let host = plain(world, 1, 4);
        let log = Log::new();
        let seen = log.clone();
        world.boot(host, move |boot| {
            let log = seen.clone();
            async move {
                if boot.shard == 0 {
                    for to in 0..4 {
                        let answer = submit_to(to, "ask", move || async move { (to, reactor::shard_index().0) }).await;
                        log.push((answer, reactor::now()));
                    }
                }
            }
        });
        world.run_until_idle();
        log.all()
    });
    let answers: Vec<_> = outcome.value.iter().map(|(answer, _)| *answer).collect();
    assert_eq!(answers, [(0, 0), (1, 1), (2, 2), (3, 3)]);
    assert!(outcome.value[3].1 < 20_000);
}

/// How long a host stands still in 10 s, in ms, whose first shard leaves 1,000 bytes of garbage every 100 us; and how
/// often that came to its turn.
fn collections(mut model: HostModel) -> (u64, usize) {
    model.cpu.set_garbage(Work::MemtableInsert, 1000, 0);
    model.pauses = Some(PauseModel { young_bytes: 1_000_000, pause: Latency::constant(50 * MS), copying: None });
    let outcome = sim::run(1, Settings::default(), |world| {
        let host = world.add_host(ip(1), model.clone());
        let log = Log::new();
        let turns = log.clone();
        world.boot(host, move |boot| {
            let turns = turns.clone();
            async move {
                loop {
                    if boot.shard == 0 {
                        charge(Work::MemtableInsert, 0);
                    }
                    time::sleep(Duration::from_micros(90)).await;
                    if boot.shard == 0 {
                        turns.push(());
                    }
                }
            }
        });
        world.run_until(10 * S);
        (world.host_counters(host).paused_ns / MS, log.all().len())
    });
    outcome.value
}

#[test]
fn garbage_stops_the_host() {
    let (paused_ms, _) = collections(model(2));
    // 100 ms of work (1,000 x 100 us), then a pause of 50 ms.
    assert!((3_200..3_450).contains(&paused_ms), "{paused_ms}");
}

#[test]
fn a_task_woken_by_the_experiment_runs() {
    let outcome = sim::run(1, Settings::default(), |world| {
        let host = plain(world, 1, 1);
        let (log, queue) = (Log::new(), reactor::sync::Queue::<u32>::new());
        let (seen, source) = (log.clone(), queue.clone());
        world.boot(host, move |_| {
            let (log, source) = (seen.clone(), source.clone());
            async move {
                while let Some(item) = source.pop().await {
                    log.push((item, reactor::now() / MS));
                }
            }
        });
        for at in 1..=3 {
            let queue = queue.clone();
            world.at(at * 10 * MS, move |_| queue.push(at as u32));
        }
        world.run_until_idle();
        log.all()
    });
    assert_eq!(outcome.value, [(1, 10), (2, 20), (3, 30)]);
}

/// How long `chains` chains of ten tasks, each waking the next after 100 us of work, take on a pool of `cpus`.
fn chains_on_a_pool(chains: usize, cpus: usize, wake: Option<Latency>) -> u64 {
    sim::run(1, Settings::default(), |world| {
        let mut model = model(1);
        model.cpus_per_shard = cpus;
        model.idle.wake = wake.clone();
        model.cpu.set(Work::MemtableInsert, 100_000.0, 0.0);
        let host = world.add_host(ip(1), model);
        let log = Log::new();
        let seen = log.clone();
        world.boot(host, move |_| {
            let log = seen.clone();
            async move {
                for _ in 0..chains {
                    let log = log.clone();
                    drop(spawn(Group::Statement, "chain", async move {
                        for _ in 0..10 {
                            let link = async { charge(Work::MemtableInsert, 0) };
                            spawn(Group::Statement, "link", link).await;
                        }
                        log.push(reactor::now());
                    }));
                }
            }
        });
        world.run_until_idle();
        let counters = world.host_counters(host);
        let busy_ns = counters.shard_cpu_ns[0];
        assert!((chains as u64 * MS..chains as u64 * MS * 12 / 10).contains(&busy_ns), "{counters:?}");
        log.all().into_iter().max().unwrap()
    })
    .value
}

#[test]
fn a_pool_does_as_much_at_once_as_it_has_processors() {
    let near = |ns: u64, expect: u64| assert!((expect..expect * 12 / 10).contains(&ns), "{ns} for {expect}");
    near(chains_on_a_pool(1, 8, None), MS); // a chain gains nothing
    near(chains_on_a_pool(8, 8, None), MS);
    near(chains_on_a_pool(16, 8, None), 2 * MS);
    near(chains_on_a_pool(16, 2, None), 8 * MS);
    near(chains_on_a_pool(4, 1, None), 4 * MS);
    // Ten links, and nine times back to the chain, each on a processor that sleeps; none sleeps where there is enough to
    // do.
    let wake = Some(Latency::constant(40_000));
    near(chains_on_a_pool(1, 8, wake.clone()), MS + 19 * 40_000);
    near(chains_on_a_pool(16, 2, wake), 8 * MS);
}

#[test]
fn what_would_run_in_place_is_shared_out_on_a_pool() {
    let time = |cpus| {
        sim::run(1, Settings::default(), |world| {
            let mut model = model(1);
            model.cpus_per_shard = cpus;
            model.cpu.set(Work::MemtableInsert, 100_000.0, 0.0);
            let host = world.add_host(ip(1), model);
            let done = Log::new();
            let log = done.clone();
            world.boot(host, move |_| {
                let log = log.clone();
                async move {
                    for _ in 0..4 {
                        let log = log.clone();
                        reactor::run_or_spawn(Group::Statement, "work", async move {
                            charge(Work::MemtableInsert, 0);
                            log.push(reactor::now());
                        });
                    }
                }
            });
            world.run_until_idle();
            done.all().into_iter().max().unwrap()
        })
        .value
    };
    assert!((400_000..410_000).contains(&time(1)), "{}", time(1));
    assert!((100_000..110_000).contains(&time(4)), "{}", time(4));
}

#[test]
fn a_pool_stands_still_while_garbage_is_collected() {
    let mut pool = model(1);
    pool.cpus_per_shard = 4;
    let (paused_ms, turns) = collections(pool);
    // Threads' timers have a slack of 50 us: 150 ms of work between two pauses.
    assert!((2_400..2_550).contains(&paused_ms), "{paused_ms}");
    assert!((49_000..51_500).contains(&turns), "{turns}");
}

/// Shards that work, 10 us at a time, for 10 ms: how many pieces each has done.
fn pieces_done(model: HostModel, working: &'static [usize]) -> Vec<usize> {
    sim::run(1, Settings::default(), |world| {
        let host = world.add_host(ip(1), model.clone());
        let done = Log::new();
        let log = done.clone();
        world.boot(host, move |boot| {
            let log = log.clone();
            async move {
                while working.contains(&boot.shard) {
                    charge(Work::MemtableInsert, 0);
                    log.push(boot.shard);
                    time::yield_now().await;
                }
            }
        });
        world.run_until(10 * MS);
        let done = done.all();
        working.iter().map(|shard| done.iter().filter(|&other| other == shard).count()).collect()
    })
    .value
}

/// Shards on threads of 2 cores; a thread alone does in 0.6 of the time what it does beside a busy sibling.
fn threaded(shards: usize, interrupt_cpus: usize) -> HostModel {
    let mut model = model(shards);
    model.cpu = CpuModel::polls_only(0);
    model.cpu.set(Work::MemtableInsert, 10_000.0, 0.0);
    model.cpu.siblings = Some(SiblingModel { cores: 2, reserved: interrupt_cpus, alone: 0.6 });
    model.interrupts = Some(InterruptModel { cpus: interrupt_cpus, packet_ns: 1_000.0, ns_per_byte: 0.0 });
    model
}

#[test]
fn a_sibling_that_is_awake_slows_a_thread() {
    let near = |done: Vec<usize>, expect: &[usize]| {
        let is_near = done.iter().zip(expect).all(|(&ours, &expect)| ours.abs_diff(expect) <= expect / 25);
        assert!(is_near && done.len() == expect.len(), "{done:?} for {expect:?}");
    };
    near(pieces_done(threaded(4, 0), &[0]), &[1_667]);
    near(pieces_done(threaded(4, 0), &[0, 1]), &[1_000, 1_000]);
    near(pieces_done(threaded(4, 0), &[0, 2]), &[1_667, 1_667]);
    near(pieces_done(threaded(4, 0), &[0, 1, 2, 3]), &[1_000; 4]);
    // The first thread is the interrupts', and nothing comes in: the first shard has its core for itself.
    near(pieces_done(threaded(3, 1), &[0, 1, 2]), &[1_667, 1_000, 1_000]);
    // The sibling looks for work half of the time, and sleeps then.
    let mut polling = threaded(4, 0);
    polling.idle.busy_poll_ns = 5 * MS;
    near(pieces_done(polling, &[0]), &[1_333]);
}

#[test]
fn a_pool_has_whole_cores_until_it_needs_more_and_its_threads_contend() {
    let time = |chains, contention| {
        sim::run(1, Settings::default(), |world| {
            let mut model = threaded(1, 0);
            model.cpus_per_shard = 4;
            model.cpu.contention = contention;
            let host = world.add_host(ip(1), model);
            let done = Log::new();
            let log = done.clone();
            world.boot(host, move |_| {
                let log = log.clone();
                async move {
                    for _ in 0..chains {
                        let log = log.clone();
                        drop(spawn(Group::Statement, "chain", async move {
                            for _ in 0..100 {
                                charge(Work::MemtableInsert, 0);
                                time::yield_now().await;
                            }
                            log.push(reactor::now());
                        }));
                    }
                }
            });
            world.run_until_idle();
            done.all().into_iter().max().unwrap()
        })
        .value
    };
    let near = |ns: u64, expect: u64| assert!(ns.abs_diff(expect) < expect / 20, "{ns} for {expect}");
    near(time(1, None), 600_000);
    near(time(2, None), 600_000);
    near(time(4, None), MS);
    // 1 + 0.1 x 3 + 0.01 x 3 x 4 with four at work, and nothing with one.
    let law = ContentionModel { serial: 0.1, crosstalk: 0.01, at: 1.0 };
    near(time(4, Some(law)), 1_420_000);
    near(time(1, Some(law)), 600_000);
    // The costs were found with all four at work: they are as the table has them.
    near(time(4, Some(ContentionModel { at: 4.0, ..law })), MS);
}

#[test]
fn few_threads_read_few_blocks_at_once() {
    let rate = |read_threads| {
        sim::run(1, Settings::default(), |world| {
            let mut model = model(1);
            model.cpus_per_shard = 4;
            model.disks[0].1.read.service = Latency::constant(MS);
            model.read_threads = read_threads;
            let host = world.add_host(ip(1), model);
            let done = Log::new();
            let log = done.clone();
            world.boot(host, move |_| {
                let log = log.clone();
                async move {
                    let file = fs::File::open("/data", OpenFlags { direct: true, ..common::rw() }).await.unwrap();
                    file.truncate(1 << 20).await.unwrap();
                    for _ in 0..32 {
                        let (file, log) = (file.clone(), log.clone());
                        drop(spawn(Group::Statement, "reader", async move {
                            let mut buf = Buf::direct(4096);
                            loop {
                                buf.clear();
                                buf = file.read_at(0, 4096, buf).await.1;
                                log.push(());
                            }
                        }));
                    }
                }
            });
            world.run_until(S);
            done.all().len()
        })
        .value
    };
    assert!((3_900..4_010).contains(&rate(Some(4))), "{}", rate(Some(4)));
    assert!((31_000..32_100).contains(&rate(None)), "{}", rate(None));
}

/// A statement waits no longer for a task that looks at its quota than that.
#[test]
fn a_long_task_lets_others_go_first_when_its_quota_is_used() {
    let waits = |task_quota_ns| {
        let run = move |world: &std::rc::Rc<sim::World>| {
            let host = world.add_host(ip(1), HostModel { task_quota_ns, ..model(1) });
            let log = Log::new();
            let seen = log.clone();
            world.boot(host, move |_| {
                let log = seen.clone();
                async move {
                    drop(spawn(Group::Compaction, "long", async move {
                        for _ in 0..2_000 {
                            charge(Work::MemtableInsert, 0);
                            if reactor::has_used_quota() {
                                time::yield_now().await;
                            }
                        }
                    }));
                    for _ in 0..5 {
                        let due = reactor::now() + MS;
                        time::sleep_until(due).await;
                        log.push(reactor::now() - due);
                    }
                }
            });
            world.run_until_idle();
            log.all()
        };
        sim::run(1, Settings::default(), run).value.into_iter().max().unwrap()
    };
    assert!((1..520_000).contains(&waits(None)), "{}", waits(None));
    assert!((1_000_000..2_020_000).contains(&waits(Some(2 * MS))), "{}", waits(Some(2 * MS)));
}
