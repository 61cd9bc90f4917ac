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

use hdrhistogram::Histogram;
use reactor::net::{self, Connection};
use reactor::uring::{Config, Host, OnPanic};
use reactor::{Buf, Group};
use serde::{Deserialize, Serialize};

use super::load::histogram;
use super::spread::Spread;
use super::{ProbeError, interruptions};
use crate::median;

const MESSAGE: usize = 128;
const STREAM_BYTES: usize = 64 << 10;
/// Between round trips to a thread that is to sleep deeply, as between requests of a light load.
const SLEEP: [Duration; 2] = [Duration::from_micros(800), Duration::from_millis(5)];
/// And to one that has just fallen asleep.
const NAPS_US: [u64; 6] = [10, 20, 50, 100, 200, 400];
const AWAKE: Duration = Duration::from_millis(10);
/// Of timers: from as much as the busiest sleeper waits.
const TIMERS: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(500)];
const CONNECTIONS: usize = 16;
/// For a listener to be there: a thread's start.
const START_MAX: Duration = Duration::from_secs(10);

/// Round trips to a thread that has had nothing to do for about so long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nap {
    pub idle_ns: u64,
    pub round_trip: Spread,
}

/// The kernel of a virtual machine looks for work itself before it gives an idle processor back to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doze {
    pub lasts_ns: u64,
    pub wake: Spread,
}

/// Round trips between two threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wakes {
    /// Both awake.
    pub awake: Spread,
    /// The answering one sleeps in between, for a millisecond or more.
    pub asleep: Spread,
    /// The same for short times, rising.
    pub naps: Vec<Nap>,
    /// How much later than it was due a timer is noticed by a thread that sleeps until then.
    pub timer: Spread,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Both ends on one thread.
    pub own: Spread,
    pub wakes: Wakes,
    /// Round trips a second of [`CONNECTIONS`] at once, and bytes a second of one stream.
    pub messages: f64,
    pub bandwidth: f64,
}

impl Network {
    /// There and back, without what the hosts spend on it.
    pub fn wire(&self) -> Spread {
        self.wakes.awake.less(self.own.p50, 500)
    }
}

impl Wakes {
    /// From an event to the first instruction of a thread that slept.
    pub fn wake(&self) -> Spread {
        self.asleep.less(self.awake.p50, 1_000)
    }

