//! Connections.

use std::cell::Cell;
use std::io::ErrorKind;
use std::rc::Rc;

use reactor::net::{Connection, Listener, connect, connect_from, listen};
use reactor::time::{sleep, timeout};
use reactor::{Buf, Group};

use super::*;

async fn pair(place: &Place) -> (Connection, Connection) {
    let listener = listen(place.addr(0)).await.unwrap();
    let client = connect(place.addr(0)).await.unwrap();
    (client, listener.accept().await.unwrap())
}

async fn send(connection: &Connection, bytes: &[u8]) {
    connection.send_all(Buf::from(bytes)).await.0.unwrap();
}

/// Receives until `len` bytes are there, or the end.
async fn receive(connection: &Connection, len: usize, at_once: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        let (n, buf) = connection.recv(Buf::with_capacity(at_once.min(len - all.len()))).await;
        if n.unwrap() == 0 {
            break;
        }
        all.extend_from_slice(&buf);
    }
    all
}

pub fn echo<W: World>() {
    run::<W, _>(1, |place| async move {
        let listener = listen(place.addr(0)).await.unwrap();
        let server = reactor::spawn(Group::Statement, "server", async move {
            let connection = listener.accept().await.unwrap();
            let mut buf = Buf::with_capacity(64);
            loop {
                let (n, received) = connection.recv(buf).await;
                if n.unwrap() == 0 {
                    return;
                }
                let (sent, back) = connection.send_all(received).await;
                sent.unwrap();
                buf = back;
                buf.clear();
            }
        });
        let client = connect(place.addr(0)).await.unwrap();
        for i in 0..100 {
            let message = pattern(i * 50, 50);
            send(&client, &message).await;
            assert_eq!(receive(&client, 50, 50).await, message);
        }
        drop(client);
        server.await;
    });
}

pub fn bytes_keep_their_order<W: World>() {
    run::<W, _>(1, |place| async move {
        let (client, server) = pair(&place).await;
        let sender = reactor::spawn(Group::Statement, "sender", async move {
            let (mut at, mut len) = (0, 1);
            while at < 1 << 20 {
                send(&client, &pattern(at, len)).await;
                at += len;
                len = len * 7 % 20_011;
            }
            at
        });
        let mut at = 0;
        loop {
            let (n, buf) = server.recv(Buf::with_capacity(1 + at % 9001)).await;
            let n = n.unwrap();
            assert!(n == buf.len() && *buf == pattern(at, n), "at {at}");
            at += n;
            if n == 0 {
                break;
            }
        }
        assert_eq!(sender.await, at);
    });
}

pub fn a_slow_reader_gets_everything<W: World>() {
    run::<W, _>(1, |place| async move {
        const LEN: usize = 16 << 20; // more than the socket buffers of both sides
        let (client, server) = pair(&place).await;
        let done = Rc::new(Cell::new(false));
        let sent = done.clone();
        let sender = reactor::spawn(Group::Statement, "sender", async move {
            let (result, buf) = client.send_all(Buf::from(pattern(0, LEN))).await;
            result.unwrap();
            assert_eq!(buf.len(), LEN);
            sent.set(true);
        });
        sleep(ms(30)).await;
        assert!(!done.get(), "{LEN} bytes cannot be under way when nobody reads");
        let mut at = 0;
        while at < LEN {
            let (n, buf) = server.recv(Buf::with_capacity(64 << 10)).await;
            let n = n.unwrap();
            assert!(n > 0 && *buf == pattern(at, n), "at {at}");
            at += n;
            if at % 16 == 0 {
                sleep(ms(1)).await;
            }
        }
        sender.await;
    });
}

pub fn the_end_is_zero_bytes<W: World>() {
    run::<W, _>(1, |place| async move {
        let (client, server) = pair(&place).await;
        send(&client, b"last words").await;
        drop(client);
        assert_eq!(receive(&server, 100, 100).await, b"last words");
        assert_eq!(server.recv(Buf::with_capacity(10)).await.0.unwrap(), 0);
    });
}

pub fn shutdown_ends_both_directions<W: World>() {
    run::<W, _>(1, |place| async move {
        let (client, server) = pair(&place).await;
        let pending = client.clone();
        let pending = reactor::spawn(Group::Statement, "pending", async move {
            pending.recv(Buf::with_capacity(10)).await.0.unwrap()
        });
        sleep(ms(5)).await;
        send(&client, b"before").await;
        client.shutdown().await.unwrap();
        assert_eq!(pending.await, 0, "the receive that waited on the same side");
        assert_eq!(receive(&server, 100, 100).await, b"before");
        assert!(client.send_all(Buf::from(&b"after"[..])).await.0.is_err());
    });
}

pub fn refused_where_nobody_listens<W: World>() {
    run::<W, _>(1, |place| async move {
        let error = connect(place.addr(9)).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        // A listener that went away no longer accepts.
        drop(listen(place.addr(0)).await.unwrap());
        settle(0).await;
        assert_eq!(connect(place.addr(0)).await.err().unwrap().kind(), ErrorKind::ConnectionRefused);
    });
}

pub fn connect_from_a_given_address<W: World>() {
    run::<W, _>(1, |place| async move {
        let listener = listen(place.addr(0)).await.unwrap();
        let from = std::net::SocketAddr::new(place.ip, 0);
        let client = connect_from(place.addr(0), Some(from)).await.unwrap();
        let server = listener.accept().await.unwrap();
        assert_eq!(server.peer_addr().unwrap().ip(), place.ip);
        assert_eq!(client.peer_addr().unwrap(), place.addr(0));
    });
}

