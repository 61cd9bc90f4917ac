//! Shards on real rings: the conformance suite, and what only this world has.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods)] // the tests drive hosts from threads outside of them

#[macro_use]
mod suite;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use reactor::uring::{self, Config, Error, Host, OnPanic};
use reactor::{Buf, Group, OpenFlags};
use suite::{Place, World, ms};

struct Uring;

/// A folder on a real file system (O_DIRECT) and a loopback address that no test of this or another process uses.
fn place() -> (tempfile::TempDir, Place) {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let process = (std::process::id() % 200) as u8 + 20;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().to_str().unwrap().to_owned();
    (dir, Place { dir: path, ip: IpAddr::V4(Ipv4Addr::new(127, process, high, low)) })
}

fn config(shards: usize) -> Config {
    Config { shards, on_panic: OnPanic::Stop, ring_entries: 64, ..Config::default() }
}

impl World for Uring {
    fn run<Fut: Future<Output = ()> + 'static>(shards: usize, main: impl FnOnce(Place) -> Fut + Send + 'static) {
        let (_dir, place) = place();
        let (ended, end) = mpsc::channel();
        let main = Arc::new(Mutex::new(Some((main, ended, place))));
        let host = Host::start(config(shards), move |shard| {
            let main = (shard == 0).then(|| main.lock().unwrap().take().unwrap());
            async move {
                if let Some((main, ended, place)) = main {
                    main(place).await;
                    ended.send(()).unwrap();
                }
            }
        })
        .unwrap();
        let _ = end.recv(); // an error: a shard panicked, which `join` reports
        host.stop();
        if let Err(error) = host.join() {
            panic!("{error}");
        }
        // Other tests of this process have theirs open, but not as many as a test that leaks leaves behind.
        let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
        assert!(open < 1300, "{open} descriptors are open: they leak");
    }
}

conformance!(Uring);

