//! The state of a state machine, chunk by chunk.

use std::fmt;

use bytes::Bytes;

/// Replaces all records up to `through`.
pub struct Snapshot {
    /// The number of the last batch whose effect is in it.
    pub through: u64,
    /// Version of the encoding of the chunks.
    pub version: u16,
    /// The content; a load gives the chunks back cut the same way. A MiB each is a good size. The
    /// store asks for a chunk when it has written the one before it, so the whole never lies in
    /// memory; making one should take a few milliseconds at most.
    pub chunks: Box<dyn Iterator<Item = Bytes> + Send>,
}

impl Snapshot {
    /// Of chunks that are made when they are asked for, or of a list.
    pub fn new(
        through: u64,
        version: u16,
        chunks: impl IntoIterator<Item = Bytes, IntoIter: Send + 'static>,
    ) -> Self {
        Self {
            through,
            version,
            chunks: Box::new(chunks.into_iter()),
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("through", &self.through)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
