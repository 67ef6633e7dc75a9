//! The fencing token.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A fencing token: rises with every acquisition of the leader lock and never repeats.
///
/// Below 2^53, so that JSON readers and Redis' Lua, whose numbers are doubles, keep it exact.
/// Zero means "no epoch seen yet".
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "u64", into = "u64")]
pub struct Epoch(u64);

/// A number that cannot be an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("epoch {0} is not below 2^53")]
pub struct EpochOutOfRange(pub u64);

impl Epoch {
    /// No epoch: lower than every epoch that was ever minted.
    pub const ZERO: Self = Self(0);
    /// The highest epoch.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Checks the range.
    ///
    /// # Errors
    /// When `value` is 2^53 or more.
    pub const fn new(value: u64) -> Result<Self, EpochOutOfRange> {
        if value > Self::MAX.0 {
            Err(EpochOutOfRange(value))
        } else {
            Ok(Self(value))
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether this is [`Epoch::ZERO`].
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The epoch after this one, or none after [`Epoch::MAX`].
    pub const fn next(self) -> Option<Self> {
        if self.0 >= Self::MAX.0 {
            None
        } else {
            Some(Self(self.0 + 1))
        }
    }
}

// === impl conversions ===

impl TryFrom<u64> for Epoch {
    type Error = EpochOutOfRange;

    fn try_from(value: u64) -> Result<Self, EpochOutOfRange> {
        Self::new(value)
    }
}

impl From<Epoch> for u64 {
    fn from(epoch: Epoch) -> Self {
        epoch.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Epoch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value: u64 = text
            .parse()
            .map_err(|_| format!("`{text}` is not an epoch"))?;
        Self::new(value).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_checked_everywhere() {
        let beyond = 1u64 << 53;
        assert_eq!(Epoch::new(beyond), Err(EpochOutOfRange(beyond)));
        assert_eq!(Epoch::MAX.next(), None);
        assert_eq!(Epoch::ZERO.next().map(Epoch::get), Some(1));
        assert!(serde_json::from_str::<Epoch>(&beyond.to_string()).is_err());
        assert!(beyond.to_string().parse::<Epoch>().is_err());
        assert_eq!("12".parse(), Ok(Epoch::new(12).unwrap()));
    }
}