    /// What precedes sleep, where those who have just fallen asleep wake in less than half the time.
    pub fn doze(&self) -> Option<Doze> {
        let wake = |nap: &Nap| nap.round_trip.less(self.awake.p50, 1_000);
        let (short, long) = (wake(self.naps.first()?).p50, self.wake().p50);
        if short * 2 > long {
            return None;
        }
        let dozing = self.naps.iter().take_while(|nap| wake(nap).p50 < (short + long) / 2).count();
        let last = self.naps[..dozing].last()?.idle_ns;
        // It ends somewhere before the next.
        let next = self.naps.get(dozing).map_or(SLEEP[0].as_nanos() as u64, |nap| nap.idle_ns);
        let wakes = self.naps[..dozing].iter().map(wake).collect();
        Some(Doze { lasts_ns: (last + next) / 2, wake: median(wakes, |a, b| a.p50.cmp(&b.p50))? })
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
    let for_ns = slice.as_nanos() as u64 / 7;
    let apart = |work: Work| Ok::<_, ProbeError>(between(places, Duration::ZERO, work)?.1);
    Ok(Network {
        own: alone(places.client, for_ns)?.0,
        wakes: measure_wakes(places, slice * 4 / 7)?,
        messages: apart(Work::Messages { for_ns })?,
        bandwidth: apart(Work::Stream { for_ns })?,
    })
}

pub fn measure_wakes(places: Places, slice: Duration) -> Result<Wakes, ProbeError> {
    let for_ns = slice.as_nanos() as u64 / 4;
    let apart = |busy_poll, work: Work| between(places, busy_poll, work);
    let nap = |us: u64| -> Result<Nap, ProbeError> {
        let idle = Duration::from_micros(us);
        let pings = Work::Pings { gap: [idle, idle + idle / 10], for_ns: for_ns / 3 };
        Ok(Nap { idle_ns: us * 1_000, round_trip: apart(Duration::ZERO, pings)?.0 })
    };
    Ok(Wakes {
        awake: apart(AWAKE, Work::Pings { gap: [Duration::ZERO; 2], for_ns })?.0,
        asleep: apart(Duration::ZERO, Work::Pings { gap: SLEEP, for_ns })?.0,
        naps: NAPS_US.into_iter().map(nap).collect::<Result<_, _>>()?,
        timer: measure_timer(places.client, for_ns / 3)?,
    })
}

#[derive(Clone, Copy)]
enum Work {
    /// One after the other, with gaps between the least and the most.
    Pings {
        gap: [Duration; 2],
        for_ns: u64,
    },
    Messages {
        for_ns: u64,
    },
    Stream {
        for_ns: u64,
    },
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
    let outcome = on_thread(config(places.client, AWAKE), move || drive(address, work))?;
    server.stop();
    server.join()?;
    outcome.map_err(ProbeError::Loopback)
}

/// What comes of `make`'s future on a shard with a thread of its own: this one is not to be bound to a processor.
fn on_thread<T, F>(config: Config, make: impl Fn() -> F + Clone + Send + 'static) -> Result<T, ProbeError>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let (tell, told) = mpsc::channel();
    let host = Host::start(config, move |_| {
        let (tell, outcome) = (tell.clone(), make());
        async move {
            // The main thread waits for this.
            let _ = tell.send(outcome.await);
        }
    })?;
    let outcome = told.recv().map_err(|_| ProbeError::Silent)?;
    host.stop();
    host.join()?;
    Ok(outcome)
}

/// Both ends on one thread.
fn alone(cpu: Option<usize>, for_ns: u64) -> Result<(Spread, f64), ProbeError> {
    let address = free_address()?;
    let outcome = on_thread(config(cpu, AWAKE), move || async move {
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
        drive(address, Work::Pings { gap: [Duration::ZERO; 2], for_ns }).await
    })?;
    outcome.map_err(ProbeError::Loopback)
}

/// A thread that does nothing but sleep until a time.
fn measure_timer(cpu: Option<usize>, for_ns: u64) -> Result<Spread, ProbeError> {
    on_thread(config(cpu, Duration::ZERO), move || async move {
        let mut late = histogram();
        let until = reactor::now() + for_ns;
        while reactor::now() < until || late.len() < 30 {
            let due = reactor::now() + uneven(TIMERS);
            reactor::time::sleep_until(due).await;
            late.saturating_record((reactor::now() - due).max(1));
        }
        Spread::of(&undisturbed(&late))
    })
}

/// ns: so that nothing periodic is always met or always missed.
fn uneven([least, most]: [Duration; 2]) -> u64 {
    least.as_nanos() as u64 + reactor::random() % ((most - least).as_nanos() as u64).max(1)
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
                if !gap[1].is_zero() {
                    reactor::time::sleep(Duration::from_nanos(uneven(gap))).await;
                }
            }
            Ok((Spread::of(&undisturbed(&latency)), 0.0))
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

/// Without those that a turn of others' fell into: turns are watched for themselves, and of thirty samples one would be
/// taken for a thirtieth of all.
fn undisturbed(latency: &Histogram<u64>) -> Histogram<u64> {
    let longest = latency.value_at_quantile(0.5).saturating_add(interruptions::SHORT_NS);
    let mut left = histogram();
    for step in latency.iter_recorded().filter(|step| step.value_iterated_to() <= longest) {
        left.saturating_record_n(step.value_iterated_to(), step.count_at_value());
    }
    left
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_of_others_is_no_wake() {
        let mut seen = histogram();
        seen.saturating_record_n(40_000, 27);
        seen.saturating_record_n(120_000, 2);
        seen.saturating_record(4_000_000);
        let left = Spread::of(&undisturbed(&seen));
        assert_eq!(left.samples, 29);
        assert!((119_000..122_000).contains(&left.max) && (39_000..41_000).contains(&left.p50), "{left:?}");
    }
}
