//! Per-key linearizability.

mod project;
mod search;
mod shrink;
mod state;

pub(crate) use project::{Partition, project};
pub use search::{Entry, Verdict, search};
pub(crate) use shrink::shrink;
pub use state::{KeyOp, KeyState};
