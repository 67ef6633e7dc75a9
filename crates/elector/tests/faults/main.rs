//! The faults that leader elections of this kind have had, each a test that names it.
//!
//! *Fault n* is a fault of the predecessor, *case En* one that was reported of another system;
//! `docs/FAULTS.md` lists all of them, with the tests that lie in other crates.
//!
//! `stage.rs` has one election and an honest backend, and `predecessor.rs` the predecessor's own
//! logic for the same stage: it must fail where the real core does not. `nodes.rs` runs whole
//! drivers in virtual time.
#![expect(clippy::unwrap_used, reason = "a test that panics fails")]

mod callbacks;
mod clocks;
mod identity;
mod leases;
mod nodes;
mod predecessor;
mod races;
mod release;
mod stage;
mod trouble;
