//! Reading the content.

use bytes::Bytes;

use crate::{Record, Source};

/// Takes the content of a journal in order.
///
/// A sink that cannot use a single entry notes it and goes on: one bad entry must not cost the
/// rest. It returns an error only to stop the load, for instance when the format is newer than
/// the program.
pub trait LoadSink {
    /// One chunk of the snapshot, cut as it was written.
    ///
    /// # Errors
    /// Any: the load ends with [`LoadError::Rejected`](crate::LoadError::Rejected).
    fn snapshot(&mut self, version: u16, chunk: Bytes) -> Result<(), Source>;

    /// One record after the snapshot.
    ///
    /// # Errors
    /// Any: the load ends with [`LoadError::Rejected`](crate::LoadError::Rejected).
    fn record(&mut self, record: &Record) -> Result<(), Source>;
}

/// How a load went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Chunks of the snapshot.
    pub snapshot_chunks: u64,
    /// Records given to the sink.
    pub records: u64,
    /// Payload given to the sink, in bytes.
    pub bytes: u64,
    /// The number of the last batch, 0 when there never was one.
    pub last_seq: u64,
    /// There was content, and the store dropped it because it may be out of date.
    pub dropped: bool,
    /// What was damaged and left out.
    pub skipped: Vec<Skipped>,
}

/// A part of the content that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it stands, in the store's own terms.
    pub place: String,
    /// What is wrong with it.
    pub reason: String,
}
