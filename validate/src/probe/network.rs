//! The loopback: round trips, messages and bytes a second over the reactor's own connections, and what it takes to
//! wake a thread that sleeps.
//!
//! Three round trips tell the parts apart. Both ends on one thread: what sending and receiving cost, and nothing else.
//! Two threads that never sleep: the way between processors beside that. One that sleeps: its wake-up beside both.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use reactor::net::{self, Connection};
use reactor::uring::{Config, Host, OnPanic};
use reactor::{Buf, Group};
use serde::{Deserialize, Serialize};

use super::ProbeError;
use super::load::histogram;
use super::spread::Spread;

const MESSAGE: usize = 128;
const STREAM_BYTES: usize = 64 << 10;
/// Long enough that a thread on the other side has gone to sleep, as between requests of a light load.
const GAP: Duration = Duration::from_micros(300);
const AWAKE: Duration = Duration::from_millis(10);
const CONNECTIONS: usize = 16;
/// For a listener to be there: a thread's start.
const START_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Both ends on one thread.
    pub own: Spread,
    /// Two threads, both awake.
    pub awake: Spread,
    /// Two threads, of which the answering one sleeps in between.
    pub asleep: Spread,
    /// Round trips a second of [`CONNECTIONS`] at once, and bytes a second of one stream.
    pub messages: f64,
    pub bandwidth: f64,
}

impl Network {
    /// There and back, without what the hosts spend on it.
    pub fn wire(&self) -> Spread {
        self.awake.less(self.own.p50, 500)
    }

    /// From an event to the first instruction of a thread that slept.
    pub fn wake(&self) -> Spread {
        self.asleep.less(self.awake.p50, 1_000)
    }
}

/// Where the two ends run.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub server: Option<usize>,
    pub client: Option<usize>,
}

fn config(cpu: Option<usize>, busy_poll: Duration) -> Config {
    Config { cpus: cpu.map(|cpu| vec![cpu]), busy_poll, on_panic: OnPanic::Stop, ..Config::default() }
}

pub fn measure(places: Places, slice: Duration) -> Result<Network, ProbeError> {
    let for_ns = slice.as_nanos() as u64 / 5;
    let apart = |busy_poll, work: Work| between(places, busy_poll, work);
    let pings = |gap| Work::Pings { gap, for_ns };
    Ok(Network {
        own: alone(places.client, for_ns)?.0,
        awake: apart(AWAKE, pings(Duration::ZERO))?.0,
        asleep: apart(Duration::ZERO, pings(GAP))?.0,
        messages: apart(Duration::ZERO, Work::Messages { for_ns })?.1,
        bandwidth: apart(Duration::ZERO, Work::Stream { for_ns })?.1,
    })
}

#[derive(Clone, Copy)]
enum Work {
    Pings { gap: Duration, for_ns: u64 },
    Messages { for_ns: u64 },
    Stream { for_ns: u64 },
}

type Outcome = io::Result<(Spread, f64)>;

/// A server on a thread that sleeps after `busy_poll`, a client on another that does not.
fn between(places: Places, busy_poll: Duration, work: Work) -> Result<(Spread, f64), ProbeError> {
    let (tell, told) = mpsc::channel();
    let address = free_address()?;
    let server = Host::start(config(places.server, busy_poll), move |_| {
        let tell = tell.clone();
        async move {
            let ready = || {
                // The main thread waits for this.
                let _ = tell.send(());
            };
            let served = serve(address, ready).await;
            if let Err(error) = served {
                tracing::debug!(%error, "the probe's server ended");
            }
        }
    })?;
    told.recv_timeout(START_MAX).map_err(|_| ProbeError::Silent)?;
    let (tell, told) = mpsc::channel();
    let client = Host::start(config(places.client, AWAKE), move |_| {
        let tell = tell.clone();
        async move {
            // The main thread waits for this.
            let _ = tell.send(drive(address, work).await);
        }
    })?;
    let outcome = told.recv().map_err(|_| ProbeError::Silent)?;
    for host in [client, server] {
        host.stop();
        host.join()?;
    }
    outcome.map_err(ProbeError::Loopback)
}

