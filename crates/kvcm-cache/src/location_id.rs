//! The name of a location, for people.

use std::fmt;

use kvcm_index::Location;

/// Names a location: 8 characters of `[a-z0-9]`. Derived from its grant, so it stays the same for
/// the life of the location, on every leader.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocationId([u8; 8]);

impl LocationId {
    pub(crate) fn new(location: &Location) -> Self {
        const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let grant = location.grant();
        let mut number = mix(grant.epoch ^ mix(grant.counter ^ mix(location.position().into())));
        Self(std::array::from_fn(|_| {
            let byte = ALPHABET[(number % 36) as usize];
            number /= 36;
            byte
        }))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Only ever made of ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for LocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for LocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use kvcm_index::{Grant, State};

    use super::*;

    #[test]
    fn ids_differ_and_do_not_change_with_the_state() {
        let mut seen = std::collections::HashSet::new();
        for counter in 0..100 {
            for position in 0..10 {
                let grant = Grant { epoch: 3, counter };
                let location = Location::new(grant, position, 0, 0, State::Writing);
                let id = LocationId::new(&location);
                assert!(seen.insert(id));
                assert_eq!(LocationId::new(&location.with_state(State::Serving)), id);
                assert_eq!(id.to_string().len(), 8);
            }
        }
    }
}
