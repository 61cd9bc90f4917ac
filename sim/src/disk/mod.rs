//! Disks and files of a host: [`device`] says when a request is done, [`tree`] and [`content`] what it did and what
//! of it survives, `extents` where it lies, [`page_cache`] and `write_back` what the kernel keeps from the disk,
//! `gathering` what a smaller experiment spares it. A family of devices has a file, and `part` has what they are put
//! together from.

pub mod content;
pub mod device;
mod ebs;
mod extents;
pub mod faults;
mod flash;
pub(crate) mod gathering;
pub mod image;
pub mod model;
pub(crate) mod operations;
pub mod page_cache;
pub(crate) mod part;
mod raid0;
pub mod tree;
mod virtio;
pub(crate) mod write_back;
mod write_back_cache;
