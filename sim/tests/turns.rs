//! What a shard does when: it sleeps when idle and takes its time to wake, and works in turns where its system does.

#![allow(clippy::unwrap_used)]

mod common;

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use common::{Log, MS, S, addr, alone, ip, rw};
use hwprofiles::{Moment, Moments};
use reactor::{Buf, Group, Work, charge, fs, net, spawn, time};
use sim::{CpuModel, HostModel, IdleModel, InterruptionModel, Latency, MomentsModel, Settings, World};

/// A poll takes 100 ns, a kind of work 100 us.
fn model(turn_ns: Option<u64>) -> HostModel {
    let mut model = HostModel { turn_ns, ..HostModel::plain("plain", 1) };
    model.cpu = CpuModel::polls_only(100);
    model.cpu.set(Work::MemtableInsert, 100_000.0, 0.0);
    model
}

const TURN: Option<u64> = Some(500_000);

/// A task sleeps for 1 ms at a time: how late its timers come, and the CPU that each takes, in ns.
fn naps(model: HostModel) -> Vec<(u64, u64)> {
    alone(model, |log| async move {
        for _ in 0..5 {
            let (due, used) = (reactor::now() + MS, reactor::used_cpu_ns());
            time::sleep_until(due).await;
            log.push((reactor::now() - due, reactor::used_cpu_ns() - used));
        }
    })
}

fn lateness(idle: IdleModel) -> Vec<u64> {
    naps(HostModel { idle, ..model(None) }).into_iter().map(|(late, _)| late).collect()
}

#[test]
fn an_idle_processor_sleeps_and_wakes_late() {
    let wake = Some(Latency::constant(40_000));
    let asleep = lateness(IdleModel { wake: wake.clone(), ..Default::default() });
    assert!(asleep.len() == 5 && asleep.iter().all(|late| (40_000..41_000).contains(late)), "{asleep:?}");
    // One that looks for work for longer than it is idle never sleeps.
    let looking = lateness(IdleModel { busy_poll_ns: 2 * MS, wake: wake.clone(), ..Default::default() });
    assert!(looking.len() == 5 && looking.iter().all(|late| *late < 1_000), "{looking:?}");
    // One that dozes is woken sooner than one that sleeps, while it dozes.
    let doze = |lasts_ns| {
        let doze = Some(sim::DozeModel { lasts_ns, wake: Latency::constant(5_000) });
        lateness(IdleModel { wake: wake.clone(), doze, ..Default::default() })
    };
    assert!(doze(2 * MS).iter().all(|late| (5_000..6_000).contains(late)), "{:?}", doze(2 * MS));
    assert_eq!(doze(MS / 2), asleep);
}

#[test]
fn a_timer_takes_its_own_time_to_wake_a_processor() {
    let late = Some(Latency::constant(25_000));
    let idle = IdleModel { wake: Some(Latency::constant(3_000)), timer: late.clone(), ..Default::default() };
    let asleep = lateness(idle.clone());
    assert!(asleep.len() == 5 && asleep.iter().all(|late| (25_000..26_000).contains(late)), "{asleep:?}");
    let looking = lateness(IdleModel { busy_poll_ns: 2 * MS, timer: late, ..Default::default() });
    assert!(looking.len() == 5 && looking.iter().all(|late| *late < 1_000), "{looking:?}");
    // One that comes due while another wakes the processor is noticed with it.
    let together = alone(HostModel { idle, ..model(None) }, |log| async move {
        let due = reactor::now() + MS;
        let first = spawn(Group::Statement, "first", time::sleep_until(due));
        time::sleep_until(due + 10_000).await;
        first.await;
        log.push(reactor::now() - due);
    });
    assert!(together.len() == 1 && (25_000..26_000).contains(&together[0]), "{together:?}");
}

#[test]
fn the_cpu_of_sleeping_and_waking_is_used_and_holds_nothing_up() {
    let idle = IdleModel { wake: Some(Latency::constant(40_000)), ..Default::default() };
    let mut model = HostModel { idle, ..model(None) };
    model.cpu.set(Work::Wake, 20_000.0, 0.0);
    let slept = naps(model);
    assert_eq!(slept.len(), 5);
    for (late, used) in slept {
        assert!((40_000..41_000).contains(&late) && (20_000..21_000).contains(&used), "{late} {used}");
    }
}

