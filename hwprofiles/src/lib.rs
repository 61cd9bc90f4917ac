//! Profiles of instances, disks, networks, processors and systems.
