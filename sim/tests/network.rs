//! Connections between simulated hosts: order, time, bandwidth, windows, refusal, resets, partitions.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::ErrorKind;
use std::time::Duration;

use common::{Log, MS, S, addr, plain};
use reactor::{Buf, Group, net, spawn, time};
use sim::{Crash, NicModel, Settings, World};

/// Accepts for ever and sends everything back.
async fn echo(port: u16) {
    let listener = net::listen(addr(0, port)).await;
    let listener = match listener {
        Ok(listener) => listener,
        Err(_) => net::listen((std::net::Ipv4Addr::UNSPECIFIED, port).into()).await.unwrap(),
    };
    while let Ok(connection) = listener.accept().await {
        drop(spawn(Group::Statement, "echo", async move {
            loop {
                let (result, buf) = connection.recv(Buf::with_capacity(64 << 10)).await;
                if !matches!(result, Ok(n) if n > 0) || connection.send_all(buf).await.0.is_err() {
                    return;
                }
            }
        }));
    }
}

async fn recv_exactly(connection: &net::Connection, len: usize) -> std::io::Result<Vec<u8>> {
    let mut buf = Buf::with_capacity(len);
    while buf.len() < len {
        let (result, returned) = connection.recv(buf).await;
        buf = returned;
        if result? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(buf.to_vec())
}

#[test]
fn a_round_trip_takes_two_latencies_and_the_polls() {
    sim::run(1, Settings::default(), |world| {
        let (server, client) = (plain(world, 1, 1), plain(world, 2, 1));
        let times = Log::new();
        world.boot(server, |_| echo(7000));
        let log = times.clone();
        world.boot(client, move |_| {
            let log = log.clone();
            async move {
                let connection = net::connect(addr(1, 7000)).await.unwrap();
                for _ in 0..3 {
                    let began = reactor::now();
                    connection.send_all(Buf::from(&b"hello"[..])).await.0.unwrap();
                    assert_eq!(recv_exactly(&connection, 5).await.unwrap(), b"hello");
                    log.push(reactor::now() - began);
                }
            }
        });
        world.run_until(S);
        let times = times.all();
        assert_eq!(times.len(), 3);
        for time in times {
            assert!((100_000..103_000).contains(&time), "{time}");
        }
    });
}

#[test]
fn the_nic_saturates_and_order_holds() {
    sim::run(1, Settings::default(), |world| {
        let slow = |world: &World, last| {
            let mut model = sim::HostModel::plain("slow", 1);
            model.nic = NicModel::gigabits(1.0);
            world.add_host(common::ip(last), model)
        };
        let (server, client) = (slow(world, 1), slow(world, 2));
        let done = Log::new();
        let log = done.clone();
        world.boot(server, move |_| {
            let log = log.clone();
            async move {
                let listener = net::listen(addr(1, 7000)).await.unwrap();
                let connection = listener.accept().await.unwrap();
                let bytes = recv_exactly(&connection, 12_500_000).await.unwrap();
                let in_order = bytes.chunks(4).enumerate().all(|(i, word)| word == (i as u32).to_le_bytes());
                log.push((reactor::now(), in_order));
            }
        });
        world.boot(client, |_| async {
            time::sleep(Duration::from_millis(1)).await;
            let connection = net::connect(addr(1, 7000)).await.unwrap();
            let bytes: Vec<u8> = (0..3_125_000u32).flat_map(u32::to_le_bytes).collect();
            connection.send_all(Buf::from(bytes)).await.0.unwrap();
        });
        world.run_until(S);
        let [(at, in_order)] = done.all()[..] else { panic!("not done") };
        assert!(in_order);
        // 100 Mbit of payload and 4.6 % of headers at 1 Gbit/s.
        assert!((104 * MS..115 * MS).contains(&at), "{at}");
    });
}

#[test]
fn a_slow_reader_blocks_the_sender() {
    sim::run(1, Settings::default(), |world| {
        let (server, client) = (plain(world, 1, 1), plain(world, 2, 1));
        world.boot(server, |_| async {
            let listener = net::listen(addr(1, 7000)).await.unwrap();
            let connection = listener.accept().await.unwrap();
            time::sleep(Duration::from_secs(2)).await;
            assert_eq!(recv_exactly(&connection, 4 << 20).await.unwrap().len(), 4 << 20);
        });
        let sent = Log::new();
        let log = sent.clone();
        world.boot(client, move |_| {
            let log = log.clone();
            async move {
                let connection = net::connect(addr(1, 7000)).await.unwrap();
                for _ in 0..64 {
                    connection.send_all(Buf::from(vec![7; 64 << 10])).await.0.unwrap();
                    log.push(reactor::now());
                }
                time::sleep(Duration::from_secs(9)).await;
            }
        });
        world.run_until(S);
        assert_eq!(sent.all().len(), 8, "512 KiB are in flight");
        world.run_until(3 * S);
        assert_eq!(sent.all().len(), 64);
    });
}

#[test]
fn shards_share_a_port_in_turn() {
    sim::run(1, Settings::default(), |world| {
        let (server, client) = (plain(world, 1, 4), plain(world, 2, 1));
        let accepted = Log::new();
        let log = accepted.clone();
        world.boot(server, move |boot| {
            let log = log.clone();
            async move {
                let listener = net::listen(addr(1, 7000)).await.unwrap();
                let mut kept = Vec::new();
                while let Ok(connection) = listener.accept().await {
                    log.push(boot.shard);
                    kept.push(connection);
                }
            }
        });
        world.boot(client, |_| async {
            time::sleep(Duration::from_millis(1)).await;
            let mut kept = Vec::new();
            for _ in 0..8 {
                kept.push(net::connect(addr(1, 7000)).await.unwrap());
            }
        });
        world.run_until(S);
        let mut shards = accepted.all();
        shards.sort_unstable();
        assert_eq!(shards, [0, 0, 1, 1, 2, 2, 3, 3]);
    });
}

/// What a client sees: kinds of errors with their times.
fn client_of_a_fault(fault: impl Fn(&std::rc::Rc<World>, sim::HostId, sim::HostId) + Sync) -> Vec<(u64, String)> {
    sim::run(1, Settings::default(), |world| {
        let (server, client) = (plain(world, 1, 1), plain(world, 2, 1));
        world.boot(server, |_| echo(7000));
        let log = Log::new();
        let seen = log.clone();
        world.boot(client, move |_| {
            let log = seen.clone();
            async move {
                time::sleep(Duration::from_millis(10)).await;
                let connection = match net::connect(addr(1, 7000)).await {
                    Ok(connection) => connection,
                    Err(error) => return log.push((reactor::now(), format!("{:?}", error.kind()))),
                };
                for _ in 0..100 {
                    if let Err(error) = connection.send_all(Buf::from(&b"hello"[..])).await.0 {
                        return log.push((reactor::now(), format!("send {:?}", error.kind())));
                    }
                    match recv_exactly(&connection, 5).await {
                        Ok(_) => log.push((reactor::now(), "ok".into())),
                        Err(error) => return log.push((reactor::now(), format!("{:?}", error.kind()))),
                    }
                    time::sleep(Duration::from_millis(100)).await;
                }
            }
        });
        fault(world, server, client);
        world.run_until(world.now() + 20 * S);
        log.all()
    })
    .value
}

#[test]
fn nobody_listens() {
    let seen = client_of_a_fault(|world, server, _| world.crash(server, Crash::Kill));
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].1, "ConnectionRefused");
    assert!(seen[0].0 < 11 * MS);
}

