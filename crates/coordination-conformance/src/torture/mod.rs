//! Processes that contend for one lock while they are killed and stopped at random moments.
//!
//! A test binary is its own child: a test of it calls [`live`] when [`is_child`] says so, and
//! another runs [`Torture::run`] with a command that starts the binary again for that test alone.
//! Children tell on their standard output what they know to be true, each fact with its moment of
//! the host's boot clock; a pipe keeps what was written by a process that was killed right after.
//! From all that was told [`History`](history) finds out whether the backend has kept its word.

mod child;
mod event;
mod history;
mod report;
mod supervisor;

pub use child::{is_child, live};
pub use report::Report;
pub use supervisor::{Harm, Torture};
