//! Whole clusters in virtual time, from one seed.
//!
//! The real driver of the election runs, three to seven times, over a simulated coordination
//! backend, fenced stores, a network and clients, on one thread. All that is left to chance comes
//! from the seed: what goes wrong and when, how long messages take, which task runs next. So a run
//! that broke something can be run again, and goes the same way.
//!
//! [`run`] makes a [`History`], [`judge`] reads it: it shares no code with the cluster. A
//! [`Campaign`] is many of both.

mod callbacks;
mod campaign;
mod check;
mod client;
mod cluster;
mod coordination;
mod dice;
mod event;
mod fault;
mod mutant;
mod nemesis;
mod net;
mod node;
mod operators;
mod peers;
mod report;
mod run;
mod service;
mod store;
mod time;
mod world;

pub use campaign::{Campaign, replay};
pub use check::{Invariant, Race, Verdict, Violation, judge};
pub use event::{Ask, Entry, Event, Life, RequestId, Told, Transferred, fingerprint};
pub use fault::Fault;
pub use mutant::Mutant;
pub use report::Report;
pub use run::{History, Plan, run};