/// Both ends on one thread.
fn alone(cpu: Option<usize>, for_ns: u64) -> Result<(Spread, f64), ProbeError> {
    let (tell, told) = mpsc::channel();
    let address = free_address()?;
    let host = Host::start(config(cpu, AWAKE), move |_| {
        let tell = tell.clone();
        async move {
            let (listening, ready) = (Rc::new(Cell::new(false)), Rc::new(reactor::sync::Notify::new()));
            let (set, noted) = (listening.clone(), ready.clone());
            drop(reactor::spawn(Group::Statement, "server", async move {
                let told = || {
                    set.set(true);
                    noted.notify_all();
                };
                drop(serve(address, told).await);
            }));
            ready.wait_until(|| listening.get()).await;
            let _ = tell.send(drive(address, Work::Pings { gap: Duration::ZERO, for_ns }).await);
        }
    })?;
    let outcome = told.recv().map_err(|_| ProbeError::Silent)?;
    host.stop();
    host.join()?;
    outcome.map_err(ProbeError::Loopback)
}

/// The kernel chooses a port; it is free again when this returns.
fn free_address() -> Result<SocketAddr, ProbeError> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(ProbeError::Loopback)?;
    listener.local_addr().map_err(ProbeError::Loopback)
}

/// Echoes messages of whole `MESSAGE`s; of a stream, which begins with a message of ones, it only takes the bytes.
async fn serve(address: SocketAddr, ready: impl FnOnce()) -> io::Result<()> {
    let listener = net::listen(address).await?;
    ready();
    loop {
        let connection = listener.accept().await?;
        drop(reactor::spawn(Group::Statement, "echo", async move {
            let mut buf = Buf::with_capacity(STREAM_BYTES);
            let mut is_stream = false;
            loop {
                buf.clear();
                let (result, back) = connection.recv(buf).await;
                buf = back;
                match result {
                    Ok(0) | Err(_) => return,
                    Ok(_) => is_stream |= buf.first() == Some(&1),
                }
                if !is_stream {
                    let (result, back) = connection.send_all(buf).await;
                    buf = back;
                    if result.is_err() {
                        return;
                    }
                }
            }
        }));
    }
}

async fn drive(address: SocketAddr, work: Work) -> Outcome {
    match work {
        Work::Pings { gap, for_ns } => {
            let connection = net::connect(address).await?;
            let mut latency = histogram();
            let (began, mut done) = (reactor::now(), 0u64);
            while reactor::now() < began + for_ns || done < 50 {
                let at = reactor::now();
                ping(&connection).await?;
                // The first ones warm up.
                if done >= 20 {
                    latency.saturating_record((reactor::now() - at).max(1));
                }
                done += 1;
                if !gap.is_zero() {
                    // At uneven distances, so that nothing periodic is always met or always missed.
                    let uneven = reactor::random() % gap.as_nanos() as u64;
                    reactor::time::sleep(gap / 2 + Duration::from_nanos(uneven)).await;
                }
            }
            Ok((Spread::of(&latency), 0.0))
        }
        Work::Messages { for_ns } => {
            let until = reactor::now() + for_ns;
            let mut tasks = Vec::new();
            for _ in 0..CONNECTIONS {
                let connection = net::connect(address).await?;
                tasks.push(reactor::spawn(Group::Statement, "pings", async move {
                    let mut done = 0u64;
                    while reactor::now() < until {
                        ping(&connection).await?;
                        done += 1;
                    }
                    io::Result::Ok(done)
                }));
            }
            let mut all = 0;
            for task in tasks {
                all += task.await?;
            }
            Ok((Spread::default(), all as f64 / (for_ns as f64 / 1e9)))
        }
        Work::Stream { for_ns } => {
            let connection = net::connect(address).await?;
            let mut buf = Buf::from(vec![1u8; STREAM_BYTES]);
            let (began, mut bytes) = (reactor::now(), 0);
            while reactor::now() < began + for_ns {
                let (result, back) = connection.send_all(buf).await;
                result?;
                buf = back;
                bytes += STREAM_BYTES;
            }
            Ok((Spread::default(), bytes as f64 / ((reactor::now() - began) as f64 / 1e9)))
        }
    }
}

async fn ping(connection: &Connection) -> io::Result<()> {
    let (result, mut buf) = connection.send_all(Buf::from(&[0u8; MESSAGE][..])).await;
    result?;
    buf.clear();
    buf.reserve(MESSAGE);
    let mut taken = 0;
    while taken < MESSAGE {
        let (result, back) = connection.recv(buf).await;
        buf = back;
        match result? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => taken += read,
        }
    }
    Ok(())
}