#[test]
fn a_clock_that_is_set_for_a_timer_is_set_back_by_who_wakes_sooner() {
    let mut model = model(TURN);
    model.idle.wake = Some(Latency::constant(3_000));
    model.cpu.set(Work::Timer, 6_000.0, 0.0);
    // What a read, and the CPU with it, take while another task sleeps.
    let read_beside = |nap_ns: u64| {
        alone(model.clone(), move |log| async move {
            let file = fs::File::open("/a", rw()).await.unwrap();
            let (began, used) = (reactor::now(), reactor::used_cpu_ns());
            let due = began + nap_ns;
            let nap = spawn(Group::Statement, "nap", time::sleep_until(due));
            file.read_at(0, 4096, Buf::new()).await.0.unwrap();
            log.push((reactor::now() - began, reactor::used_cpu_ns() - used));
            nap.await;
            log.push((reactor::now() - due, reactor::used_cpu_ns() - used));
        })
    };
    let (soon, late) = (read_beside(500_000), read_beside(5 * MS));
    // The read comes while the clock is set; then it is set back, and once more for the timer itself.
    assert_eq!([late[0].0, soon[0].0], [5_200, 6_000 + 3_000 + 6_000 + 200]);
    assert_eq!([soon[0].1 - late[0].1, soon[1].1 - late[1].1], [12_000, 18_000]);
    assert_eq!(soon[1].0, late[1].0);
}

#[test]
fn a_working_processor_is_taken_away_now_and_then() {
    // 10 s of work, of which every 10 ms on average 2 ms are lost.
    let interruptions = vec![InterruptionModel::new(10 * MS, Latency::constant(2 * MS))];
    let ended = alone(HostModel { interruptions, ..model(None) }, |log| async move {
        for _ in 0..100_000 {
            charge(Work::MemtableInsert, 0);
            time::yield_now().await;
        }
        log.push((reactor::now(), reactor::used_cpu_ns()));
    });
    let (took, used) = ended[0];
    assert!((10 * S..10 * S + S / 10).contains(&used), "{used}");
    let lost = (took - used) as f64 / used as f64;
    assert!((0.18..0.22).contains(&lost), "{lost}");
}

/// When a thousand pieces of work of 100 us have ended on a processor with such moments, each 10 ms long.
fn with_moments(slowness_and_taken: &[(f32, u64)]) -> u64 {
    let moment = |&(slowness, taken_ns): &(f32, u64)| Moment { slowness, taken_ns: taken_ns as u32 };
    let spans = vec![slowness_and_taken.iter().map(moment).collect()];
    let moments = MomentsModel::new(&Moments { every_ns: 10 * MS, spans });
    let ended = alone(HostModel { moments, ..model(None) }, |log| async move {
        for _ in 0..1_000 {
            charge(Work::MemtableInsert, 0);
            time::yield_now().await;
        }
        log.push(reactor::now());
    });
    ended[0]
}

#[test]
fn a_processor_is_as_slow_as_it_was_seen_to_be_over_and_over_again() {
    assert!(MomentsModel::new(&Moments { every_ns: 10 * MS, spans: vec![vec![]] }).is_none());
    // In 10 ms a hundred pieces, in the next 25.
    let ended = with_moments(&[(1.0, 0), (4.0, 0)]);
    assert!((160 * MS..162 * MS).contains(&ended), "{ended}");
}

#[test]
fn others_take_a_processor_as_they_were_seen_to() {
    // In 10 ms a hundred pieces, in the next 60.
    let ended = with_moments(&[(1.0, 0), (1.0, 4 * MS)]);
    assert!((123 * MS..127 * MS).contains(&ended), "{ended}");
}

#[test]
fn who_sleeps_loses_only_what_is_taken_in_the_span_in_which_it_wakes() {
    let moments = Moments { every_ns: 10 * MS, spans: vec![vec![Moment { slowness: 1.0, taken_ns: 5_000_000 }]] };
    let moments = MomentsModel::new(&moments);
    let late = alone(HostModel { moments, ..model(None) }, |log| async move {
        for _ in 0..20 {
            let due = reactor::now() + 47 * MS;
            time::sleep_until(due).await;
            log.push(reactor::now() - due);
        }
    });
    // The end of one may fall into the next.
    assert!(late.iter().all(|late| *late <= 10 * MS + MS) && late.iter().any(|late| *late >= 5 * MS), "{late:?}");
}