#[test]
fn a_killed_process_ends_its_connections() {
    let seen = client_of_a_fault(|world, server, _| {
        world.run_until(950 * MS);
        world.crash(server, Crash::Kill);
    });
    let (at, last) = seen.last().unwrap();
    assert_eq!((last.as_str(), seen.len()), ("UnexpectedEof", 11));
    assert!((1000 * MS..1100 * MS).contains(at), "{at}");
}

#[test]
fn power_loss_is_silent_until_the_host_is_back() {
    let seen = client_of_a_fault(|world, server, _| {
        world.run_until(950 * MS);
        world.crash(server, Crash::PowerLoss);
        world.run_until(5 * S);
        world.restart(server);
    });
    let (at, last) = seen.last().unwrap();
    assert_eq!(last, "ConnectionReset");
    assert!((5 * S..9 * S).contains(at), "{at}");
}

#[test]
fn a_partition_delays_until_it_heals() {
    let seen = client_of_a_fault(|world, server, client| {
        world.run_until(950 * MS);
        world.cut(server, client);
        world.run_until(3 * S);
        world.mend(server, client);
    });
    assert_eq!(seen.len(), 100);
    assert!(seen.iter().all(|(_, what)| what == "ok"));
    let gap = seen.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap();
    assert!((2 * S..5 * S).contains(&gap), "{gap}");
}

