//! Which of the keys of a request are meant.

use crate::{Error, Result};

/// The protocol's block mask. In a lookup it names the keys to leave out, in a finish those that
/// were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mask<'a> {
    /// No mask: nothing is masked.
    #[default]
    None,
    /// The first so many keys. A negative number is an error wherever a mask is read.
    Offset(i32),
    /// One flag per key; keys beyond its end are not masked.
    Bools(&'a [bool]),
}

impl Mask<'_> {
    /// Fails on a negative offset.
    pub(crate) fn check(&self, field: &str) -> Result<()> {
        match self {
            Self::Offset(offset) if *offset < 0 => Err(Error::invalid(format!(
                "{field}.offset is {offset}, it must not be negative"
            ))),
            _ => Ok(()),
        }
    }

    /// Whether key number `at` is masked; a negative offset masks none.
    pub(crate) fn contains(&self, at: usize) -> bool {
        match self {
            Self::None => false,
            Self::Offset(offset) => usize::try_from(*offset).is_ok_and(|offset| at < offset),
            Self::Bools(bools) => bools.get(at).copied().unwrap_or(false),
        }
    }
}

/// Which keys of a start got no new location, as the answer tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// The first so many.
    Offset(usize),
    /// One flag per key of the request, true = skipped.
    Bools(Vec<bool>),
}

impl Skipped {
    /// From the numbers of the keys that did get one, rising, of `keys` in all: an offset when the
    /// skipped keys come first.
    pub(crate) fn new(granted: &[u32], keys: usize) -> Self {
        let skipped = keys - granted.len();
        if granted
            .first()
            .is_none_or(|first| *first as usize == skipped)
        {
            return Self::Offset(skipped);
        }
        let mut bools = vec![true; keys];
        granted.iter().for_each(|at| bools[*at as usize] = false);
        Self::Bools(bools)
    }
}

/// What a finish says of the new keys of its session, one bit each; equal when it says the same,
/// however it was written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Success {
    bits: Box<[u64]>,
    len: usize,
}

impl Success {
    /// Reads the mask for `keys` keys; the error says how it does not fit.
    pub(crate) fn new(mask: Mask<'_>, keys: usize) -> Result<Self, String> {
        match mask {
            Mask::None if keys > 0 => Err(format!(
                "success_blocks is empty, the session has {keys} new keys"
            )),
            Mask::Offset(offset) if !(0..=keys as i64).contains(&i64::from(offset)) => Err(
                format!("success_blocks.offset is {offset}, the session has {keys} new keys"),
            ),
            Mask::Bools(bools) if bools.len() != keys => Err(format!(
                "success_blocks.bool_masks has {} values, the session has {keys} new keys",
                bools.len()
            )),
            mask => Ok(Self::build(keys, |at| mask.contains(at))),
        }
    }

    /// No key was written.
    pub(crate) fn nothing(keys: usize) -> Self {
        Self::build(keys, |_| false)
    }

    /// From the bits of a record.
    pub(crate) fn from_bits(bits: Box<[u64]>, len: usize) -> Option<Self> {
        (bits.len() == len.div_ceil(64)).then_some(Self { bits, len })
    }

    /// One bit per key, lowest first.
    pub(crate) fn bits(&self) -> &[u64] {
        &self.bits
    }

    /// Keys that it speaks of.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Whether key number `at` was written.
    pub(crate) fn contains(&self, at: usize) -> bool {
        self.bits
            .get(at / 64)
            .is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn build(len: usize, written: impl Fn(usize) -> bool) -> Self {
        let mut bits = vec![0u64; len.div_ceil(64)].into_boxed_slice();
        for at in (0..len).filter(|at| written(*at)) {
            bits[at / 64] |= 1 << (at % 64);
        }
        Self { bits, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_keys_at_the_front_are_an_offset() {
        assert_eq!(Skipped::new(&[], 0), Skipped::Offset(0));
        assert_eq!(Skipped::new(&[], 3), Skipped::Offset(3));
        assert_eq!(Skipped::new(&[0, 1, 2], 3), Skipped::Offset(0));
        assert_eq!(Skipped::new(&[1, 2], 3), Skipped::Offset(1));
        assert_eq!(
            Skipped::new(&[0, 2], 3),
            Skipped::Bools(vec![false, true, false])
        );
        assert_eq!(
            Skipped::new(&[1], 3),
            Skipped::Bools(vec![true, false, true])
        );
    }

    #[test]
    fn the_same_outcome_is_equal_however_it_is_written() {
        let bools = Success::new(Mask::Bools(&[true, true, false]), 3).unwrap();
        assert_eq!(Success::new(Mask::Offset(2), 3).unwrap(), bools);
        assert_ne!(Success::new(Mask::Offset(1), 3).unwrap(), bools);
        assert!(bools.contains(1) && !bools.contains(2) && !bools.contains(99));
        assert_eq!(Success::new(Mask::None, 0).unwrap(), Success::nothing(0));
    }

    #[test]
    fn a_success_mask_has_to_fit_the_session() {
        let bools = [true; 2];
        for mask in [
            Mask::None,
            Mask::Offset(-1),
            Mask::Offset(4),
            Mask::Bools(&bools),
            Mask::Bools(&[]),
        ] {
            assert!(Success::new(mask, 3).is_err(), "{mask:?}");
        }
        assert!(Success::new(Mask::Offset(3), 3).is_ok());
    }

    #[test]
    fn a_short_mask_masks_no_more_and_a_negative_offset_is_refused() {
        let mask = Mask::Bools(&[true]);
        assert!(mask.contains(0) && !mask.contains(1));
        assert!(Mask::Offset(i32::MAX).contains(1000));
        let error = Mask::Offset(-1).check("block_mask").unwrap_err();
        assert!(error.to_string().contains("block_mask.offset"), "{error}");
    }
}