/// A task works for 100 us a hundred times and ends its turn behind each: how late another's timers come meanwhile.
fn beside(start: fn(std::pin::Pin<Box<dyn Future<Output = ()>>>)) -> Vec<u64> {
    alone(model(None), move |log| async move {
        start(Box::pin(async {
            for _ in 0..100 {
                charge(Work::MemtableInsert, 0);
                time::end_turn().await;
            }
        }));
        for _ in 0..5 {
            let due = reactor::now() + MS;
            time::sleep_until(due).await;
            log.push(reactor::now() - due);
        }
    })
}

#[test]
fn long_work_lets_others_go_first_at_each_turn_s_end() {
    let as_a_task = beside(|work| drop(spawn(Group::Statement, "work", work)));
    let in_place = beside(|work| reactor::run_or_spawn(Group::Statement, "work", work));
    for late in [as_a_task, in_place] {
        assert!(late.len() == 5 && late.iter().all(|late| *late <= 100_500), "{late:?}");
    }
}

#[test]
fn handing_over_a_burst_of_disk_operations_is_no_task_s_turn() {
    let mut model = model(TURN);
    model.cpu.set(Work::Doorbell, 200_000.0, 0.0);
    let log = alone(model, |log| async move {
        let file = fs::File::open("/a", rw()).await.unwrap();
        let mut reads: Vec<_> = (0..8).map(|_| Box::pin(file.read_at(0, 4096, Buf::new()))).collect();
        time::yield_now().await;
        let began = reactor::now();
        // The eighth takes all with it.
        poll_fn(|cx| Poll::Ready(reads.iter_mut().all(|read| read.as_mut().poll(cx).is_pending()))).await;
        log.push((reactor::now() - began, time::is_turn_over()));
        charge(Work::MemtableInsert, 0);
        log.push((reactor::now() - began, time::is_turn_over()));
    });
    assert_eq!(log, [(200_000, false), (300_000, true)]);
}

#[test]
fn a_task_s_turn_is_as_long_as_its_system_lets_it() {
    let turns = |task_turn_ns| {
        alone(HostModel { task_turn_ns, ..model(TURN) }, |log| async move {
            for _ in 0..3 {
                charge(Work::MemtableInsert, 0);
                log.push(time::is_turn_over());
            }
        })
    };
    assert_eq!(turns(None), [true, true, true]);
    assert_eq!(turns(Some(250_000)), [false, false, true]);
}

/// When the first of two messages that a host sends reaches the other, whose second task works for 100 us beside.
fn first_arrival(turn_ns: Option<u64>) -> u64 {
    let run = |world: &std::rc::Rc<World>| {
        let (server, client) = (world.add_host(ip(1), model(None)), world.add_host(ip(2), model(turn_ns)));
        let log = Log::new();
        let seen = log.clone();
        world.boot(server, move |_| {
            let log = seen.clone();
            async move {
                let listener = net::listen(addr(1, 7000)).await.unwrap();
                let connection = listener.accept().await.unwrap();
                let (result, _) = connection.recv(Buf::with_capacity(64)).await;
                assert_eq!(result.unwrap(), 5);
                log.push(reactor::now());
            }
        });
        world.boot(client, |_| async {
            let connection = net::connect(addr(1, 7000)).await.unwrap();
            time::sleep_until(10 * MS).await;
            drop(spawn(Group::Statement, "work", async { charge(Work::MemtableInsert, 0) }));
            connection.send_all(Buf::from(&b"hello"[..])).await.0.unwrap();
            time::sleep(Duration::from_millis(1)).await;
        });
        world.run_until(S);
        log.all()[0] - 10 * MS
    };
    sim::run(1, Settings::default(), run).value
}

#[test]
fn what_a_turn_sends_leaves_at_its_end() {
    let (at_once, by_turn) = (first_arrival(None), first_arrival(TURN));
    assert!((50_000..53_000).contains(&at_once), "{at_once}");
    assert!((150_000..153_000).contains(&by_turn), "{by_turn}");
}

