//! Equal drives side by side: stripes go around them, and a request is done when its slowest part is.

use super::device::Request;
use super::ebs::Volume;
use super::flash::Flash;
use super::model::{DiskModel, Kind};
use super::virtio::Virtio;
use crate::random::Generator;
use crate::server::Served;

enum Member {
    Flash(Flash),
    Volume(Volume),
    Virtio(Virtio),
}

impl Member {
    fn serve(&mut self, at: u64, not_before: u64, request: Request) -> Served {
        match self {
            Member::Flash(drive) => drive.serve(at, not_before, request),
            Member::Volume(volume) => volume.serve(at, not_before, request),
            Member::Virtio(disk) => disk.serve(at, not_before, request),
        }
    }
}

pub(super) struct Raid0 {
    members: Vec<Member>,
    stripe_bytes: u64,
}

impl Raid0 {
    /// A single drive is its own only member.
    pub fn new(model: &DiskModel, mut random: Generator) -> Self {
        let mut member = |_| {
            let random = if model.members == 1 { random.clone() } else { random.split() };
            match model.kind {
                Kind::Flash => Member::Flash(Flash::new(model, random)),
                Kind::NetworkVolume => Member::Volume(Volume::new(model, random)),
                Kind::Virtio => Member::Virtio(Virtio::new(model, random)),
            }
        };
        Self { members: (0..model.members.max(1)).map(&mut member).collect(), stripe_bytes: model.stripe_bytes.max(1) }
    }

    pub fn serve(&mut self, at: u64, not_before: u64, request: Request) -> Served {
        let members = self.members.len() as u64;
        if let [only] = &mut self.members[..] {
            return only.serve(at, not_before, request);
        }
        let first = request.place / self.stripe_bytes;
        let last = (request.place + request.bytes.max(1) - 1) / self.stripe_bytes;
        if first == last {
            return self.members[(first % members) as usize].serve(at, not_before, request);
        }
        let mut all = Served { starts_at: u64::MAX, ends_at: 0 };
        // The stripes of one member lie one behind the other: they are one request to it.
        for member in (0..members).map(|step| (first + step) % members).take((last - first + 1) as usize) {
            let bytes = self.share_of(member, request);
            let served = self.members[member as usize].serve(at, not_before, Request { bytes, ..request });
            all.starts_at = all.starts_at.min(served.starts_at);
            all.ends_at = all.ends_at.max(served.ends_at);
        }
        all
    }

    /// Bytes of a request that lie on one member.
    fn share_of(&self, member: u64, request: Request) -> u64 {
        let row = self.stripe_bytes * self.members.len() as u64;
        let begin = member * self.stripe_bytes;
        // Bytes of this member below a place.
        let below = |place: u64| {
            place / row * self.stripe_bytes + (place % row).clamp(begin, begin + self.stripe_bytes) - begin
        };
        below(request.place + request.bytes) - below(request.place)
    }

    /// A removed file's blocks, which lie on all members alike.
    pub fn discard(&mut self, at: u64, bytes: u64) -> u64 {
        let each = bytes / self.members.len() as u64;
        let discarded = self.members.iter_mut().map(|member| match member {
            Member::Virtio(disk) => disk.discard(at, each),
            Member::Flash(_) | Member::Volume(_) => at,
        });
        discarded.max().unwrap_or(at)
    }

    pub fn flush(&mut self, at: u64) -> u64 {
        let flushed = self.members.iter_mut().map(|member| match member {
            Member::Flash(drive) => drive.flush(at),
            Member::Volume(volume) => volume.flush(at),
            Member::Virtio(disk) => disk.flush(at),
        });
        flushed.max().unwrap_or(at)
    }

    /// What the last request is answered with, where what comes meanwhile puts that off: a single disk's queue.
    pub fn batch(&self) -> Option<u64> {
        match &self.members[..] {
            [Member::Virtio(disk)] => Some(disk.batch()),
            _ => None,
        }
    }

    /// When a batch is answered, if it is not over.
    pub fn answered_at(&self, batch: u64) -> Option<u64> {
        match &self.members[..] {
            [Member::Virtio(disk)] => disk.answered_at(batch),
            _ => None,
        }
    }

    /// ns of the members' rates that were used, on average.
    pub fn busy_ns(&self) -> u64 {
        let busy = self.members.iter().map(|member| match member {
            Member::Flash(drive) => drive.busy_ns(),
            Member::Volume(volume) => volume.busy_ns(),
            Member::Virtio(disk) => disk.busy_ns(),
        });
        busy.sum::<u64>() / self.members.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::device::Direction;

    fn raid(members: usize) -> Raid0 {
        let model = DiskModel { members, stripe_bytes: 100, ..DiskModel::fast("member") };
        Raid0::new(&model, Generator::new(1))
    }

    #[test]
    fn every_byte_lies_on_one_member() {
        let raid = raid(3);
        for (place, bytes, expect) in [(0, 100, [100, 0, 0]), (50, 100, [50, 50, 0]), (250, 700, [250, 200, 250])] {
            let request = Request { direction: Direction::Read, place, bytes };
            let shares: Vec<u64> = (0..3).map(|member| raid.share_of(member, request)).collect();
            assert_eq!(shares, expect, "{place} {bytes}");
        }
    }

    #[test]
    fn a_long_request_is_served_by_all_members_at_once() {
        let time = |members, bytes| {
            let mut model = DiskModel { members, stripe_bytes: 64 << 10, ..DiskModel::fast("member") };
            model.read.bandwidth = 1e9;
            let request = Request { direction: Direction::Read, place: 0, bytes };
            Raid0::new(&model, Generator::new(1)).serve(0, 0, request).ends_at
        };
        assert_eq!(time(1, 4 << 20), time(4, 16 << 20));
        assert_eq!(time(1, 4096), time(4, 4096));
    }
}
