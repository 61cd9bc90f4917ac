//! Processors that do not halt while something is measured on them.
//!
//! The host of a virtual machine takes a halted processor away, and gives it back late: a wake-up then costs hundreds of
//! microseconds to milliseconds on a busy host, at whoever's expense is measured. The kernel can be asked not to let
//! any halt: its idle loop then polls (`Documentation/power/pm_qos_interface.rst`), which competes with nobody.
//!
//! Where that cannot be asked, a thread of the idle class spins on each processor. It has it only while nobody else
//! wants it and gives way within a microsecond; but Linux 6.18 has been seen to let the kernel's own threads wait behind
//! one for seconds, and with them each completion of a direct write that they owe.

use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::host::bind;

/// Looks at the time to end, and for others who want the processor, are this many spins apart: well below 1 us.
const SPINS: u32 = 64;

/// Keeps processors from halting for as long as it lives.
pub struct Awake {
    _way: Way,
}

enum Way {
    /// The request to the kernel, for all of the machine's processors. It ends when the file is closed.
    Asked {
        _request: File,
    },
    Spinning {
        _threads: Spinning,
    },
}

/// Threads that spin until this is dropped.
struct Spinning {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Errors: a thread could not be made. Processors on which neither way is permitted may halt as ever.
    pub fn keep(cpus: &[usize]) -> io::Result<Self> {
        let way = match ask_kernel() {
            Some(request) => Way::Asked { _request: request },
            None => Way::Spinning { _threads: Spinning::on(cpus)? },
        };
        Ok(Self { _way: way })
    }
}

/// That no processor takes longer than 0 us to wake up. `None` where there is no right to ask, or no driver to obey.
fn ask_kernel() -> Option<File> {
    let driver = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver").ok()?;
    if driver.trim() == "none" {
        return None;
    }
    let mut request = File::options().write(true).open("/dev/cpu_dma_latency").ok()?;
    request.write_all(&0_i32.to_ne_bytes()).ok()?;
    Some(request)
}

impl Spinning {
    fn on(cpus: &[usize]) -> io::Result<Self> {
        let mut spinning = Self { over: Arc::default(), threads: Vec::new() };
        for &cpu in cpus {
            let over = spinning.over.clone();
            let spin = move || {
                if bind(cpu).is_ok() && be_idle() {
                    while !over.load(Ordering::Relaxed) {
                        (0..SPINS).for_each(|_| std::hint::spin_loop());
                        thread::yield_now();
                    }
                }
            };
            #[allow(clippy::disallowed_methods)] // no shard's, and nothing that one waits for
            spinning.threads.push(thread::Builder::new().name(format!("awake-{cpu}")).spawn(spin)?);
        }
        Ok(spinning)
    }
}

impl Drop for Spinning {
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
        let spinning = Spinning::on(&[0, usize::MAX]).unwrap();
        assert_eq!(spinning.threads.len(), 2);
        let over = spinning.over.clone();
        drop(spinning);
        assert!(over.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&over), 1, "no thread has it any more");
    }

    #[test]
    fn the_kernel_is_asked_where_it_can_be() {
        let awake = Awake::keep(&[0]).unwrap();
        assert_eq!(matches!(awake._way, Way::Asked { .. }), ask_kernel().is_some());
    }
}
