//! Connecting to Redis: addresses, credentials, scripts, error classes, deadlines.
//!
//! [`Lease`] is one connection of its own for what must not wait behind anything else; [`Pool`]
//! is for all other calls. Both end every call by its deadline and never use a connection again
//! that did not answer in time. Nothing here knows what is stored.
//!
//! # Standalone, Sentinel, Cluster
//!
//! [`Config::from_uri`] lists the forms of a URI. With `redis-sentinel://` each new connection asks
//! all named sentinels at once where the primary is, and takes the newest answer of most of them
//! (of those that answer, when most do not); the server there must say itself that it is the
//! primary. With `redis-cluster://` the nodes are asked who serves the slot of the key, and `MOVED`
//! and `ASK` are followed. In both, a call that fails makes the next one ask anew. Addresses are
//! used as the sentinels and nodes announce them, so they must be announced as they can be reached
//! from here (`replica-announce-ip`, `cluster-announce-ip`), and with TLS as the certificates have
//! them.
//!
//! # Passwords that change
//!
//! A server asks for the password when a connection is opened and not again, so open connections
//! live on. New ones use what stands in `password_file` then, or the password of the URI.

mod address;
mod attempt;
mod class;
mod cluster_nodes;
mod config;
mod connect;
mod failure;
mod lease;
mod link;
mod locator;
mod opener;
mod pool;
mod route;
mod script;
mod sentinel;
mod server;
mod server_time;

pub use address::Address;
pub use attempt::Repeat;
pub use class::{Class, Outcome};
pub use config::{Config, Deployment, Sentinels};
pub use failure::Failure;
pub use lease::Lease;
pub use link::Link;
pub use locator::Locator;
pub use pool::Pool;
pub use route::Route;
pub use script::{Answer, Replicas, Script};
pub use server::Server;
