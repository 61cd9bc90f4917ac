//! What holds for any data, and the strategies that make it.

pub(crate) mod arbitrary;
pub(crate) mod properties;
