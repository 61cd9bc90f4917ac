//! The world in virtual time: event kernel, hosts, CPUs, disks, NICs, faults, oracles.
