//! What can go wrong between a node and its backend.

use std::{error::Error as StdError, fmt};

use thiserror::Error;

/// Why an operation gave no answer. That a lock is held by another or is not held at all is an
/// answer, not an error.
#[derive(Debug, Error)]
pub enum Error {
    /// The backend cannot be reached or did not answer in time; a later try may succeed.
    #[error("the coordination backend is unavailable ({outcome}): {source}")]
    Unavailable {
        /// Whether the operation may have happened all the same.
        outcome: Outcome,
        /// What the driver said, without secrets.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// No try will succeed until somebody acts: configuration, credentials, an unsupported
    /// server, a directory that another host uses.
    #[error("{hint}: {source}")]
    Fatal {
        /// What to do.
        hint: String,
        /// What the driver said, without secrets.
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// What is known of an operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It did not happen.
    NotDone,
    /// It may have happened, or may still happen until its deadline.
    Unknown,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDone => "nothing happened",
            Self::Unknown => "it may have happened",
        })
    }
}

impl Error {
    /// An operation that did not happen.
    pub fn not_done(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Unavailable {
            outcome: Outcome::NotDone,
            source: source.into(),
        }
    }

    /// An operation that may have happened.
    pub fn unknown(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Unavailable {
            outcome: Outcome::Unknown,
            source: source.into(),
        }
    }

    /// A state that only people can repair.
    pub fn fatal(
        hint: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::Fatal {
            hint: hint.into(),
            source: source.into(),
        }
    }

    /// Whether a later try may succeed without anybody acting.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
