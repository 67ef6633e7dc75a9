//! The demonstration: a cluster of real processes serves a trace through the death of its leader.

pub(crate) mod cluster;
mod director;
mod engine;
mod options;
mod outcome;
mod phase;
mod progress;
mod report;
mod run;
mod trace;
mod verdict;

pub use options::{Coordination, Options};
pub use run::{Verdict, run};
