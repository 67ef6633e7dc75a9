//! One request of a trace.

use serde::Serialize;

/// Tokens that one id of [`Request::hash_ids`] stands for; the last block may hold fewer.
pub const TOKENS_PER_BLOCK: u64 = 512;

/// The largest block id: what every JSON reader keeps exactly.
pub const MAX_HASH_ID: u64 = (1 << 53) - 1;

/// One request to an inference engine. Serializes as a line of the trace format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// When it arrived: milliseconds since the trace began.
    #[serde(rename = "timestamp")]
    pub at_ms: u64,
    /// Length of its prompt, in tokens.
    #[serde(rename = "input_length")]
    pub input_tokens: u64,
    /// Length of the answer, in tokens.
    #[serde(rename = "output_length")]
    pub output_tokens: u64,
    /// The blocks of its prompt, first to last. Equal ids mean that the prompts are equal up to
    /// and including that block, so an id always follows the same id. At most [`MAX_HASH_ID`].
    pub hash_ids: Vec<u64>,
}
