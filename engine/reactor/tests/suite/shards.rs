//! Calls between shards.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use reactor::net::{connect, listen};
use reactor::time::{sleep, timeout};
use reactor::{Buf, Group, shard_index, submit_to, submit_to_with};

use super::*;

pub fn a_call_runs_on_its_shard_in_its_group<W: World>() {
    run::<W, _>(3, |_| async {
        assert_eq!(shard_index(), (0, 3));
        for shard in 0..3 {
            let seen = submit_to_with(shard, Group::Streaming, "where", || async {
                (shard_index(), reactor::current_group())
            })
            .await;
            assert_eq!(seen, ((shard, 3), Group::Streaming));
        }
        let group = reactor::spawn(Group::Flush, "caller", async {
            submit_to(1, "whose", || async { reactor::current_group() }).await
        });
        assert_eq!(group.await, Group::Flush);
    });
}

pub fn calls_to_one_shard_keep_their_order<W: World>() {
    run::<W, _>(2, |_| async {
        submit_to(1, "prepare", || async { reactor::set_local(Rc::new(RefCell::new(Vec::<u32>::new()))) }).await;
        let calls: Vec<_> = (0..2000)
            .map(|i| {
                submit_to(1, "append", move || async move {
                    reactor::local::<RefCell<Vec<u32>>>().unwrap().borrow_mut().push(i);
                    i * 2
                })
            })
            .collect();
        for (i, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await, i as u32 * 2);
        }
        let seen = submit_to(1, "take", || async { reactor::local::<RefCell<Vec<u32>>>().unwrap().take() }).await;
        assert!(seen.into_iter().eq(0..2000));
    });
}

pub fn a_shard_calls_itself<W: World>() {
    run::<W, _>(1, |_| async {
        assert_eq!(submit_to(0, "self", || async { 3 }).await, 3);
        let slow = submit_to(0, "slow", || async {
            sleep(ms(3)).await;
            4
        });
        assert_eq!(slow.await, 4);
    });
}

pub fn everybody_calls_everybody<W: World>() {
    run::<W, _>(4, |_| async {
        let calls: Vec<_> = (0..4)
            .map(|from| {
                submit_to(from, "caller", || async {
                    let mut sum = 0;
                    for round in 0..100 {
                        for to in 0..4 {
                            sum += submit_to(to, "callee", move || async move { shard_index().0 * round }).await;
                        }
                    }
                    sum
                })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await, (1 + 2 + 3) * (0..100).sum::<usize>());
        }
    });
}

pub fn calls_travel_on<W: World>() {
    run::<W, _>(3, |_| async {
        let path = submit_to(1, "first", || async {
            let (mut path, rest) = (
                vec![shard_index().0],
                submit_to(2, "second", || async {
                    let (mut path, rest) =
                        (vec![shard_index().0], submit_to(0, "third", || async { vec![shard_index().0] }));
                    path.extend(rest.await);
                    path
                }),
            );
            path.extend(rest.await);
            path
        });
        assert_eq!(path.await, [1, 2, 0]);
    });
}

pub fn each_shard_has_its_locals<W: World>() {
    run::<W, _>(3, |_| async {
        for shard in 0..3 {
            submit_to(shard, "set", || async { reactor::set_local(Rc::new(Cell::new(shard_index().0 * 10))) }).await;
        }
        for shard in 0..3 {
            let value = submit_to(shard, "get", || async { reactor::local::<Cell<usize>>().unwrap().get() }).await;
            assert_eq!(value, shard * 10);
        }
    });
}

pub fn a_dropped_call_runs_all_the_same<W: World>() {
    run::<W, _>(2, |_| async {
        submit_to(1, "prepare", || async { reactor::set_local(Rc::new(Cell::new(0u32))) }).await;
        for _ in 0..10 {
            let call = submit_to(1, "count", || async {
                let count = reactor::local::<Cell<u32>>().unwrap();
                count.set(count.get() + 1);
                sleep(ms(1)).await;
            });
            let _ = timeout(std::time::Duration::ZERO, call).await;
        }
        sleep(ms(10)).await;
        assert_eq!(submit_to(1, "ask", || async { reactor::local::<Cell<u32>>().unwrap().get() }).await, 10);
    });
}

/// A listener may move to another shard and serve there.
pub fn descriptors_serve_every_shard<W: World>() {
    run::<W, _>(2, |place| async move {
        let listener = listen(place.addr(0)).await.unwrap();
        let accepted = submit_to(1, "accept", move || async move {
            let connection = listener.accept().await.unwrap();
            connection.send_all(Buf::from(&b"from 1"[..])).await.0.unwrap();
        });
        let client = connect(place.addr(0)).await.unwrap();
        let (n, buf) = client.recv(Buf::with_capacity(10)).await;
        assert_eq!((n.unwrap(), &*buf), (6, &b"from 1"[..]));
        accepted.await;
    });
}
