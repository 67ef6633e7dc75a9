//! What can be wrong with a body.

/// Why a message could not be read from JSON, or printed as JSON.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no body at all, or only white space.
    #[error("the body is empty: send a JSON object, `{{}}` for a request without fields")]
    Empty,

    /// Not JSON: cut off, a stray character, something after the end.
    #[error("the body is not JSON: {0}")]
    Syntax(#[source] serde_json::Error),

    /// JSON, but a value does not fit its field.
    #[error("{path}: {source}")]
    Value {
        /// The field, for example `block_mask.bool_masks.values[3]`; `the body` at the top.
        path: String,
        /// What does not fit; tells line and column.
        source: serde_json::Error,
    },

    /// The type is not a message of this protocol.
    #[error("message {0} is not part of the protocol")]
    UnknownMessage(String),

    /// The type and its descriptor differ; a mistake of ours, not of the caller.
    #[error("message {name} has no JSON form: {source}")]
    Mapping {
        /// Full name of the message.
        name: String,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
