//! Command line of the peers: `server ADDR cpu=N`.

use std::net::SocketAddr;

pub fn to_cpu_and_get_addr() -> SocketAddr {
    let mut arguments = std::env::args().skip(2);
    let addr = arguments.next().expect("an address").parse().expect("an address");
    if let Some(cpu) = arguments.next().and_then(|cpu| cpu.strip_prefix("cpu=")?.parse().ok()) {
        // SAFETY: an all-zero set is empty and valid; it is ours.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set), 0);
        }
    }
    addr
}
