//! What a call of the cache manager can answer instead of a result.

use std::fmt;

use kvcm_fence::Fenced;
use kvcm_journal::{AppendError, Outcome};
use thiserror::Error;

/// Why a call failed. The text is for the caller: it names fields, limits and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Fields that are needed and are not there, by their names in the protocol.
    #[error("missing or invalid fields: {{{}}}", .0.join(", "))]
    MissingFields(Vec<&'static str>),
    /// A field that says something impossible.
    #[error("{0}")]
    InvalidArgument(String),
    /// The instance is not registered.
    #[error("instance `{0}` does not exist; register it first")]
    InstanceNotExist(String),
    /// A limit is reached. Nothing was changed.
    #[error(transparent)]
    Capacity(#[from] Capacity),
    /// The protocol has it and this server does not.
    #[error("{0}")]
    Unsupported(String),
    /// The write session is unknown: finished, expired, or never started.
    #[error(
        "write_session_id has been deleted: `{0}` is finished, expired or unknown; start a new write"
    )]
    SessionGone(String),
    /// Another leader writes to the journal: the server demotes itself.
    #[error("this node no longer leads ({outcome}): {fenced}")]
    Fenced {
        /// Who does.
        fenced: Fenced,
        /// Whether the change may have been stored before.
        outcome: Outcome,
    },
    /// The journal refused the change: it is certain that nothing was done.
    #[error("the change was not stored: {0}")]
    NotStored(String),
    /// The change may take effect or not.
    #[error("it is not known whether the change was stored: {0}")]
    Unknown(String),
    /// Something that the caller cannot change is in the way.
    #[error("{0}")]
    Internal(String),
}

/// What to do about an [`Error`]: one kind per code of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is wrong.
    InvalidArgument,
    /// Register the instance and try again.
    InstanceNotExist,
    /// Make room or raise the limit.
    Capacity,
    /// Never works here.
    Unsupported,
    /// The write has ended: start a new one.
    SessionGone,
    /// Not done, for this node has been superseded: find the new leader.
    Fenced,
    /// Not done; may work later.
    NotStored,
    /// May have been done.
    Unknown,
    /// The server's fault or its configuration's.
    Internal,
}

/// A limit that refused a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{limit} is reached: {used} of {capacity} {unit} used, {requested} more requested{}",
    hint(*.capacity)
)]
pub struct Capacity {
    /// Which limit, and whose.
    pub limit: String,
    /// What it counts.
    pub unit: &'static str,
    /// How much is used.
    pub used: u64,
    /// How much the request needs on top.
    pub requested: u64,
    /// The most that may be used.
    pub capacity: i64,
}

/// What to do about a limit that never lets anything pass.
const fn hint(capacity: i64) -> &'static str {
    if capacity > 0 {
        ""
    } else {
        "; set it above 0, for nothing can be written until then"
    }
}

// === impl Error ===

impl Error {
    /// What to do about it.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::MissingFields(_) | Self::InvalidArgument(_) => ErrorKind::InvalidArgument,
            Self::InstanceNotExist(_) => ErrorKind::InstanceNotExist,
            Self::Capacity(_) => ErrorKind::Capacity,
            Self::Unsupported(_) => ErrorKind::Unsupported,
            Self::SessionGone(_) => ErrorKind::SessionGone,
            Self::Fenced {
                outcome: Outcome::NotDone,
                ..
            } => ErrorKind::Fenced,
            Self::NotStored(_) => ErrorKind::NotStored,
            Self::Fenced { .. } | Self::Unknown(_) => ErrorKind::Unknown,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }

    /// Whether another leader has been seen: the server demotes itself, whatever it answers.
    pub const fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }

    /// Of a batch or snapshot that has no place in the journal: nothing happened.
    pub(crate) fn from_append(error: AppendError) -> Self {
        match error {
            AppendError::Fenced(fenced) => Self::Fenced {
                fenced,
                outcome: Outcome::NotDone,
            },
            other => Self::NotStored(other.to_string()),
        }
    }

    pub(crate) fn invalid(text: impl fmt::Display) -> Self {
        Self::InvalidArgument(text.to_string())
    }
}
