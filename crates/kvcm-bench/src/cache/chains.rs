//! Keys in chains, and queries of them.

use kvcm_index::{BlockIndex, Grant, Location, State};
use kvcm_trace::mix;

/// Keys of a chain; the longest query is one whole chain.
pub(super) const CHAIN: usize = 1000;
/// Keys that are written together, as engines write them.
pub(super) const WRITE: usize = 128;
/// How many queries are made before they are timed together: they lie in the processor's cache
/// then, as those of a request that was just read.
pub(super) const QUERIES: usize = 32;

/// How much of a query is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    All,
    Half,
    Nothing,
}

impl Found {
    pub(super) const ALL: [Self; 3] = [Self::All, Self::Half, Self::Nothing];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::All => "hit",
            Self::Half => "half",
            Self::Nothing => "miss",
        }
    }

    /// How many keys of a query are found.
    pub(super) fn of(self, length: usize) -> usize {
        match self {
            Self::All => length,
            Self::Half => length / 2,
            Self::Nothing => 0,
        }
    }
}

/// Key number `at` of a chain; keys look like hashes.
pub(super) fn key(chain: usize, at: usize) -> i64 {
    mix((chain * CHAIN + at) as u64).cast_signed()
}

/// Overwrites `query` with the first `length` keys of a chain; behind `found` ones strange keys.
pub(super) fn query(query: &mut Vec<i64>, chain: usize, length: usize, found: usize) {
    query.clear();
    query.extend((0..found).map(|at| key(chain, at)));
    // Chains are numbered far below this.
    query.extend((found..length).map(|at| key((1 << 40) + chain, at)));
}

/// Chains in an order that jumps about, from a place of its own for each thread.
pub(super) fn shuffled(chains: usize, thread: usize) -> impl Iterator<Item = usize> {
    // A step without a common divisor visits all of them.
    let step = (chains * 617 / 1000..)
        .find(|step| gcd(*step, chains) == 1)
        .unwrap_or(1);
    (0..).map(move |n: usize| (thread * chains / 2 + n * step) % chains)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// An index of so many chains, written in pieces of `write` keys that all serve.
pub(super) fn index(chains: usize, write: usize) -> BlockIndex {
    let index = BlockIndex::new();
    let mut locations = Vec::with_capacity(write);
    let mut counter = 0;
    for chain in 0..chains {
        for from in (0..CHAIN).step_by(write) {
            counter += 1;
            let grant = Grant { epoch: 1, counter };
            locations.clear();
            let keys = (from..CHAIN.min(from + write)).map(|at| key(chain, at));
            locations.extend((0u32..).zip(keys).map(|(position, key)| {
                let location = Location::new(grant, position, 0, 0, State::Serving);
                (key, location)
            }));
            index.restore(locations.iter().copied(), 0);
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_chain_comes_once_in_a_round() {
        for chains in [1, 2, 10, 1000, 10_000] {
            let round: HashSet<_> = shuffled(chains, 1).take(chains).collect();
            assert_eq!(round.len(), chains);
        }
    }
}