/// Bytes that each receive of a host gives, that works for 100 us behind the first of ten messages, 5 us apart.
fn received(turn_ns: Option<u64>) -> Vec<usize> {
    let run = |world: &std::rc::Rc<World>| {
        let (server, client) = (world.add_host(ip(1), model(turn_ns)), world.add_host(ip(2), model(None)));
        let log = Log::new();
        let seen = log.clone();
        world.boot(server, move |_| {
            let log = seen.clone();
            async move {
                let listener = net::listen(addr(1, 7000)).await.unwrap();
                let connection = listener.accept().await.unwrap();
                loop {
                    let receive = connection.recv(Buf::with_capacity(64));
                    // The receive is under way while this works.
                    drop(spawn(Group::Statement, "work", async { charge(Work::MemtableInsert, 0) }));
                    let taken = receive.await.0.unwrap();
                    log.push(taken);
                    if taken == 0 {
                        return;
                    }
                }
            }
        });
        world.boot(client, |_| async {
            let connection = net::connect(addr(1, 7000)).await.unwrap();
            time::sleep_until(10 * MS).await;
            for message in 0..10 {
                time::sleep_until(10 * MS + message * 5_000).await;
                connection.send_all(Buf::from(&b"hello"[..])).await.0.unwrap();
            }
        });
        world.run_until(S);
        log.all()
    };
    sim::run(1, Settings::default(), run).value
}

#[test]
fn what_came_during_a_turn_is_received_at_once() {
    // The first message finds the shard idle; the others come while it works.
    assert_eq!(received(TURN), [5, 45, 0]);
    // Taken as each comes, a receive that was under way has but the next one.
    assert_eq!(received(None), [5, 5, 40, 0]);
}

#[test]
fn sleep_and_turns_keep_a_run_the_same() {
    let wake = hwprofiles::Profiles::embedded().instances["local"].wake.as_ref().and_then(|wake| wake.sampler());
    let wake = wake.map(|sampler| Latency::from_sampler(&sampler, 1));
    let run = |world: &std::rc::Rc<World>| {
        let idle = IdleModel { wake: wake.clone(), ..Default::default() };
        let model = || HostModel { idle: idle.clone(), ..model(TURN) };
        let (server, client) = (world.add_host(ip(1), model()), world.add_host(ip(2), model()));
        world.boot(server, |_| async {
            let listener = net::listen(addr(1, 7000)).await.unwrap();
            let connection = listener.accept().await.unwrap();
            loop {
                let (result, buf) = connection.recv(Buf::with_capacity(64)).await;
                if result.unwrap() == 0 || connection.send_all(buf).await.0.is_err() {
                    return;
                }
            }
        });
        let log = Log::new();
        let seen = log.clone();
        world.boot(client, move |_| {
            let log = seen.clone();
            async move {
                let connection = net::connect(addr(1, 7000)).await.unwrap();
                for _ in 0..20 {
                    connection.send_all(Buf::from(&b"hello"[..])).await.0.unwrap();
                    assert_eq!(connection.recv(Buf::with_capacity(64)).await.0.unwrap(), 5);
                    log.push(reactor::now());
                }
            }
        });
        world.run_until(S);
        log.all()
    };
    let outcomes = [1, 1, 2].map(|seed| {
        let outcome = sim::run(seed, Settings::default(), run);
        (outcome.hash, outcome.value)
    });
    assert_eq!(outcomes[0], outcomes[1]);
    assert_ne!(outcomes[0].1, outcomes[2].1, "wakes are drawn from the seed");
    assert_eq!(outcomes[0].1.len(), 20);
}

#[test]
fn in_one_queue_no_group_comes_before_another() {
    // Of the first twenty polls, those of the group that has a tenth of the shares.
    let of_few_shares = |one_queue| {
        let polls: Vec<Group> = alone(HostModel { one_queue, ..model(None) }, |log| async move {
            reactor::set_shares(Group::Compaction, 100);
            let work = |group| {
                let log = log.clone();
                spawn(group, "works", async move {
                    for _ in 0..40 {
                        charge(Work::MemtableInsert, 0);
                        log.push(group);
                        time::yield_now().await;
                    }
                })
            };
            let both = (work(Group::Statement), work(Group::Compaction));
            both.0.await;
            both.1.await;
        });
        polls.into_iter().take(20).filter(|group| *group == Group::Compaction).count()
    };
    assert_eq!(of_few_shares(true), 10);
    assert!(of_few_shares(false) < 5, "{}", of_few_shares(false));
}