#[test]
fn connecting_to_a_dark_host_times_out_at_last() {
    sim::run(1, Settings::default(), |world| {
        let (_server, client) = (plain(world, 1, 1), plain(world, 2, 1));
        let log = Log::new();
        let seen = log.clone();
        world.boot(client, move |_| {
            let log = seen.clone();
            async move {
                let result = net::connect(addr(1, 7000)).await;
                log.push((reactor::now(), result.err().map(|error| error.kind())));
                let early = time::timeout(Duration::from_secs(1), net::connect(addr(1, 7000))).await;
                assert!(early.is_err());
                log.push((reactor::now(), None));
            }
        });
        world.run_until(200 * S);
        let seen = log.all();
        assert_eq!(seen[0].1, Some(ErrorKind::TimedOut));
        assert!((126 * S..129 * S).contains(&seen[0].0), "{}", seen[0].0);
        assert!(seen[1].0 - seen[0].0 < S + MS);
    });
}

#[test]
fn a_paused_host_answers_later() {
    let seen = client_of_a_fault(|world, server, _| {
        world.run_until(950 * MS);
        world.pause_for(server, 2 * S);
    });
    assert_eq!(seen.len(), 100);
    let gap = seen.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap();
    assert!((1900 * MS..2200 * MS).contains(&gap), "{gap}");
}

#[test]
fn a_cut_way_back_fills_the_window() {
    sim::run(1, Settings::default(), |world| {
        let (server, client) = (plain(world, 1, 1), plain(world, 2, 1));
        let (sent, received) = (Log::new(), Log::new());
        let (sender, receiver) = (sent.clone(), received.clone());
        world.boot(server, move |_| {
            let log = receiver.clone();
            async move {
                let listener = net::listen(addr(1, 7000)).await.unwrap();
                let connection = listener.accept().await.unwrap();
                while let (Ok(n @ 1..), _) = connection.recv(Buf::with_capacity(1 << 20)).await {
                    log.push(n);
                }
            }
        });
        world.boot(client, move |_| {
            let log = sender.clone();
            async move {
                let connection = net::connect(addr(1, 7000)).await.unwrap();
                for _ in 0..100 {
                    time::sleep(Duration::from_millis(10)).await;
                    connection.send_all(Buf::from(vec![7; 64 << 10])).await.0.unwrap();
                    log.push(());
                }
                time::sleep(Duration::from_secs(10)).await;
            }
        });
        world.run_until(105 * MS);
        let before = sent.all().len();
        world.cut(server, client);
        world.run_until(S);
        assert_eq!(sent.all().len() - before, 8, "512 KiB without an answer");
        assert_eq!(received.all().iter().sum::<usize>(), sent.all().len() * (64 << 10), "they arrived all the same");
        world.heal();
        world.run_until(4 * S);
        assert_eq!(sent.all().len(), 100);
    });
}

