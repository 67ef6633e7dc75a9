//! The one place that lets leader-only work in and out.
//!
//! `tests/interleavings` compiles the same files with another `atoms`, whose every order of events
//! can be tried.

mod admission;
mod atoms;
mod in_flight;
#[cfg(test)]
mod tests;

pub use admission::{Admission, Closed, Gate, Lost};
