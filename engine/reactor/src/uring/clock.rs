//! The shard's clock: the time-stamp counter where it is trustworthy, CLOCK_MONOTONIC elsewhere.
//!
//! One scale for all shards of the process: nanoseconds since the clock was first asked for. The counter's rate is
//! measured once against CLOCK_MONOTONIC, to some parts per million; nothing compares it with other clocks later.

use std::io;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy)]
pub(super) struct Clock {
    /// Counter or monotonic nanoseconds at zero.
    base: u64,
    /// Nanoseconds per tick, with 32 fractional bits; `None`: the kernel's clock.
    rate: Option<u64>,
}

/// The longer, the closer: reading both clocks is uncertain by some 50 ns, thus 2.5 ppm.
const CALIBRATION_NS: u64 = 20_000_000;

impl Clock {
    pub(super) fn get() -> Clock {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(Clock::calibrate)
    }

    fn calibrate() -> Clock {
        if !counter_is_trustworthy() {
            return Clock { base: monotonic_ns(), rate: None };
        }
        let (ticks, ns) = pair();
        loop {
            let (ticks_now, ns_now) = pair();
            if ns_now - ns >= CALIBRATION_NS && ticks_now > ticks {
                let rate = (u128::from(ns_now - ns) << 32) / u128::from(ticks_now - ticks);
                return Clock { base: ticks, rate: Some(rate as u64) };
            }
            std::hint::spin_loop();
        }
    }

    #[inline]
    pub(super) fn now(&self) -> u64 {
        match self.rate {
            Some(rate) => ((u128::from(counter().saturating_sub(self.base)) * u128::from(rate)) >> 32) as u64,
            None => monotonic_ns() - self.base,
        }
    }
}

/// Both clocks at one instant: of a few tries the one in which the kernel's clock was quickest.
fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..5 {
        let before = counter();
        let ns = monotonic_ns();
        let after = counter();
        if after - before < best.0 {
            best = (after - before, before + (after - before) / 2, ns);
        }
    }
    (best.1, best.2)
}

fn kernel_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec, which is ours.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn monotonic_ns() -> u64 {
    kernel_ns(libc::CLOCK_MONOTONIC)
}

/// CPU of this thread, the kernel's work for it included.
pub(super) fn thread_cpu_ns() -> u64 {
    kernel_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU of all threads that a process has and had, the kernel's work for them included: `/proc/PID/stat` has no more than
/// hundredths of a second of it. Fails where there is no such process.
pub fn process_cpu_ns(process: u32) -> io::Result<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: writes one clock's number, which is ours.
    match unsafe { libc::clock_getcpuclockid(process as libc::pid_t, &mut clock) } {
        0 => Ok(kernel_ns(clock)),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Ticks of the time-stamp counter a second, as measured against the kernel's clock; `None` where it is not to be trusted.
pub fn counter_hz() -> Option<f64> {
    Clock::get().rate.map(|rate| 1e9 * 4_294_967_296.0 / rate as f64)
}

#[allow(clippy::disallowed_methods)] // this is the one place where the real world's wall clock enters the engine
pub(super) fn wall_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: the instruction reads a register; every x86-64 has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn counter() -> u64 {
    0
}

/// Ticks at one rate in all power states, and the kernel, which checks the cores against each other, uses it too.
fn counter_is_trustworthy() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::__cpuid;
        const INVARIANT: u32 = 1 << 8; // CPUID 8000_0007h EDX, "TscInvariant" in AMD's and Intel's manuals
        let invariant = __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & INVARIANT != 0;
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        invariant && std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_pace_with_the_kernel() {
        let Some(rate) = Clock::get().rate else { return };
        let (ticks, ns) = pair();
        while monotonic_ns() - ns < 50_000_000 {}
        let (ticks_now, ns_now) = pair();
        let (kernel, ours) = (ns_now - ns, ((u128::from(ticks_now - ticks) * u128::from(rate)) >> 32) as u64);
        assert!(ours.abs_diff(kernel) < kernel / 1000, "{ours} ns against {kernel}");
    }

    #[test]
    fn never_goes_back() {
        let clock = Clock::get();
        let mut last = clock.now();
        for _ in 0..100_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
