//! What the value operations take and return.

use std::time::Duration;

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The text.
    pub text: String,
    /// Rises with every change of this key, also across deletion where the backend can tell; two
    /// different texts under one key never have the same version.
    pub version: u64,
    /// Until it expires; none when it has no time to live.
    pub remaining: Option<Duration>,
}

/// What has to be there for a change to happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Anything or nothing.
    #[default]
    Any,
    /// Nothing.
    Absent,
    /// A value of exactly this version.
    Version(u64),
}

/// The answer of [`Backend::set_value`](crate::Backend::set_value).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOutcome {
    /// Stored, with this version.
    Stored(u64),
    /// Nothing was changed: the value has this version, or there is none.
    Conflict(Option<u64>),
}

/// The answer of [`Backend::delete_value`](crate::Backend::delete_value).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It is gone.
    Deleted,
    /// There was none.
    Absent,
    /// Nothing was changed: the value has this version.
    Conflict(u64),
}