/// Round trips of 5 bytes between a first host and each of the others, sorted, in us.
fn round_trips(network: &str, clients: u8) -> Vec<Vec<u64>> {
    let network = sim::NetworkModel::from_profile(hwprofiles::Profiles::embedded().network(network).unwrap());
    sim::run(1, Settings { network, ..Default::default() }, |world| {
        let server = plain(world, 1, 1);
        world.boot(server, |_| echo(7000));
        let logs: Vec<Log<u64>> = (0..clients).map(|_| Log::new()).collect();
        for (client, log) in logs.iter().enumerate() {
            let host = plain(world, client as u8 + 2, 1);
            let log = log.clone();
            world.boot(host, move |_| {
                let log = log.clone();
                async move {
                    let connection = net::connect(addr(1, 7000)).await.unwrap();
                    loop {
                        let began = reactor::now();
                        connection.send_all(Buf::from(&b"hello"[..])).await.0.unwrap();
                        recv_exactly(&connection, 5).await.unwrap();
                        log.push((reactor::now() - began) / 1000);
                    }
                }
            });
        }
        world.run_until(3 * S);
        let sorted = logs.iter().map(|log| {
            let mut all = log.all();
            all.sort_unstable();
            all
        });
        sorted.collect()
    })
    .value
}

#[test]
fn a_round_trip_takes_what_its_placement_takes() {
    let quantile = |times: &[u64], q: f64| times[(times.len() as f64 * q) as usize];
    let within = |network: &str, low: u64, mid: u64, high: u64| {
        let times = round_trips(network, 1).remove(0);
        let [p5, p50, p95] = [0.05, 0.5, 0.95].map(|q| quantile(&times, q));
        println!("{network}: {p5} {p50} {p95} us");
        // Two ways drawn one by one: their sum is narrower than twice one.
        assert!(p5 >= low && p95 <= high, "{network}: {p5} {p95}");
        assert!(p50.abs_diff(mid) * 100 <= mid * 15, "{network}: {p50}");
    };
    within("placement-group", 35, 50, 70);
    within("one-zone", 75, 105, 400); // its tail, of both ways
    let zones = round_trips("three-zones", 3);
    for (client, times) in zones.iter().enumerate() {
        let (low, high) = if (client + 1) % 3 == 0 { (75, 400) } else { (300, 850) };
        let [p5, p95] = [0.05, 0.95].map(|q| quantile(times, q));
        assert!(p5 >= low && p95 <= high, "client {client}: {p5} {p95}");
    }
}

/// Bytes of payload that `flows` connections from one host to another carry in each tenth of a second.
fn carried(nic: NicModel, per_flow: f64, flows: u64, block: usize) -> Vec<u64> {
    let network = sim::NetworkModel { per_flow, ..sim::NetworkModel::plain() };
    sim::run(1, Settings { network, ..Default::default() }, |world| {
        let host = |last| {
            let mut model = sim::HostModel::plain("fast", 8);
            model.nic = nic.clone();
            world.add_host(common::ip(last), model)
        };
        let (server, client) = (host(1), host(2));
        let bytes = Log::new();
        let log = bytes.clone();
        world.boot(server, move |_| {
            let log = log.clone();
            async move {
                let listener = net::listen(addr(1, 7000)).await.unwrap();
                while let Ok(connection) = listener.accept().await {
                    let log = log.clone();
                    drop(spawn(Group::Statement, "sink", async move {
                        let mut buf = Buf::with_capacity(256 << 10);
                        loop {
                            buf.clear();
                            let (result, returned) = connection.recv(buf).await;
                            buf = returned;
                            log.push((reactor::now() / (S / 10), result.unwrap() as u64));
                        }
                    }));
                }
            }
        });
        world.boot(client, move |boot| async move {
            for _ in 0..flows / 8 + u64::from((boot.shard as u64) < flows % 8) {
                drop(spawn(Group::Statement, "source", async move {
                    time::sleep(Duration::from_millis(1)).await;
                    let connection = net::connect(addr(1, 7000)).await.unwrap();
                    let mut buf = Buf::from(vec![7; block]);
                    loop {
                        buf = connection.send_all(buf).await.1;
                    }
                }));
            }
        });
        world.run_until(S / 2);
        let mut tenths = vec![0; 5];
        bytes.all().into_iter().filter(|(tenth, _)| *tenth < 5).for_each(|(tenth, n)| tenths[tenth as usize] += n);
        tenths
    })
    .value
}

