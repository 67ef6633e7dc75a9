//! Clusters of real processes for tests and demonstrations.
//!
//! Not for production. Everything listens on loopback and on free ports, writes only into the
//! folder it is given, and is killed when it is dropped.

mod binary;
mod cluster;
mod http;
mod node;
mod ports;
mod process;
mod proxy;
mod redis;
mod redis_cluster;
mod resp;

pub use binary::server_binary;
pub use cluster::{Cluster, ClusterSpec};
pub use http::{HttpReply, http_get, http_post, http_post_with};
pub use node::NodeSpec;
pub use ports::Ports;
pub use process::ServerProcess;
pub use proxy::{Direction, Proxy, Rule};
pub use redis::RedisServer;
pub use redis_cluster::{RedisCluster, start_sentinels};
