//! Why a value or a type name was refused, in the words that Cassandra's clients know.

/// Messages follow Cassandra's `MarshalException`s, because drivers' tests and users' eyes match on them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are not a value of the type.
    #[error("{0}")]
    Marshal(String),
    /// The text is not the name of a type.
    #[error("{0}")]
    TypeName(String),
    /// A replication or table option is missing or wrong.
    #[error("{0}")]
    Configuration(String),
}

pub(crate) fn marshal(message: impl Into<String>) -> Error {
    Error::Marshal(message.into())
}
