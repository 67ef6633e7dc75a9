//! A real cluster, tormented, and everything that its clients were told written down.

mod backend;
mod disk;
mod engine;
mod fault;
mod keys;
mod links;
mod nemesis;
mod node;
mod options;
mod raw;
mod recorder;
mod run;
mod schedule;
mod world;

pub use disk::private_mounts;
pub use options::{Backend, Options, Store};
pub use run::{Verdict, run};
