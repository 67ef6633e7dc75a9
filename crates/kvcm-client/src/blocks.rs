//! Which blocks a call is about.

use std::sync::Arc;

/// The key of a block: a hash of its tokens and of all before them, as the engine computes it. The
/// server treats it as 64 opaque bits.
pub type BlockKey = i64;

/// Blocks by their keys, or by their tokens, which the server hashes itself. Made from slices,
/// vectors and arrays of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks<'a>(Given<'a>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given<'a> {
    Keys(&'a [BlockKey]),
    Tokens(&'a [i64]),
}

impl<'a> Blocks<'a> {
    /// Blocks by their keys.
    pub fn keys(keys: &'a [BlockKey]) -> Self {
        Self(Given::Keys(keys))
    }

    /// Blocks by their tokens; a block has as many as the instance was registered with. Tokens
    /// that do not fill a block are left out.
    pub fn tokens(tokens: &'a [i64]) -> Self {
        Self(Given::Tokens(tokens))
    }

    /// How many blocks these are, at `block_size` tokens per block.
    pub(crate) fn count(self, block_size: i32) -> usize {
        match self.0 {
            Given::Keys(keys) => keys.len(),
            Given::Tokens(tokens) => tokens.len() / usize::try_from(block_size).unwrap_or(1).max(1),
        }
    }

    /// Keys and tokens of a request; one of them is empty.
    pub(crate) fn to_wire(self) -> (Vec<i64>, Vec<i64>) {
        match self.0 {
            Given::Keys(keys) => (keys.to_vec(), Vec::new()),
            Given::Tokens(tokens) => (Vec::new(), tokens.to_vec()),
        }
    }
}

impl<'a> From<&'a [BlockKey]> for Blocks<'a> {
    fn from(keys: &'a [BlockKey]) -> Self {
        Self::keys(keys)
    }
}

impl<'a, const N: usize> From<&'a [BlockKey; N]> for Blocks<'a> {
    fn from(keys: &'a [BlockKey; N]) -> Self {
        Self::keys(keys)
    }
}

impl<'a> From<&'a Vec<BlockKey>> for Blocks<'a> {
    fn from(keys: &'a Vec<BlockKey>) -> Self {
        Self::keys(keys)
    }
}

impl<'a> From<&'a Arc<[BlockKey]>> for Blocks<'a> {
    fn from(keys: &'a Arc<[BlockKey]>) -> Self {
        Self::keys(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_do_not_fill_a_block_are_none() {
        let tokens: Vec<i64> = (0..35).collect();
        assert_eq!(Blocks::tokens(&tokens).count(16), 2);
        assert_eq!(Blocks::tokens(&tokens).count(0), 35, "never divides by 0");
        assert_eq!(Blocks::from(&[1, 2, 3]).count(16), 3);
        assert_eq!(Blocks::tokens(&tokens).to_wire().1.len(), 35);
    }
}
