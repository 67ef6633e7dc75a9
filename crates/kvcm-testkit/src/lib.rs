//! Clusters of real processes for tests and demonstrations.

mod redis;

pub use redis::RedisServer;
