//! Which system with which timings.

use std::{fmt, time::Duration};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// kvcm; leader, registry and index on the local disk
    KvcmFile,
    /// kvcm; leader, registry and index on one Redis
    KvcmRedis,
    /// An election under a lease of one etcd
    Etcd,
    /// The election recipe on one ZooKeeper
    Zookeeper,
    /// A Redis master with two replicas and three sentinels
    Sentinel,
    /// `SET NX PX` on one Redis, tried each 100 ms, renewed each third of the lease
    Plain,
}

/// Whose timings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// Each system is made to have the same lease, as nearly as it allows
    Tuned,
    /// Each has what it comes with
    Defaults,
}

/// A system with its timings.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) kind: Kind,
    pub(super) lane: Lane,
    /// The lease asked for.
    pub(super) lease: Duration,
}

impl Kind {
    /// All of them, ours first.
    pub const ALL: [Self; 6] = [
        Self::KvcmFile,
        Self::KvcmRedis,
        Self::Etcd,
        Self::Zookeeper,
        Self::Sentinel,
        Self::Plain,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::KvcmFile => "kvcm-file",
            Self::KvcmRedis => "kvcm-redis",
            Self::Etcd => "etcd",
            Self::Zookeeper => "zookeeper",
            Self::Sentinel => "sentinel",
            Self::Plain => "plain-lock",
        }
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::KvcmFile | Self::KvcmRedis)
    }
}

impl Lane {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tuned => "tuned",
            Self::Defaults => "defaults",
        }
    }
}

impl Setting {
    pub(super) fn tuned(kind: Kind, lease: Duration) -> Self {
        Self {
            kind,
            lane: Lane::Tuned,
            lease,
        }
    }

    /// What a user gets who sets nothing.
    pub(super) fn defaults(kind: Kind) -> Self {
        let seconds = match kind {
            Kind::KvcmFile | Kind::KvcmRedis => 10,
            // etcd's clientv3/concurrency session, and Curator's, of which ZooKeeper grants 40 s.
            Kind::Etcd | Kind::Zookeeper => 60,
            // down-after-milliseconds of the sentinel.conf that comes with Redis.
            Kind::Sentinel => 30,
            // Redisson's watchdog; redis-py's Lock has no lease by default.
            Kind::Plain => 30,
        };
        Self {
            kind,
            lane: Lane::Defaults,
            lease: Duration::from_secs(seconds),
        }
    }

    pub(super) fn is_tuned(&self) -> bool {
        self.lane == Lane::Tuned
    }

    pub(super) fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, lane) = (self.kind.name(), self.lane.name());
        write!(f, "{name}, lease {} ms ({lane})", self.lease_ms())
    }
}
