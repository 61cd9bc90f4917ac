//! What devices are put together from: each part knows one reason why a request waits.

pub(crate) mod channels;
pub(super) mod core;
mod episodes;
mod flush;
pub(super) mod interference;
pub(super) mod limits;
pub(super) mod side;
