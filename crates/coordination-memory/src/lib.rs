//! Coordination inside one process: one node, tests and simulations.
//!
//! [`MemoryBackend`] is also the reference of the conformance suite. Clones share one store, so
//! that several electors of one process can contend; [`MemoryBackend::flush`] and
//! [`MemoryBackend::forget_holder`] do to it what operators and crashes do to real backends.

mod backend;
mod faults;
mod hints;
mod store;

pub use backend::MemoryBackend;
pub use faults::Backup;
