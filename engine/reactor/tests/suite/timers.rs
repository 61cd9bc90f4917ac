//! Sleeping, deadlines, the clock.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use reactor::Group;
use reactor::time::{Elapsed, sleep, sleep_until, timeout, yield_now};

use super::*;

pub fn sleeps_end_in_order_and_not_early<W: World>() {
    run::<W, _>(1, |_| async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let tasks: Vec<_> = [30, 10, 20, 0, 40]
            .map(|delay| {
                let order = order.clone();
                reactor::spawn(Group::Statement, "sleeper", async move {
                    let began = reactor::now();
                    sleep(ms(delay)).await;
                    assert!(reactor::now() - began >= delay * 1_000_000);
                    order.borrow_mut().push(delay);
                })
            })
            .into();
        for task in tasks {
            task.await;
        }
        assert_eq!(*order.borrow(), [0, 10, 20, 30, 40]);
    });
}

pub fn a_past_deadline_is_ready<W: World>() {
    run::<W, _>(1, |_| async {
        sleep_until(0).await;
        sleep_until(reactor::now()).await;
        sleep(Duration::ZERO).await;
    });
}

pub fn timeouts_give_up_or_give<W: World>() {
    run::<W, _>(1, |_| async {
        assert_eq!(timeout(ms(5), std::future::pending::<()>()).await, Err(Elapsed));
        assert_eq!(timeout(ms(1000), async { 7 }).await, Ok(7));
        let began = reactor::now();
        let slept = timeout(ms(60_000), sleep(ms(5))).await;
        assert!(slept.is_ok() && reactor::now() - began < 60_000_000_000);
        assert!(timeout(ms(3), sleep(ms(60_000))).await.is_err());
    });
}

pub fn a_ready_future_beats_its_deadline<W: World>() {
    run::<W, _>(1, |_| async {
        assert_eq!(timeout(Duration::ZERO, async { 1 }).await, Ok(1));
    });
}

pub fn a_dropped_sleep_wakes_nobody<W: World>() {
    run::<W, _>(1, |_| async {
        let polls = Rc::new(Cell::new(0));
        let counted = polls.clone();
        let task = reactor::spawn(Group::Statement, "counted", async move {
            let mut short = Some(Box::pin(sleep(ms(5))));
            let mut long = Box::pin(sleep(ms(20)));
            std::future::poll_fn(move |cx| {
                counted.set(counted.get() + 1);
                if let Some(mut sleep) = short.take() {
                    assert!(sleep.as_mut().poll(cx).is_pending());
                }
                long.as_mut().poll(cx)
            })
            .await;
        });
        task.await;
        assert_eq!(polls.get(), 2);
    });
}

pub fn dropped_timers_leave_no_heap<W: World>() {
    run::<W, _>(1, |_| async {
        for _ in 0..50_000 {
            timeout(Duration::from_secs(3600), yield_now()).await.unwrap();
        }
        let timers = reactor::Shard::with(|shard| shard.timers_allocated());
        assert!(timers < 5000, "{timers} timers for one sleep at a time");
    });
}

pub fn the_clock_never_goes_back<W: World>() {
    run::<W, _>(1, |_| async {
        let mut last = reactor::now();
        for i in 0..1000 {
            let now = reactor::now();
            assert!(now >= last);
            last = now;
            if i % 100 == 0 {
                sleep(Duration::from_micros(300)).await;
            } else {
                yield_now().await;
            }
        }
        assert!(reactor::wall_us() > 0);
    });
}

pub fn sleeps_of_one_deadline_end_in_order_of_setting<W: World>() {
    run::<W, _>(1, |_| async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let at = reactor::now() + 10_000_000;
        let tasks: Vec<_> = (0..50)
            .map(|i| {
                let order = order.clone();
                reactor::spawn(Group::Statement, "sleeper", async move {
                    sleep_until(at).await;
                    order.borrow_mut().push(i);
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert!(order.borrow().iter().copied().eq(0..50));
    });
}
