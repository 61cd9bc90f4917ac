//! A copy of a host's disks at one moment, to be crashed and recovered from as often as one likes.
//!
//! Copies share their bytes until one of them is written to, so that one can be kept of every moment of a run.

use std::rc::Rc;
use std::sync::Arc;

use super::tree::{InodeId, Tree};
use crate::host::{Crash, HostId, State};
use crate::random::Generator;
use crate::world::World;

/// What the disks hold, and the writes on their way to them.
#[derive(Clone)]
pub struct Image {
    pub(crate) tree: Tree,
    pub(crate) writes: Vec<PendingWrite>,
}

/// A write that was submitted and has not ended.
#[derive(Clone)]
pub(crate) struct PendingWrite {
    pub inode: InodeId,
    pub offset: u64,
    pub bytes: Arc<[u8]>,
}

/// Called when an operation on a file was submitted, and when one has ended.
pub(crate) type Watch = Rc<dyn Fn(Image)>;

impl World {
    /// Calls `watch` with an image of the host's disks at every boundary of an operation that changes them: when one has been
    /// submitted, and when one has ended.
    pub fn watch_disks(&self, host: HostId, watch: impl Fn(Image) + 'static) {
        *self.host(host.0).watch.borrow_mut() = Some(Rc::new(watch));
    }

    pub fn end_watch(&self, host: HostId) {
        let host = self.host(host.0);
        host.watch.borrow_mut().take();
        host.pending_writes.borrow_mut().clear();
    }

    /// Gives a host that is off the disks that `image` has become by a crash at its moment.
    pub fn replace_disks(&self, host: HostId, image: Image, crash: Crash, random: &mut Generator) {
        let host = self.host(host.0);
        assert!(host.state.get() != State::Running, "a running host keeps its disks");
        let Image { mut tree, writes } = image;
        tree.forget_holders(self.now());
        for write in writes {
            // With the power gone each sector is decided below; a kernel finishes or cancels what it was given.
            if (crash == Crash::PowerLoss || random.chance(1, 2))
                && tree.is_there(write.inode)
                && let Ok(content) = tree.content_mut(write.inode)
            {
                content.write(write.offset, &write.bytes, false);
            }
        }
        host.page_cache.borrow_mut().clear();
        if crash == Crash::PowerLoss {
            tree.lose_power(self.now(), random);
        }
        *host.tree.borrow_mut() = tree;
    }
}
