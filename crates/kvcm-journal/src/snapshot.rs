//! The state of a state machine in one piece.

use bytes::Bytes;

/// Replaces all records up to `through`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of the last batch whose effect is in it.
    pub through: u64,
    /// Version of the encoding of the chunks.
    pub version: u16,
    /// The content; a load gives the chunks back cut the same way. A MiB each is a good size.
    pub chunks: Vec<Bytes>,
}
