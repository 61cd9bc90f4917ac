//! Processors that do not halt while something is measured on them.
//!
//! The host of a virtual machine takes a halted processor away, and gives it back late: a wake-up then costs hundreds of
//! microseconds to milliseconds on a busy host, at whoever's expense is measured. A thread of the idle class has a
//! processor only while nobody else wants it, and gives way within a microsecond.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::host::bind;

/// Looks at the time to end, and for others who want the processor, are this many spins apart: well below 1 us.
const SPINS: u32 = 64;

/// Keeps processors from halting for as long as it lives.
pub struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Errors: a thread could not be made. Processors on which this is not permitted may halt as ever.
    pub fn keep(cpus: &[usize]) -> io::Result<Self> {
        let mut awake = Self { over: Arc::default(), threads: Vec::new() };
        for &cpu in cpus {
            let over = awake.over.clone();
            let spin = move || {
                if bind(cpu).is_ok() && be_idle() {
                    while !over.load(Ordering::Relaxed) {
                        (0..SPINS).for_each(|_| std::hint::spin_loop());
                        thread::yield_now();
                    }
                }
            };
            #[allow(clippy::disallowed_methods)] // no shard's, and nothing that one waits for
            awake.threads.push(thread::Builder::new().name(format!("awake-{cpu}")).spawn(spin)?);
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A spinning thread does not panic.
            let _ = thread.join();
        }
    }
}

/// Whether this thread is in the scheduler's idle class now.
fn be_idle() -> bool {
    let own_priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the parameter, which lives through the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &own_priority) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_end_with_it_also_where_there_is_no_such_processor() {
        let awake = Awake::keep(&[0, usize::MAX]).unwrap();
        assert_eq!(awake.threads.len(), 2);
        let over = awake.over.clone();
        drop(awake);
        assert!(over.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&over), 1, "no thread has it any more");
    }
}
