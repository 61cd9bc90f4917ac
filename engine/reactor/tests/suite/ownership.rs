//! Buffers, slots and descriptors: whose they are, and that they come back.

use std::time::Duration;

use reactor::fs::File;
use reactor::net::{connect, listen};
use reactor::time::{sleep, timeout, yield_now};
use reactor::{Buf, Group, OpenFlags, Shard};

use super::*;

/// Reads are dropped while the world may still write into their buffers; meanwhile other buffers of the same size
/// come and go. A buffer freed too early would be one of those, and be overwritten with the file's bytes.
pub fn a_dropped_reads_buffer_is_not_reused<W: World>() {
    run::<W, _>(1, |place| async move {
        const LEN: usize = 64 << 10;
        let flags = OpenFlags { read: true, direct: true, ..CREATE };
        let file = File::open(&place.path("a"), flags).await.unwrap();
        file.write_all_at(0, direct(&[0xee; LEN])).await.0.unwrap();
        for _ in 0..100 {
            {
                let mut reads: Vec<_> =
                    (0..4).map(|_| Box::pin(timeout(Duration::ZERO, file.read_at(0, LEN, Buf::direct(LEN))))).collect();
                for read in &mut reads {
                    let _ = std::future::poll_fn(|cx| std::task::Poll::Ready(read.as_mut().poll(cx).is_ready())).await;
                }
            }
            let others: Vec<_> = (0..8).map(|_| direct(&[0x11; LEN])).collect();
            yield_now().await;
            sleep(Duration::from_micros(200)).await;
            assert!(others.iter().all(|other| other.iter().all(|&b| b == 0x11)));
        }
        settle(0).await;
    });
}

pub fn churn_does_not_grow_the_tables<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = file_with(&place.path("a"), &pattern(0, 4096)).await;
        drop(file);
        let file = File::open(&place.path("a"), READ).await.unwrap();
        let (slots, tasks) = Shard::with(|shard| (shard.slots_allocated(), shard.live_tasks()));
        for _ in 0..200 {
            let reads: Vec<_> = (0..8)
                .map(|_| {
                    let file = file.clone();
                    reactor::spawn(Group::Statement, "read", async move {
                        assert_eq!(file.read_at(0, 512, Buf::new()).await.0.unwrap(), 512);
                    })
                })
                .collect();
            for read in reads {
                read.await;
            }
        }
        Shard::with(|shard| {
            assert!(shard.slots_allocated() <= slots + 8, "{} slots for 8 at a time", shard.slots_allocated());
            assert_eq!(shard.live_tasks(), tasks);
        });
    });
}

pub fn dropped_operations_free_their_slots<W: World>() {
    run::<W, _>(1, |place| async move {
        let listener = listen(place.addr(0)).await.unwrap();
        let client = connect(place.addr(0)).await.unwrap();
        let server = listener.accept().await.unwrap();
        for _ in 0..300 {
            let _ = timeout(Duration::from_micros(50), listener.accept()).await;
            let _ = timeout(Duration::from_micros(50), server.recv(Buf::with_capacity(100))).await;
            let _ = timeout(Duration::from_micros(50), client.recv(Buf::with_capacity(100))).await;
        }
        settle(0).await;
        let slots = Shard::with(|shard| shard.slots_allocated());
        assert!(slots < 64, "{slots} slots");
    });
}

pub fn buffers_come_back<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = File::open(&place.path("a"), OpenFlags { read: true, ..CREATE }).await.unwrap();
        let mut buf = Buf::with_capacity(10_000);
        buf.extend_from_slice(b"bytes");
        let at = buf.as_ptr();
        let (result, buf) = file.write_all_at(0, buf).await;
        result.unwrap();
        assert_eq!((buf.as_ptr(), &*buf, buf.capacity()), (at, &b"bytes"[..], 10_000));
        let (result, buf) = file.read_at(0, 5, buf).await;
        result.unwrap();
        assert_eq!((buf.as_ptr(), &*buf), (at, &b"bytesbytes"[..]));
    });
}

pub fn what_is_in_flight_ends_with_the_host<W: World>() {
    for _ in 0..5 {
        run::<W, _>(2, |place| async move {
            for shard in 0..2u16 {
                let place = place.clone();
                reactor::submit_to(shard as usize, "leave much", move || async move {
                    let listener = listen(place.addr(shard)).await.unwrap();
                    let flags = OpenFlags { read: true, direct: true, ..CREATE };
                    let file = File::open(&place.path(&format!("{shard}")), flags).await.unwrap();
                    for i in 0..50u64 {
                        let file = file.clone();
                        drop(reactor::spawn(Group::Flush, "write", async move {
                            file.write_all_at(i << 16, direct(&[1; 1 << 16])).await.0.unwrap();
                            file.datasync().await.unwrap();
                            std::future::pending::<()>().await;
                        }));
                    }
                    for _ in 0..5 {
                        let client = connect(place.addr(shard)).await.unwrap();
                        let server = listener.accept().await.unwrap();
                        for connection in [client, server] {
                            drop(reactor::spawn(Group::Statement, "receive", async move {
                                let _ = connection.recv(Buf::with_capacity(1 << 16)).await;
                            }));
                        }
                    }
                    drop(reactor::spawn(Group::Statement, "accept", async move {
                        let _ = listener.accept().await;
                    }));
                    yield_now().await;
                })
                .await;
            }
        });
    }
}

/// More than the usual limit of 1024 open files.
pub fn a_dropped_open_leaks_nothing<W: World>() {
    run::<W, _>(1, |place| async move {
        file_with(&place.path("a"), b"x").await;
        for _ in 0..1500 {
            let _ = timeout(Duration::ZERO, File::open(&place.path("a"), READ)).await;
            yield_now().await;
        }
        settle(0).await;
        File::open(&place.path("a"), READ).await.unwrap();
    });
}
