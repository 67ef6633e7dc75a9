//! Block ids to block keys.

use thiserror::Error;

use crate::TOKENS_PER_BLOCK;

/// How many keys each block id becomes: the same prompts cut into smaller blocks.
///
/// Equal ids give equal keys and different ids different keys; the keys look like hashes, as
/// those of an engine do, so that neighbours in a prompt are not neighbours in value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expansion {
    keys_per_id: u64,
}

/// A number of keys that a block cannot be cut into.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a block of {TOKENS_PER_BLOCK} tokens becomes 1 to {TOKENS_PER_BLOCK} keys, not {0}")]
pub struct InvalidExpansion(u64);

impl Expansion {
    /// `keys_per_id` keys for each id, 1 to 512: a key stands for 512 / `keys_per_id` tokens.
    pub fn new(keys_per_id: u64) -> Result<Self, InvalidExpansion> {
        if (1..=TOKENS_PER_BLOCK).contains(&keys_per_id) {
            Ok(Self { keys_per_id })
        } else {
            Err(InvalidExpansion(keys_per_id))
        }
    }

    /// How many keys each id becomes.
    pub fn keys_per_id(self) -> u64 {
        self.keys_per_id
    }

    /// The keys of `hash_ids`, in order.
    pub fn keys(self, hash_ids: &[u64]) -> Vec<i64> {
        let per_id = self.keys_per_id;
        let mut keys = Vec::with_capacity(hash_ids.len() * per_id as usize);
        for id in hash_ids {
            // Ids are below 2^53 and a block has at most 2^9 keys, so this is one number for each
            // key; should an id be larger, the product wraps instead of panicking.
            let first = id.wrapping_mul(per_id);
            keys.extend((0..per_id).map(|key| mix(first.wrapping_add(key)).cast_signed()));
        }
        keys
    }
}

/// A number that looks like a hash: the last steps of splitmix64, a permutation of the 64-bit
/// numbers.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;
    use crate::MAX_HASH_ID;

    #[test]
    fn only_what_a_block_can_be_cut_into_is_accepted() {
        assert!(Expansion::new(1).is_ok() && Expansion::new(512).is_ok());
        assert_eq!(Expansion::new(0), Err(InvalidExpansion(0)));
        assert_eq!(
            Expansion::new(513).unwrap_err().to_string(),
            "a block of 512 tokens becomes 1 to 512 keys, not 513"
        );
    }

    #[test]
    fn keys_look_like_hashes() {
        let keys = Expansion::new(32)
            .unwrap()
            .keys(&(0..100).collect::<Vec<_>>());
        let negative = keys.iter().filter(|key| **key < 0).count();
        assert!(
            (1400..1800).contains(&negative),
            "{negative} of {}",
            keys.len()
        );
        assert!(
            keys.windows(2)
                .all(|pair| pair[0].abs_diff(pair[1]) > 1 << 20)
        );
    }

    proptest! {
        #[test]
        fn ids_and_their_runs_of_keys_correspond(
            ids in prop::collection::vec(prop_oneof![0..40u64, 0..=MAX_HASH_ID], 0..40),
            per_id in 1..=512u64,
        ) {
            let keys = Expansion::new(per_id).unwrap().keys(&ids);
            prop_assert_eq!(keys.len() as u64, ids.len() as u64 * per_id);
            let mut runs = HashMap::new();
            for (id, run) in ids.iter().zip(keys.chunks(per_id as usize)) {
                prop_assert_eq!(*runs.entry(*id).or_insert(run), run);
            }
            let distinct: HashSet<_> = keys.iter().collect();
            prop_assert_eq!(distinct.len() as u64, runs.len() as u64 * per_id);
        }
    }
}
