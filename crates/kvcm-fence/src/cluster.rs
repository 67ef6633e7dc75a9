//! Which cluster a store belongs to.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Names one cluster, so that a node pointed at another cluster's store stops instead of
/// overwriting it. 1 to 64 characters of `[A-Za-z0-9_.-]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterId(Arc<str>);

/// A text that cannot be a cluster id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a cluster id (1 to 64 characters of A-Z a-z 0-9 _ . -)")]
pub struct InvalidClusterId(pub String);

impl ClusterId {
    /// A new id: 32 random hex digits.
    pub fn random() -> Self {
        Self(format!("{:032x}", fastrand::u128(..)).into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl conversions ===

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ClusterId {
    type Err = InvalidClusterId;

    fn from_str(text: &str) -> Result<Self, InvalidClusterId> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        if (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidClusterId(text.chars().take(80).collect()))
        }
    }
}

impl TryFrom<String> for ClusterId {
    type Error = InvalidClusterId;

    fn try_from(text: String) -> Result<Self, InvalidClusterId> {
        text.parse()
    }
}

impl From<ClusterId> for String {
    fn from(id: ClusterId) -> Self {
        id.0.as_ref().to_owned()
    }
}
