//! One life of one process.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Identifies one life of a node's process: 128 random bits, printed as 32 hex digits.
///
/// A restarted node keeps its node id and gets a new incarnation, so that a lock which its former
/// life held is *held by another*.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Incarnation(u128);

/// A text that is not 32 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not an incarnation (32 lower-case hex digits)")]
pub struct InvalidIncarnation(pub String);

impl Incarnation {
    /// From its bits.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// A new one from the process's random generator.
    pub fn random() -> Self {
        Self(fastrand::u128(..))
    }

    /// Its bits.
    pub const fn bits(self) -> u128 {
        self.0
    }
}

// === impl conversions ===

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Incarnation {
    type Err = InvalidIncarnation;

    fn from_str(text: &str) -> Result<Self, InvalidIncarnation> {
        let digits = text.len() == 32
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !digits {
            return Err(InvalidIncarnation(text.chars().take(64).collect()));
        }
        u128::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| InvalidIncarnation(text.chars().take(64).collect()))
    }
}

impl TryFrom<String> for Incarnation {
    type Error = InvalidIncarnation;

    fn try_from(text: String) -> Result<Self, InvalidIncarnation> {
        text.parse()
    }
}

impl From<Incarnation> for String {
    fn from(incarnation: Incarnation) -> Self {
        incarnation.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_round_trips(bits: u128) {
            let incarnation = Incarnation::from_bits(bits);
            prop_assert_eq!(incarnation.to_string().parse(), Ok(incarnation));
        }
    }

    #[test]
    fn rejects_anything_but_32_lower_case_hex_digits() {
        let long = "0".repeat(33);
        let upper = "A".repeat(32);
        let plus = format!("+{}", "0".repeat(31));
        for text in ["", "0", long.as_str(), upper.as_str(), plus.as_str()] {
            assert!(text.parse::<Incarnation>().is_err(), "{text}");
        }
    }
}
