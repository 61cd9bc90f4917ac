//! What a disk can do, from a file as ScyllaDB's `iotune` writes it (`io_properties.yaml`): how the node learns it.
//!
//! ```yaml
//! disks:
//!   - mountpoint: /var/lib/orrery
//!     read_iops: 285000            # of 4 KiB
//!     read_bandwidth: 3174067156   # bytes a second
//!     write_iops: 174500
//!     write_bandwidth: 1302657024
//! ```
//!
//! Other keys, which `iotune` may add, say things that the I/O queue does not use.

use std::path::Path;

use reactor::IoConfig;
use reactor::io::{Disk, Rates};
use serde::Deserialize;

use crate::exit::{Code, Failure};

#[derive(Deserialize)]
struct Properties {
    disks: Vec<DiskProperties>,
}

#[derive(Deserialize)]
struct DiskProperties {
    mountpoint: String,
    read_iops: u64,
    read_bandwidth: u64,
    write_iops: u64,
    write_bandwidth: u64,
}

pub fn load(path: &Path) -> Result<IoConfig, Failure> {
    let help = "the file lists `disks:`, each with mountpoint, read_iops, read_bandwidth, write_iops and \
                write_bandwidth, as iotune writes it";
    let refuse =
        |cause: String| Failure::with_help(Code::Usage, format!("--io-properties {}: {cause}", path.display()), help);
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    parse(&text).map_err(refuse)
}

fn parse(text: &str) -> Result<IoConfig, String> {
    let properties: Properties = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
    let mut disks = Vec::with_capacity(properties.disks.len());
    for disk in properties.disks {
        let DiskProperties { mountpoint, read_iops, read_bandwidth, write_iops, write_bandwidth } = disk;
        if !mountpoint.starts_with('/') {
            return Err(format!("the mountpoint {mountpoint} does not begin with a slash"));
        }
        let rates = Rates { read_iops, read_bandwidth, write_iops, write_bandwidth };
        if [read_iops, read_bandwidth, write_iops, write_bandwidth].contains(&0) {
            return Err(format!("{mountpoint} has a rate of 0"));
        }
        disks.push(Disk { mountpoint, rates });
    }
    Ok(IoConfig { disks, ..IoConfig::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_iotune_writes_is_read() {
        let text = "disks:\n- mountpoint: /var/lib/scylla/data\n  read_iops: 285000\n  read_bandwidth: 3174067156\n  \
                    write_iops: 174500\n  write_bandwidth: 1302657024\n  duplex: true\n";
        let rates = Rates {
            read_iops: 285_000,
            read_bandwidth: 3_174_067_156,
            write_iops: 174_500,
            write_bandwidth: 1_302_657_024,
        };
        let disks = vec![Disk { mountpoint: "/var/lib/scylla/data".into(), rates }];
        assert_eq!(parse(text), Ok(IoConfig { disks, ..IoConfig::default() }));
    }

    #[test]
    fn mistakes_are_named() {
        let disk = |mountpoint: &str, iops: &str| {
            let rest = "read_bandwidth: 1, write_iops: 1, write_bandwidth: 1";
            parse(&format!("disks: [{{mountpoint: {mountpoint}, read_iops: {iops}, {rest}}}]"))
        };
        assert!(disk("/d", "1").is_ok());
        assert!(disk("/d", "0").unwrap_err().contains("rate of 0"));
        assert!(disk("d", "1").unwrap_err().contains("slash"));
        assert!(disk("/d", "many").unwrap_err().contains("read_iops"));
        assert!(parse("disk: []").unwrap_err().contains("disks"));
    }
}
