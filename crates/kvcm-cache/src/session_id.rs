//! The name of a write session.

use std::{fmt, str::FromStr};

use kvcm_clock::Random;

use crate::ops::DecodeError;

/// Names a write session: 32 characters of `[a-z0-9]`, as the protocol has it. Random, so that a
/// session of an earlier reign is never mistaken for another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; 32]);

const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// A text that is not a session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a session id (32 characters of a-z 0-9)")]
pub struct InvalidSessionId;

impl SessionId {
    /// Bytes of an encoded id.
    pub(crate) const LEN: usize = 32;

    /// A new id.
    pub(crate) fn random(random: &mut dyn Random) -> Self {
        let mut id = [0; 32];
        for part in id.chunks_mut(8) {
            // 36^8 is below 2^42, so the leftover bias is far below what anybody could meet.
            let mut number = random.next_u64();
            for byte in part {
                *byte = ALPHABET[(number % 36) as usize];
                number /= 36;
            }
        }
        Self(id)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Only ever made of ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or(DecodeError::Malformed("the session id is none"))
    }
}

impl FromStr for SessionId {
    type Err = InvalidSessionId;

    fn from_str(text: &str) -> Result<Self, InvalidSessionId> {
        let bytes: [u8; 32] = text.as_bytes().try_into().map_err(|_| InvalidSessionId)?;
        let allowed = |byte: &u8| ALPHABET.contains(byte);
        bytes
            .iter()
            .all(allowed)
            .then_some(Self(bytes))
            .ok_or(InvalidSessionId)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_32_characters_of_the_protocol_s_alphabet_and_differ() {
        let mut random = fastrand::Rng::with_seed(1);
        let ids: std::collections::HashSet<_> =
            (0..1000).map(|_| SessionId::random(&mut random)).collect();
        assert_eq!(ids.len(), 1000);
        for id in ids {
            assert_eq!(id.as_str().len(), 32);
            assert_eq!(id.as_str().parse(), Ok(id));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let upper = "A".repeat(32);
        let long = "a".repeat(33);
        for text in ["", "a", upper.as_str(), long.as_str()] {
            assert!(text.parse::<SessionId>().is_err(), "{text}");
        }
    }
}
