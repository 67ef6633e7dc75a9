//! What a node counts and measures, and how it is read: as a page for Prometheus and as the
//! answer of GetMetrics.
//!
//! Each [`App`](crate::app::App) has a registry of its own, so that several live in one process.
//! What a call costs is a few atomic additions: its counters are looked up when the node is built.
//! Everything else is read from the node's memory when somebody asks.

mod cache;
mod calls;
mod connections;
mod election;
mod families;
mod latency;
mod lookups;
mod node;
mod page;
mod protocol;
mod refusals;
mod spans;
mod storages;
mod streams;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use prometheus_client::registry::Registry;

use self::families::{Families, Source};
pub(crate) use self::{
    calls::{Calls, Ending, Method},
    connections::Connections,
    lookups::Lookups,
};
use crate::{
    cluster::Cluster, http::Refusals, reign::Reigns, streams::Streams, traces::SpanCounts,
};

/// The metrics of a node.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    families: Arc<Families>,
    calls: Arc<Calls>,
    lookups: Arc<Lookups>,
}

/// What is counted where it happens; everything else is read from its owner.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    /// Calls, over either protocol.
    pub(crate) calls: Arc<Calls>,
    /// Keys that were looked up.
    pub(crate) lookups: Arc<Lookups>,
    /// Connections of each listener.
    pub(crate) connections: Arc<Connections>,
    /// What the listeners refuse.
    pub(crate) refusals: Arc<Refusals>,
    /// Streams of leader changes.
    pub(crate) streams: Arc<Streams>,
}

impl Counters {
    /// All at zero, for a node that serves `streams_max` streams.
    ///
    /// # Errors
    /// When the descriptors of the protocol cannot be read.
    pub(crate) fn new(streams_max: usize) -> anyhow::Result<Self> {
        Ok(Self {
            calls: Arc::new(Calls::new()?),
            lookups: Arc::default(),
            connections: Arc::default(),
            refusals: Arc::default(),
            streams: Arc::new(Streams::new(streams_max)),
        })
    }
}

impl Metrics {
    /// Metrics of a node, with `prefix_` before each name; nothing before it when that is empty.
    pub(crate) fn new(
        prefix: &str,
        counters: &Counters,
        cluster: Arc<Cluster>,
        reigns: Arc<Reigns>,
        spans: Option<Arc<SpanCounts>>,
    ) -> Self {
        let mut registry = match prefix {
            "" => Registry::default(),
            prefix => Registry::with_prefix(prefix),
        };
        counters.calls.register(&mut registry);
        let mut sources: Vec<Box<dyn Source>> = vec![
            Box::new(election::Election::new(cluster.clone())),
            Box::new(cache::Cache::new(cluster.clone(), reigns.clone())),
            Box::new(node::NodeState::new(cluster.clone(), reigns.clone())),
            Box::new(storages::Storages::new(cluster, reigns)),
            Box::new(counters.lookups.clone()),
            Box::new(counters.connections.clone()),
            Box::new(counters.refusals.clone()),
            Box::new(counters.streams.clone()),
        ];
        if let Some(spans) = spans {
            sources.push(Box::new(spans));
        }
        let families = Arc::new(Families::new(sources));
        registry.register_collector(Box::new(families.clone()));
        Self {
            registry,
            families,
            calls: counters.calls.clone(),
            lookups: counters.lookups.clone(),
        }
    }

    /// Keys that were looked up.
    pub(crate) fn lookups(&self) -> &Lookups {
        &self.lookups
    }
}