/// Many threads wake a task that would sleep between any two of their wakes: each must be seen.
#[test]
fn no_wake_from_another_thread_is_lost() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 20_000;
    struct Meeting {
        sent: AtomicU64,
        seen: AtomicU64,
        waker: Mutex<Option<Waker>>,
    }
    let meetings: Vec<_> =
        (0..THREADS).map(|_| Arc::new(Meeting { sent: 0.into(), seen: 0.into(), waker: Mutex::new(None) })).collect();
    let host = Host::start(config(1), {
        let meetings = meetings.clone();
        move |_| {
            let meetings = meetings.clone();
            async move {
                for meeting in meetings {
                    drop(reactor::spawn(
                        Group::Statement,
                        "met",
                        poll_fn(move |cx| {
                            let mut waker = meeting.waker.lock().unwrap();
                            if waker.is_none() {
                                *waker = Some(cx.waker().clone());
                            }
                            drop(waker);
                            meeting.seen.store(meeting.sent.load(Ordering::Relaxed), Ordering::Relaxed);
                            Poll::<()>::Pending
                        }),
                    ));
                }
            }
        }
    })
    .unwrap();
    let threads: Vec<_> = meetings
        .into_iter()
        .map(|meeting| {
            thread::spawn(move || {
                let waker = loop {
                    if let Some(waker) = meeting.waker.lock().unwrap().clone() {
                        break waker;
                    }
                    thread::yield_now();
                };
                for round in 1..=ROUNDS {
                    meeting.sent.store(round, Ordering::Relaxed);
                    waker.wake_by_ref();
                    // Sometimes wait for the answer, so that the shard goes to sleep; sometimes wake on.
                    if round % 4 != 0 {
                        continue;
                    }
                    let mut spins = 0u64;
                    while meeting.seen.load(Ordering::Relaxed) != round {
                        spins += 1;
                        assert!(spins < 20_000_000, "wake {round} was lost");
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    host.stop();
    host.join().unwrap();
}

#[test]
fn messages_from_outside_run_in_order() {
    let host = Host::start(config(2), |_| async {}).unwrap();
    let (send, receive) = mpsc::channel();
    for i in 0..1000 {
        let send = send.clone();
        host.run_on(1, move || send.send((reactor::shard_index().0, i)).unwrap());
        if i % 100 == 0 {
            thread::sleep(ms(1));
        }
    }
    for i in 0..1000 {
        assert_eq!(receive.recv().unwrap(), (1, i));
    }
}

#[test]
fn a_host_stops_from_outside_while_everything_runs() {
    let (_dir, place) = place();
    let host = Host::start(config(2), move |shard| {
        let place = place.clone();
        async move {
            let flags = OpenFlags { read: true, direct: true, ..suite::CREATE };
            let file = reactor::fs::File::open(&place.path(&format!("{shard}")), flags).await.unwrap();
            loop {
                file.write_all_at(0, suite::direct(&[1; 1 << 16])).await.0.unwrap();
                file.datasync().await.unwrap();
                reactor::submit_to(1 - shard, "call", || async {}).await;
            }
        }
    })
    .unwrap();
    thread::sleep(ms(50));
    host.stop();
    host.join().unwrap();
}

#[test]
fn a_panic_stops_the_host_and_is_told() {
    let host = Host::start(config(3), |shard| async move {
        if shard == 1 {
            reactor::spawn(Group::Flush, "the culprit", async {
                reactor::time::sleep(ms(2)).await;
                panic!("out of {}", "cheese");
            })
            .await;
        }
    })
    .unwrap();
    match host.join() {
        Err(Error::Panicked { shard: 1, task: "the culprit", message }) => assert_eq!(message, "out of cheese"),
        other => panic!("{other:?}"),
    }
}

#[test]
#[should_panic(expected = "passed on")]
fn a_panic_reaches_the_one_who_blocks() {
    let _ = uring::block_on(async { reactor::spawn(Group::Statement, "thrower", async { panic!("passed on") }).await });
}

#[test]
fn block_on_gives_the_output_and_drops_the_rest() {
    let dropped = Arc::new(AtomicBool::new(false));
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let flag = Flag(dropped.clone());
    let output = uring::block_on(async move {
        drop(reactor::spawn(Group::Statement, "forever", async move {
            let _flag = flag;
            std::future::pending::<()>().await;
        }));
        reactor::time::yield_now().await;
        42
    });
    assert_eq!(output.unwrap(), 42);
    assert!(dropped.load(Ordering::SeqCst));
}

#[test]
fn files_are_closed_when_the_host_has_stopped() {
    let (_dir, place) = place();
    let folder = place.dir.clone();
    uring::block_on(async move {
        let mut files = Vec::new();
        for i in 0..200 {
            files.push(suite::file_with(&place.path(&i.to_string()), &suite::pattern(0, 10)).await);
        }
    })
    .unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| std::fs::read_link(entry.unwrap().path()));
    let left = open.filter(|target| target.as_ref().is_ok_and(|target| target.starts_with(&folder))).count();
    assert_eq!(left, 0);
}

#[test]
fn more_in_flight_than_the_ring_has_entries() {
    let (_dir, place) = place();
    let config = Config { ring_entries: 8, ..config(1) };
    uring::block_on_with(config, move || async move {
        let file = suite::file_with(&place.path("a"), &suite::pattern(0, 1 << 16)).await;
        drop(file);
        let file = reactor::fs::File::open(&place.path("a"), suite::READ).await.unwrap();
        let done = Rc::new(Cell::new(0));
        for i in 0..500u64 {
            let (file, done) = (file.clone(), done.clone());
            drop(reactor::spawn(Group::Statement, "read", async move {
                let (n, buf) = file.read_at(i * 100, 100, Buf::new()).await;
                assert!(n.unwrap() == 100 && *buf == suite::pattern(i as usize * 100, 100));
                done.set(done.get() + 1);
            }));
        }
        while done.get() < 500 {
            reactor::time::sleep(ms(1)).await;
        }
    })
    .unwrap();
}

/// A task that is always runnable must not keep completions, timers and messages from the others.
#[test]
fn a_busy_task_does_not_starve_the_ring() {
    let (_dir, place) = place();
    let config = Config { task_quota: Duration::from_micros(100), ..config(1) };
    uring::block_on_with(config, move || async move {
        drop(reactor::spawn(Group::Compaction, "busy", async {
            loop {
                reactor::time::yield_now().await;
            }
        }));
        let file = suite::file_with(&place.path("a"), b"there").await;
        for _ in 0..20 {
            reactor::time::sleep(ms(1)).await;
            file.datasync().await.unwrap();
            reactor::submit_to(0, "self", || async {}).await;
        }
        let listener = reactor::net::listen(place.addr(0)).await.unwrap();
        let client = reactor::net::connect(place.addr(0)).await.unwrap();
        listener.accept().await.unwrap().send_all(Buf::from(&b"x"[..])).await.0.unwrap();
        assert_eq!(client.recv(Buf::with_capacity(1)).await.0.unwrap(), 1);
    })
    .unwrap();
}

#[test]
fn a_busy_polling_host_works_and_stops() {
    let config = Config { busy_poll: Duration::from_micros(200), ..config(2) };
    let host = Host::start(config, |shard| async move {
        for _ in 0..100 {
            assert_eq!(reactor::submit_to(1 - shard, "call", || async { reactor::shard_index().0 }).await, 1 - shard);
            reactor::time::sleep(Duration::from_micros(300)).await;
        }
    })
    .unwrap();
    thread::sleep(ms(100));
    host.stop();
    host.join().unwrap();
}

#[test]
fn a_cpu_that_is_not_there_is_named() {
    let config = Config { cpus: Some(vec![1000]), ..config(1) };
    let Err(error) = Host::start(config, |_| async {}) else { panic!("there is no CPU 1000") };
    assert!(error.to_string().starts_with("shard 0 cannot be pinned to CPU 1000"), "{error}");
    assert!(matches!(Host::start(self::config(0), |_| async {}), Err(Error::NoShards)));
}