pub fn a_dropped_accept_takes_no_connection<W: World>() {
    run::<W, _>(1, |place| async move {
        let listener = listen(place.addr(0)).await.unwrap();
        assert!(timeout(ms(2), listener.accept()).await.is_err());
        settle(0).await;
        let client = connect(place.addr(0)).await.unwrap();
        let server = listener.accept().await.unwrap();
        send(&client, b"to you").await;
        assert_eq!(receive(&server, 6, 6).await, b"to you");
    });
}

pub fn a_dropped_receive_loses_nothing_sent_later<W: World>() {
    run::<W, _>(1, |place| async move {
        let (client, server) = pair(&place).await;
        for round in 0..50 {
            assert!(timeout(ms(1), server.recv(Buf::with_capacity(100))).await.is_err());
            settle(0).await;
            let message = pattern(round * 60, 60);
            send(&client, &message).await;
            assert_eq!(receive(&server, 60, 60).await, message);
        }
    });
}

async fn accept_all(listener: Rc<Listener>, count: Rc<Cell<usize>>) {
    loop {
        let connection = listener.accept().await.unwrap();
        count.set(count.get() + 1);
        send(&connection, &[reactor::shard_index().0 as u8]).await;
    }
}

pub fn two_shards_share_a_port<W: World>() {
    run::<W, _>(2, |place| async move {
        for shard in 0..2 {
            let place = place.clone();
            reactor::submit_to(shard, "listen", move || async move {
                let listener = Rc::new(listen(place.addr(0)).await.unwrap());
                drop(reactor::spawn(Group::Statement, "accept", accept_all(listener, Rc::default())));
            })
            .await;
        }
        let mut by_shard = [0; 2];
        for _ in 0..64 {
            let client = connect(place.addr(0)).await.unwrap();
            by_shard[receive(&client, 1, 1).await[0] as usize] += 1;
        }
        assert!(by_shard[0] > 0 && by_shard[1] > 0, "{by_shard:?}");
    });
}

pub fn a_full_buffer_is_no_place_to_receive<W: World>() {
    run::<W, _>(1, |place| async move {
        let (client, server) = pair(&place).await;
        send(&client, b"x").await;
        let mut full = Buf::with_capacity(4);
        full.extend_from_slice(b"full");
        let (result, buf) = server.recv(full).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(&*buf, b"full");
        assert_eq!(receive(&server, 1, 1).await, b"x");
    });
}

pub fn a_vanished_peer_fails_the_sender<W: World>() {
    run::<W, _>(1, |place| async move {
        let (client, server) = pair(&place).await;
        drop(server);
        settle(0).await;
        for _ in 0..1000 {
            let (result, buf) = client.send_all(Buf::from(pattern(0, 1000))).await;
            assert_eq!(buf.len(), 1000);
            if result.is_err() {
                return;
            }
            sleep(ms(1)).await;
        }
        panic!("bytes are still taken for a peer that is gone");
    });
}

pub fn many_connections_at_once<W: World>() {
    run::<W, _>(1, |place| async move {
        let listener = Rc::new(listen(place.addr(0)).await.unwrap());
        drop(reactor::spawn(Group::Statement, "accept", async move {
            loop {
                let connection = listener.accept().await.unwrap();
                drop(reactor::spawn(Group::Statement, "serve", async move {
                    let bytes = receive(&connection, 8, 8).await;
                    send(&connection, &bytes).await;
                }));
            }
        }));
        let clients: Vec<_> = (0..200u64)
            .map(|i| {
                let addr = place.addr(0);
                reactor::spawn(Group::Statement, "client", async move {
                    let connection = connect(addr).await.unwrap();
                    send(&connection, &i.to_le_bytes()).await;
                    assert_eq!(receive(&connection, 8, 8).await, i.to_le_bytes());
                })
            })
            .collect();
        for client in clients {
            client.await;
        }
        settle(1).await; // the accept
    });
}

pub fn closing_under_load_ends_everything<W: World>() {
    run::<W, _>(1, |place| async move {
        let listener = listen(place.addr(0)).await.unwrap();
        let mut servers = Vec::new();
        let stop = Rc::new(Cell::new(false));
        for _ in 0..20 {
            let client = connect(place.addr(0)).await.unwrap();
            let server = listener.accept().await.unwrap();
            servers.push(reactor::spawn(Group::Statement, "flood", async move {
                while server.send_all(Buf::from(pattern(0, 10_000))).await.0.is_ok() {}
            }));
            let stop = stop.clone();
            drop(reactor::spawn(Group::Statement, "drain", async move {
                while !stop.get() {
                    let _ = timeout(ms(1), client.recv(Buf::with_capacity(5000))).await;
                }
            }));
        }
        sleep(ms(20)).await;
        stop.set(true);
        for server in servers {
            server.await;
        }
        drop(listener);
        settle(0).await;
    });
}

pub fn a_message_of_one_byte_and_an_empty_one<W: World>() {
    run::<W, _>(1, |place| async move {
        let (client, server) = pair(&place).await;
        send(&client, b"").await;
        send(&client, b"1").await;
        assert_eq!(receive(&server, 1, 100).await, b"1");
        assert!(timeout(ms(2), server.recv(Buf::with_capacity(10))).await.is_err());
    });
}
