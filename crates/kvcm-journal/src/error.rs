//! What can go wrong between a leader and its store.

use std::{error::Error as StdError, fmt};

use kvcm_fence::{ClaimRefused, Fenced};
use thiserror::Error;

/// The cause of an error as the store's driver tells it, without secrets.
pub type Source = Box<dyn StdError + Send + Sync>;

/// What is known of an operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It did not happen and will not.
    NotDone,
    /// It may have happened, or may still happen.
    Unknown,
}

/// Why a store was not claimed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The fence refuses it.
    #[error(transparent)]
    Refused(#[from] ClaimRefused),
    /// The store cannot be reached or did not answer in time. After an unknown outcome the same
    /// claim may be refused as already made: campaign for a new epoch instead of repeating it.
    #[error("the journal is unavailable ({outcome}): {source}")]
    Unavailable {
        /// Whether the claim may have been made all the same.
        outcome: Outcome,
        /// What the driver said.
        source: Source,
    },
    /// No try will succeed until somebody acts.
    #[error("{hint}: {source}")]
    Fatal {
        /// What to do.
        hint: String,
        /// What the driver said.
        source: Source,
    },
}

/// Why a batch or a snapshot was not acknowledged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Another claim stands: the caller no longer leads and demotes itself at once.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The store cannot be reached, is full or did not answer in time.
    #[error("the journal is unavailable ({outcome}): {source}")]
    Unavailable {
        /// `NotDone`: the batch has no place, submit it again. `Unknown`: the batch keeps its
        /// place and the writer goes on trying; ask [`Writer::committed`](crate::Writer) again.
        outcome: Outcome,
        /// What the driver said.
        source: Source,
    },
    /// The store has lost batches that it had acknowledged: it went back in time. A snapshot of
    /// the state in memory, through [`Writer::committed_seq`](crate::Writer::committed_seq), makes
    /// up for it; batches that wait keep their places.
    #[error(
        "the journal went back in time: it has batches up to {has} and had acknowledged {had}; it \
         needs a snapshot"
    )]
    WentBack {
        /// The last batch that the store has.
        has: u64,
        /// The last one that it had acknowledged.
        had: u64,
    },
    /// The batch is over the store's limit.
    #[error("a batch of {size} bytes is over the journal's limit of {limit}; split it")]
    TooLarge {
        /// Bytes of the batch.
        size: usize,
        /// Bytes that the store takes.
        limit: usize,
    },
    /// The content was not loaded: writing on without having read would bury it.
    #[error("the journal was not loaded before the first write")]
    NotLoaded,
    /// A sequence number that this writer has not given out.
    #[error("sequence number {seq} was not given out, the last is {last}")]
    NoSuchSeq {
        /// What was asked for.
        seq: u64,
        /// The last one given out, or acknowledged where only acknowledged ones count.
        last: u64,
    },
}

/// Why the content was not loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Another claim stands.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The store cannot be reached or did not answer in time.
    #[error("the journal cannot be read: {source}")]
    Unavailable {
        /// What the driver said.
        source: Source,
    },
    /// The sink stopped the load.
    #[error("the content of the journal is not understood: {source}")]
    Rejected {
        /// What the sink said.
        source: Source,
    },
}

// === impl AppendError ===

impl AppendError {
    /// A batch that has no place in the store and will get none by itself.
    pub fn not_done(source: impl Into<Source>) -> Self {
        Self::Unavailable {
            outcome: Outcome::NotDone,
            source: source.into(),
        }
    }

    /// A batch that may be or come into the store.
    pub fn unknown(source: impl Into<Source>) -> Self {
        Self::Unavailable {
            outcome: Outcome::Unknown,
            source: source.into(),
        }
    }

    /// Whether the batch may be in the store all the same.
    pub const fn is_unknown(&self) -> bool {
        matches!(
            self,
            Self::Unavailable {
                outcome: Outcome::Unknown,
                ..
            }
        )
    }
}

// === impl Outcome ===

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDone => "nothing happened",
            Self::Unknown => "it may have happened",
        })
    }
}
