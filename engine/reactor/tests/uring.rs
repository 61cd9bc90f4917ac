//! Shards on real rings.

#![allow(clippy::unwrap_used)]

use reactor::{Buf, Group, OpenFlags, net, uring};
use std::time::Duration;

#[test]
fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a").to_str().unwrap().to_owned();
    let out = uring::block_on(async move {
        let flags = OpenFlags { read: true, write: true, create: true, direct: true, ..Default::default() };
        let file = reactor::fs::File::open(&path, flags).await.unwrap();
        let mut buf = Buf::direct(4096);
        buf.resize(4096, 7);
        file.write_all_at(0, buf).await.0.unwrap();
        file.datasync().await.unwrap();
        let (n, buf) = file.read_at(0, 4096, Buf::direct(4096)).await;
        assert_eq!(n.unwrap(), 4096);
        assert!(buf.iter().all(|&b| b == 7));
        reactor::time::sleep(Duration::from_millis(5)).await;
        let listener = net::listen("127.0.0.1:14999".parse().unwrap()).await.unwrap();
        let server = reactor::spawn(Group::Statement, "server", async move {
            let c = listener.accept().await.unwrap();
            let (n, buf) = c.recv(Buf::with_capacity(64)).await;
            n.unwrap();
            c.send_all(buf).await.0.unwrap();
        });
        let c = net::connect("127.0.0.1:14999".parse().unwrap()).await.unwrap();
        c.send_all(Buf::from(&b"hello"[..])).await.0.unwrap();
        let (n, buf) = c.recv(Buf::with_capacity(64)).await;
        assert_eq!(n.unwrap(), 5);
        server.await;
        buf.to_vec()
    })
    .unwrap();
    assert_eq!(out, b"hello");
}
