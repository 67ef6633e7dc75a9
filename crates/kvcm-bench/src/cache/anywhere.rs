//! Where the benches' blocks go.

use std::convert::Infallible;

use kvcm_index::{Location, ReservePolicy};

/// One storage takes all.
pub(super) struct Anywhere;

impl ReservePolicy for Anywhere {
    type Error = Infallible;

    fn is_satisfied(&self, _at: usize, _locations: &[Location]) -> bool {
        true
    }

    fn specs(&self, _at: usize) -> u16 {
        0
    }

    fn place(&mut self, _new: &[u32]) -> Result<u16, Self::Error> {
        Ok(0)
    }
}
