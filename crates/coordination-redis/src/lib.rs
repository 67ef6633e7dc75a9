//! Coordination of several hosts through Redis.
//!
//! Each operation is one Lua script, so it is one atomic step and one round trip. The lock is a
//! plain key whose value is the node id and whose time to live is the lease; everything else
//! about it (epoch, incarnation, info, how it ended) stands in a hash next to it, in the same hash
//! slot, which outlives the lease.
//!
//! Nothing happens after the deadline of its call: each command carries it along as a time of the
//! server's clock, and a script that begins later does nothing. So a command that was held up on
//! its way, or that a stopped server had received, is lost when the server goes on. What remains:
//! a server whose clock is set back by some seconds lets commands in that are late by as much. Those about locks
//! compare owner, incarnation and epoch anyway, so a late one can take a free lock for its owner or
//! lengthen its lease, and nothing else.
//!
//! What cannot be had from Redis: replication is asynchronous, so a failover (by hand, by Sentinel,
//! in a Cluster) may lose the last acquisition and renewals, and a primary that is cut off from its
//! sentinels serves those who still reach it. With `wait_replicas` a lease counts only when so many
//! replicas have it, which a primary that is cut off from them cannot give. Without, epochs and the
//! fences of the stores keep the former leader from writing.

mod backend;
mod error;
mod keys;
mod locks;
mod reply;
mod scripts;
mod subscriber;
mod values;

pub use backend::RedisBackend;
