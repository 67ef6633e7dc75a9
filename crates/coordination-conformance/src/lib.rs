//! The conformance suite that every coordination backend runs.
//!
//! A backend's test tells how to make one ([`Subject`]) and expands [`suite!`], which turns each
//! check into a `#[tokio::test]` with a fresh store. Backends on a clock that tests can move also
//! run [`model::follows_the_model`].
//!
//! Backends that several processes share also run [`torture`], with processes that are killed and
//! stopped at random moments.
//!
//! Checks are fair to backends in real time on a slow, noisy machine: what must still be held has
//! a lease of half a minute, and what must expire is waited for.

#![allow(
    clippy::unwrap_used,
    reason = "a check that fails here says enough, and this crate is only for tests"
)]

pub mod arguments;
pub mod cancellation;
pub mod contention;
pub mod ends;
pub mod epochs;
mod handle;
pub mod locks;
pub mod model;
mod model_steps;
pub mod reservations;
mod subject;
mod suite;
pub mod torture;
pub mod values;
pub mod watches;

pub use subject::Subject;
