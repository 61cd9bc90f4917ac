//! Disks and files of a host: [`device`] says when a request is done, [`tree`] and [`content`] what it did and what
//! of it survives.

pub mod content;
pub mod device;
pub mod faults;
pub mod image;
pub mod model;
pub(crate) mod operations;
pub mod page_cache;
pub mod tree;
