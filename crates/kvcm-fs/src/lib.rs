//! Which file systems are of one host.
//!
//! Locks, and what one process sees at once of another one's writes, are certain on a local file
//! system only. The coordination backend and the journal that use a directory both need that, and
//! refuse the same ones.

mod shared;

pub use shared::shared;