/// Of payload; headers take another 4.6 %.
fn gigabits(bytes_in_a_tenth: u64) -> f64 {
    bytes_in_a_tenth as f64 * 10.0 * 8.0 / 1e9
}

#[test]
fn bandwidth_bursts_while_credits_last() {
    // i4i.4xlarge, whose 28 Tb of credits are 4 Gb here: they last for 4 / (25 - 9.375) s.
    let mut nic = NicModel::gigabits(9.375);
    (nic.burst, nic.burst_credit) = (25e9 / 8.0, 4e9 / 8.0);
    let rates: Vec<f64> = carried(nic, 1.25e9, 16, 64 << 10).into_iter().map(gigabits).collect();
    println!("Gbps in each tenth of a second: {rates:.1?}");
    assert!((22.5..25.0).contains(&rates[1]), "{rates:?}");
    assert!((8.5..9.4).contains(&rates[4]), "{rates:?}");
}

#[test]
fn one_flow_has_its_own_limit() {
    for gbps in [5.0, 10.0] {
        let one = gigabits(carried(NicModel::gigabits(25.0), gbps * 1e9 / 8.0, 1, 64 << 10)[2]);
        assert!((gbps * 0.95..gbps * 1.05).contains(&one), "{one} of {gbps}");
        let two = gigabits(carried(NicModel::gigabits(25.0), gbps * 1e9 / 8.0, 2, 64 << 10)[2]);
        assert!((gbps * 1.9..gbps * 2.1).contains(&two), "{two} of twice {gbps}");
    }
}

#[test]
fn packets_are_limited_in_and_out_together() {
    let mut nic = NicModel::gigabits(25.0);
    nic.packets = Some(100_000.0);
    // Each host only sends or only takes here: all its packets go one way.
    let bytes = carried(nic, 1.25e9, 8, 100)[2];
    let packets = bytes * 10 / 100;
    assert!((95_000..105_000).contains(&packets), "{packets}");
}

#[test]
fn a_connection_takes_a_round_trip_to_set_up() {
    sim::run(1, Settings::default(), |world| {
        let (server, client) = (plain(world, 1, 1), plain(world, 2, 1));
        world.boot(server, |_| echo(7000));
        let times = Log::new();
        let log = times.clone();
        world.boot(client, move |_| {
            let log = log.clone();
            async move {
                time::sleep(Duration::from_millis(1)).await;
                for _ in 0..10 {
                    let began = reactor::now();
                    drop(net::connect(addr(1, 7000)).await.unwrap());
                    log.push(reactor::now() - began);
                }
            }
        });
        world.run_until(S);
        assert_eq!(times.all().len(), 10);
        for time in times.all() {
            assert!((100_000..102_000).contains(&time), "{time}");
        }
    });
}

#[test]
fn packets_take_cpu_from_the_shards_where_no_cpu_is_kept_for_them() {
    let used = |packet_ns| {
        sim::run(1, Settings::default(), |world| {
            let mut model = sim::HostModel::plain("interrupted", 1);
            model.interrupts = Some(sim::InterruptModel { cpus: 0, packet_ns, ns_per_byte: 0.0 });
            let server = world.add_host(common::ip(1), model);
            let client = plain(world, 2, 1);
            world.boot(server, |_| echo(7000));
            world.boot(client, |_| async {
                let connection = net::connect(addr(1, 7000)).await.unwrap();
                for _ in 0..1000 {
                    connection.send_all(Buf::from(&b"hello"[..])).await.0.unwrap();
                    recv_exactly(&connection, 5).await.unwrap();
                }
            });
            world.run_until(S);
            world.host_counters(server).shard_cpu_ns[0]
        })
        .value
    };
    let (without, with) = (used(0.0), used(5_000.0));
    assert!((4_990_000..5_010_000).contains(&(with - without)), "{with} and {without}");
}
