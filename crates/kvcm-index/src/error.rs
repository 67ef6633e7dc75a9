//! Why a reservation was refused.

use thiserror::Error;

/// The index may not hold so many keys. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{used} of {capacity} keys are used, no room for {requested} more")]
pub struct Full {
    /// Keys in the index.
    pub used: usize,
    /// New keys that were asked for.
    pub requested: usize,
    /// The most keys that it may hold.
    pub capacity: usize,
}

/// A reservation was refused as a whole: the index is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReserveError<E> {
    /// Too many keys.
    #[error(transparent)]
    Full(#[from] Full),
    /// The caller's policy said no.
    #[error("{0}")]
    Policy(E),
}
