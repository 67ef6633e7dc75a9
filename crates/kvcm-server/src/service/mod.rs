//! The calls of the protocol, once for gRPC and HTTP.

mod accounts;
mod admin;
mod debug;
mod groups;
mod instances;
mod leader_only;
mod logger;
mod meta;
mod metrics;
mod snapshots;
mod storages;
mod watch;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;

use self::accounts::Hashing;
pub(crate) use self::watch::{State, Watching};
use crate::{
    cluster::Cluster, faults::Faults, logging::LogHandle, metrics::Metrics, reign::Reigns,
};

/// The calls of the protocol. Each takes a request and gives a response whose header tells how it
/// went; none fails in any other way.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) reigns: Arc<Reigns>,
    /// What an operator set; the election has its own copy.
    campaign_delay: Mutex<Duration>,
    /// What DebugService has injected.
    pub(crate) faults: Faults,
    /// Streams of leader changes.
    pub(crate) watching: Watching,
    /// Set when this process's log is ours.
    pub(crate) log: OnceLock<LogHandle>,
    hashing: Hashing,
    /// What is counted and measured.
    pub(crate) metrics: Arc<Metrics>,
}

impl Services {
    /// Calls of a node.
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        reigns: Arc<Reigns>,
        metrics: Arc<Metrics>,
        watching: Watching,
    ) -> Self {
        Self {
            cluster,
            reigns,
            campaign_delay: Mutex::default(),
            faults: Faults::default(),
            watching,
            log: OnceLock::new(),
            hashing: Hashing::default(),
            metrics,
        }
    }
}
