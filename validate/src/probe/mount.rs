//! Which device and file system are under a folder, as Linux tells it.

use std::fs;
use std::path::Path;

use super::ProbeError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub device: String,
    pub point: String,
    pub filesystem: String,
    /// Blocks of removed files are discarded at once.
    pub discards: bool,
}

impl Mount {
    pub fn of(folder: &Path) -> Result<Self, ProbeError> {
        let absolute = fs::canonicalize(folder)
            .map_err(|source| ProbeError::File { path: folder.display().to_string(), source })?;
        let mounts = super::host::text("/proc/mounts")?;
        Self::among(&mounts, &absolute).ok_or(ProbeError::NoMount(absolute))
    }

    /// The longest mount point above the folder; of equal ones the last, which lies over the others.
    fn among(mounts: &str, folder: &Path) -> Option<Self> {
        let all = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let (device, point, filesystem) = (words.next()?, words.next()?, words.next()?);
            let discards = words.next().is_some_and(|options| options.split(',').any(|option| option == "discard"));
            // The kernel writes a blank in a path as \040.
            let point = point.replace("\\040", " ");
            let (device, filesystem) = (device.into(), filesystem.into());
            folder.starts_with(&point).then_some(Self { device, point, filesystem, discards })
        });
        all.max_by_key(|mount| mount.point.len())
    }

    fn block(&self) -> Option<String> {
        let device = fs::canonicalize(&self.device).ok()?;
        let name = device.file_name()?.to_str()?;
        let folder = format!("/sys/class/block/{name}");
        Path::new(&folder).is_dir().then_some(folder)
    }

    /// `None` where files are not on a block device.
    pub fn device_bytes(&self) -> Option<u64> {
        // In sectors of 512 bytes, whatever the device's own (Linux, Documentation/ABI/stable/sysfs-block).
        let sectors: u64 = fs::read_to_string(format!("{}/size", self.block()?)).ok()?.trim().parse().ok()?;
        Some(sectors * 512)
    }

    /// Whether the device calls itself a volume of EBS, as those on NVMe do.
    pub fn is_network_volume(&self) -> bool {
        let model = self.block().and_then(|block| {
            let of = |folder: &str| fs::read_to_string(format!("{block}{folder}/device/model")).ok();
            of("").or_else(|| of("/.."))
        });
        model.is_some_and(|model| model.contains("Elastic Block Store"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_is_found() {
        let mounts = "/dev/vda / ext4 rw,discard 0 0\nproc /proc proc rw 0 0\n/dev/nvme1n1 /var/lib xfs rw 0 0\n\
                      /dev/md0 /var/lib/my\\040data xfs rw 0 0\n";
        let device = |folder: &str| Mount::among(mounts, Path::new(folder)).unwrap().device;
        assert_eq!(device("/var/lib/orrery"), "/dev/nvme1n1");
        assert_eq!(device("/var/library"), "/dev/vda");
        assert_eq!(device("/var/lib/my data/x"), "/dev/md0");
        assert_eq!(Mount::among("", Path::new("/")), None);
        let discards = |folder: &str| Mount::among(mounts, Path::new(folder)).unwrap().discards;
        assert_eq!([discards("/"), discards("/var/lib/orrery")], [true, false]);
    }
}
