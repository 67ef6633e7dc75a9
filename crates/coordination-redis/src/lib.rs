//! Coordination of several hosts through Redis.
//!
//! Each operation is one Lua script, so it is one atomic step and one round trip. The lock is a
//! plain key whose value is the node id and whose time to live is the lease; everything else
//! about it (epoch, incarnation, info, how it ended) stands in a hash next to it, in the same hash
//! slot, which outlives the lease.
//!
//! What cannot be had from Redis: a command that a stopped server has received is done when the
//! server goes on, even after the deadline of the call. All such commands compare the epoch, so a
//! late one can take a free lock for its owner or lengthen its lease, and nothing else.

mod backend;
mod error;
mod keys;
mod locks;
mod reply;
mod scripts;
mod subscriber;
mod values;

pub use backend::RedisBackend;
