//! Connecting to Redis: addresses, credentials, scripts, error classes, deadlines.
//!
//! [`Lease`] is one connection of its own for what must not wait behind anything else; [`Pool`]
//! is for all other calls. Both end every call by its deadline and never use a connection again
//! that did not answer in time. Nothing here knows what is stored.

mod attempt;
mod class;
mod config;
mod connect;
mod failure;
mod lease;
mod pool;
mod script;
mod server;

pub use attempt::Repeat;
pub use class::{Class, Outcome};
pub use config::Config;
pub use connect::connect;
pub use failure::Failure;
pub use lease::{Lease, Link};
pub use pool::Pool;
pub use script::{Answer, Replicas, Script};
pub use server::Server;
