//! What a registry answers when it does not do what was asked.

use std::fmt;

use kvcm_fence::Fenced;
use kvcm_journal::{AppendError, LoadError, Outcome, Source};
use thiserror::Error;

use crate::Mistakes;

/// Why a registry did not do what was asked. Unless it says otherwise, nothing has changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Fields that are missing or cannot be.
    #[error("missing or invalid fields: {0}")]
    InvalidArgument(Fields),
    /// It exists with other content.
    #[error("{what} `{name}` exists with different fields: {fields}")]
    Duplicate {
        /// `instance`, `storage`, `instance group`.
        what: &'static str,
        /// Its name.
        name: String,
        /// The fields that differ.
        fields: Fields,
    },
    /// A new thing under a name that is taken.
    #[error("{what} `{name}` exists already; nothing was changed")]
    Exists {
        /// `storage`, `instance group`, `account`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The group is not there.
    #[error("instance group `{group}` does not exist; known groups: {known}")]
    NoSuchGroup {
        /// The group.
        group: String,
        /// Some groups that do exist.
        known: String,
    },
    /// The instance is not there.
    #[error("instance `{0}` does not exist; register it first")]
    NoSuchInstance(String),
    /// The storage is not there.
    #[error("storage `{0}` does not exist; add it first")]
    NoSuchStorage(String),
    /// The account is not there.
    #[error("account `{0}` does not exist")]
    NoSuchAccount(String),
    /// A configuration snapshot that cannot be taken over.
    #[error("config_snapshot is not usable, nothing was changed: {0}")]
    BadSnapshot(Mistakes),
    /// Somebody else changed the group since the caller read it.
    #[error(
        "instance group `{group}` has version {stored}: the update names {current} as the current \
         version and {new} as the new one, which must be the stored one and a larger one"
    )]
    VersionConflict {
        /// The group.
        group: String,
        /// Its version.
        stored: i64,
        /// What the caller takes for its version.
        current: i64,
        /// What the caller wants it to be.
        new: i64,
    },
    /// Another claim stands on the journal: this node no longer leads.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The journal did not take the change, or did not say so in time.
    #[error("the registry's journal is unavailable ({outcome}): {source}")]
    Unavailable {
        /// With `Unknown` the change may still happen; the same request again tells.
        outcome: Outcome,
        /// What the journal said.
        source: Source,
    },
    /// The content of the journal was not read.
    #[error("the registry cannot be loaded: {0}")]
    Load(LoadError),
}

/// The kind of an [`Error`], for mapping it to a protocol's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// [`Error::InvalidArgument`] and [`Error::BadSnapshot`].
    InvalidArgument,
    /// [`Error::Duplicate`] and [`Error::Exists`].
    Duplicate,
    /// [`Error::NoSuchGroup`].
    NoSuchGroup,
    /// [`Error::NoSuchInstance`].
    NoSuchInstance,
    /// [`Error::NoSuchStorage`].
    NoSuchStorage,
    /// [`Error::NoSuchAccount`].
    NoSuchAccount,
    /// [`Error::VersionConflict`].
    VersionConflict,
    /// [`Error::Fenced`].
    Fenced,
    /// [`Error::Unavailable`] and [`Error::Load`].
    Unavailable,
}

/// Fields and what is wrong with each. Prints `{field, field} (field reason; field reason)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<FieldError>);

/// One field and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field's name on the wire, with its place: `location_spec_infos[2].size`.
    pub field: String,
    /// What is wrong, to be read after the name: `must be positive, is 0`.
    pub reason: String,
}

// === impl Error ===

impl Error {
    /// The kind.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidArgument(_) | Self::BadSnapshot(_) => ErrorKind::InvalidArgument,
            Self::Duplicate { .. } | Self::Exists { .. } => ErrorKind::Duplicate,
            Self::NoSuchGroup { .. } => ErrorKind::NoSuchGroup,
            Self::NoSuchInstance(_) => ErrorKind::NoSuchInstance,
            Self::NoSuchStorage(_) => ErrorKind::NoSuchStorage,
            Self::NoSuchAccount(_) => ErrorKind::NoSuchAccount,
            Self::VersionConflict { .. } => ErrorKind::VersionConflict,
            Self::Fenced(_) => ErrorKind::Fenced,
            Self::Unavailable { .. } | Self::Load(_) => ErrorKind::Unavailable,
        }
    }
}

impl From<AppendError> for Error {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Fenced(fenced) => Self::Fenced(fenced),
            AppendError::Unavailable { outcome, source } => Self::Unavailable { outcome, source },
            other => Self::Unavailable {
                outcome: Outcome::NotDone,
                source: other.into(),
            },
        }
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Fenced(fenced) => Self::Fenced(fenced),
            other => Self::Load(other),
        }
    }
}

// === impl Fields ===

impl Fields {
    /// Notes a field.
    pub(crate) fn add(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.0.push(FieldError {
            field: field.into(),
            reason: reason.into(),
        });
    }

    /// Notes the field unless `good`.
    pub(crate) fn check(&mut self, good: bool, field: &str, reason: &str) {
        if !good {
            self.add(field, reason);
        }
    }

    /// Ok when nothing was noted.
    pub(crate) fn into_result(self) -> Result<(), Error> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Error::InvalidArgument(self))
        }
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", error.field)?;
        }
        f.write_str("} (")?;
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{} {}", error.field, error.reason)?;
        }
        f.write_str(")")
    }
}
