//! Shards on simulated machines: the conformance suite.

#![allow(clippy::unwrap_used)]

#[macro_use]
mod suite;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use sim::{HostModel, Settings};
use suite::{Place, World};

struct Simulated;

impl World for Simulated {
    fn run<Fut: Future<Output = ()> + 'static>(shards: usize, main: impl FnOnce(Place) -> Fut + Send + 'static) {
        let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        sim::run(1, Settings::default(), move |world| {
            let mut model = HostModel::plain("plain", shards);
            model.disks.push(("/data".into(), sim::disk::model::DiskModel::fast("data")));
            let host = world.add_host(ip, model);
            let (main, ended) = (Rc::new(RefCell::new(Some(main))), Rc::new(Cell::new(false)));
            let is_over = ended.clone();
            world.boot(host, move |boot| {
                let (main, ended) = (main.clone(), ended.clone());
                async move {
                    if boot.shard == 0 {
                        let main = main.borrow_mut().take().unwrap();
                        main(Place { dir: "/data".into(), ip }).await;
                        ended.set(true);
                    }
                }
            });
            assert!(world.run_until_true(u64::MAX, || is_over.get()), "nothing is left to happen, and the test waits");
        });
    }
}

conformance!(Simulated);
