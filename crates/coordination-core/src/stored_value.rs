//! A value as a backend stores it.

use kvcm_clock::Moment;

use crate::{Expect, Value};

/// A value with the moment of its end, for backends that keep values themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValue {
    /// The text.
    pub text: String,
    /// Its version.
    pub version: u64,
    /// When it expires; none when it has no time to live.
    pub expires: Option<Moment>,
}

impl StoredValue {
    /// Whether it has not expired at `now`.
    pub fn is_live(&self, now: Moment) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    /// As a caller sees it at `now`.
    pub fn view(&self, now: Moment) -> Option<Value> {
        self.is_live(now).then(|| Value {
            text: self.text.clone(),
            version: self.version,
            remaining: self.expires.map(|expires| now.until(expires)),
        })
    }
}

impl Expect {
    /// Whether a change may happen when the value has `version`, or none is there.
    pub fn admits(self, version: Option<u64>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => version.is_none(),
            Self::Version(expected) => version == Some(expected),
        }
    }
}
