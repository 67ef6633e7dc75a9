//! A journal at a Redis server, at the primary that Sentinels watch, or in a Redis Cluster.
//!
//! Three keys and one more per snapshot, all in one hash slot. Every step is one script, which
//! checks the fence first:
//!
//! - `…:meta`, a hash: the fence (`cluster`, `epoch`, `incarnation`, `former_*` of the claim
//!   before), `seq` of the last batch, and which snapshot counts (`snapshot`, `through`, `version`,
//!   `chunks`);
//! - `…:log`, a list: each element is a group of batches, and `…:ends`, a list beside it: the
//!   number of each group's last batch;
//! - `…:snapshot:<through>:<random>`, a list: each element is one chunk. It expires unless it is
//!   finished.

mod client;
mod journal;
mod scripts;
mod store;

pub use journal::RedisJournal;
