//! The calls of the protocol, once for gRPC and HTTP.

mod admin;
mod leader_only;
mod meta;

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{cluster::Cluster, reign::Reigns};

/// The calls of the protocol. Each takes a request and gives a response whose header tells how it
/// went; none fails in any other way.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) reigns: Arc<Reigns>,
    /// What an operator set; the election has its own copy.
    campaign_delay: Mutex<Duration>,
}

impl Services {
    /// Calls of a node.
    pub(crate) fn new(cluster: Arc<Cluster>, reigns: Arc<Reigns>) -> Self {
        Self {
            cluster,
            reigns,
            campaign_delay: Mutex::default(),
        }
    }
}
