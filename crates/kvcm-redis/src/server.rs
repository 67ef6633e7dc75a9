//! What a server says of itself.

use std::time::Duration;

/// The facts of `INFO` that decide whether a server can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Changes with every start of the process.
    pub run_id: String,
    /// The version as printed.
    pub version: String,
    /// Whether it accepts writes by its role.
    pub is_primary: bool,
    /// Whether it is part of a Redis Cluster.
    pub is_cluster: bool,
    /// How many replicas are connected.
    pub replicas: u32,
    /// `maxmemory-policy`; empty when the server does not tell.
    pub eviction: String,
    /// How long `INFO` took.
    pub round_trip: Duration,
}

impl Server {
    /// Reads the answer of `INFO`. What is missing stays empty.
    pub fn parse(info: &str) -> Self {
        let field = |name: &str| {
            let mut lines = info.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.unwrap_or_default().trim().to_owned()
        };
        Self {
            run_id: field("run_id"),
            version: field("redis_version"),
            is_primary: field("role") == "master",
            is_cluster: field("cluster_enabled") == "1",
            replicas: field("connected_slaves").parse().unwrap_or_default(),
            eviction: field("maxmemory_policy"),
            round_trip: Duration::ZERO,
        }
    }

    /// The first number of the version, or none when it cannot be read.
    pub fn major_version(&self) -> Option<u32> {
        self.version.split('.').next()?.parse().ok()
    }

    /// Whether it may drop a key without time to live when its memory is full.
    pub fn evicts_any_key(&self) -> bool {
        self.eviction.starts_with("allkeys-")
    }

    /// Whether it may drop a key with a time to live when its memory is full.
    pub fn evicts_leases(&self) -> bool {
        self.evicts_any_key() || self.eviction.starts_with("volatile-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_redis_prints() {
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:ab12\r\n\r\n# Replication\r\n\
                    role:master\r\nconnected_slaves:2\r\n# Memory\r\nmaxmemory_policy:volatile-lru\r\n\
                    # Cluster\r\ncluster_enabled:1\r\n";
        let server = Server::parse(info);
        assert_eq!(server.major_version(), Some(7));
        assert_eq!((server.run_id.as_str(), server.replicas), ("ab12", 2));
        assert!(server.is_primary && server.is_cluster);
        assert!(server.evicts_leases() && !server.evicts_any_key());
    }

    #[test]
    fn what_is_missing_is_not_taken_for_a_primary() {
        let server = Server::parse("role:slave\r\nmaxmemory_policy:noeviction");
        assert!(!server.is_primary && !server.evicts_leases());
        assert_eq!(Server::parse(""), Server::default());
        assert_eq!(Server::default().major_version(), None);
    }
}
