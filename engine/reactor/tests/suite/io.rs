//! The I/O queue between tasks and their world.

use std::rc::Rc;

use reactor::{Buf, Group, Shard, fs::File, spawn};

use super::*;

/// More than are let in flight at once.
const MANY: usize = 700;

fn total(stats: &[reactor::IoStats], class: Group) -> reactor::IoClassStats {
    let mut sum = reactor::IoClassStats::default();
    for disk in stats {
        let class = disk.class(class);
        sum.operations += class.operations;
        sum.bytes += class.bytes;
        sum.queue_delay_ns += class.queue_delay_ns;
        sum.execution_delay_ns += class.execution_delay_ns;
    }
    sum
}

pub fn more_than_the_depth_at_once_are_all_done<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = file_with(&place.path("many"), &pattern(0, MANY * 16)).await;
        let before = Shard::with(|shard| total(&shard.io_stats(), Group::Statement));
        let tasks: Vec<_> = (0..MANY)
            .map(|n| {
                let file = file.clone();
                spawn(Group::Statement, "read", async move {
                    let (result, buf) = file.read_at(n as u64 * 16, 16, Buf::with_capacity(16)).await;
                    result.unwrap();
                    assert_eq!(*buf, pattern(n * 16, 16));
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        let after = Shard::with(|shard| total(&shard.io_stats(), Group::Statement));
        assert_eq!(after.operations - before.operations, MANY as u64);
        assert_eq!(after.bytes - before.bytes, MANY as u64 * 16);
        assert!(after.queue_delay_ns > before.queue_delay_ns, "some had to wait");
        assert!(Shard::with(|shard| shard.io_stats().iter().all(|disk| disk.waiting == 0)));
    });
}

pub fn operations_dropped_in_the_queue_leave_nothing<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = file_with(&place.path("dropped"), &pattern(0, 4096)).await;
        for _ in 0..3 {
            let tasks: Vec<_> = (0..MANY)
                .map(|_| {
                    let file = file.clone();
                    spawn(Group::Compaction, "dropped", async move {
                        // Polled once, then dropped: some in flight, the rest in the queue.
                        let read = Box::pin(file.read_at(0, 4096, Buf::with_capacity(4096)));
                        let _ = reactor::time::timeout(std::time::Duration::ZERO, read).await;
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            settle(0).await;
        }
        assert!(Shard::with(|shard| shard.io_stats().iter().all(|disk| disk.waiting == 0)));
        let (result, buf) = file.read_at(0, 4096, Buf::with_capacity(4096)).await;
        assert_eq!((result.unwrap(), &*buf), (4096, &*pattern(0, 4096)));
    });
}

pub fn each_group_is_a_class_of_its_own<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = Rc::new(File::open(&place.path("classes"), CREATE).await.unwrap());
        for (n, group) in Group::ALL.into_iter().enumerate() {
            let file = file.clone();
            let task = spawn(group, "write", async move {
                file.write_all_at(0, Buf::from(vec![1; 100 * (n + 1)])).await.0.unwrap();
            });
            task.await;
        }
        let stats = Shard::with(|shard| shard.io_stats());
        for (n, group) in Group::ALL.into_iter().enumerate() {
            let class = total(&stats, group);
            assert_eq!((class.operations, class.bytes), (1, 100 * (n as u64 + 1)), "{}", group.name());
            assert!(class.execution_delay_ns > 0);
        }
    });
}

pub fn shares_change_while_it_runs<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = file_with(&place.path("shares"), &pattern(0, 4096)).await;
        let tasks: Vec<_> = (0..MANY)
            .map(|n| {
                let file = file.clone();
                let group = if n % 2 == 0 { Group::Compaction } else { Group::Statement };
                spawn(group, "read", async move {
                    if n % 50 == 0 {
                        reactor::set_shares(Group::Compaction, 1 + n as u32);
                    }
                    file.read_at(0, 4096, Buf::with_capacity(4096)).await.0.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
    });
}
