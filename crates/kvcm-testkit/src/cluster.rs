//! Several nodes that share a coordination backend.

use std::{path::Path, time::Duration};

use anyhow::{Context, bail};

use crate::{NodeSpec, Ports, ServerProcess};

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterSpec {
    /// One for each node.
    pub nodes: Vec<NodeSpec>,
}

impl ClusterSpec {
    /// `count` nodes, `node-1` and on, with their files in `dir`, that elect a leader through
    /// `coordination` (a URI). Each looks for work of the elector ten times a lease.
    pub fn new(
        count: usize,
        dir: &Path,
        coordination: &str,
        lease: Duration,
    ) -> anyhow::Result<Self> {
        let nodes = (1..=count)
            .map(|number| NodeSpec::new(&format!("node-{number}"), dir))
            .collect::<anyhow::Result<_>>()?;
        let lease_ms = lease.as_millis();
        Ok(Self { nodes }
            .set("kvcm.coordination.uri", coordination)
            .set("kvcm.leader_elector.lease_ms", &lease_ms.to_string())
            .set(
                "kvcm.leader_elector.loop_interval_ms",
                &(lease_ms / 10).max(1).to_string(),
            ))
    }

    /// Sets a configuration key of every node.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        let nodes = self.nodes.into_iter();
        self.nodes = nodes.map(|node| node.set(key, value)).collect();
        self
    }
}

/// A running cluster. Dropping it kills all nodes.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    spec: NodeSpec,
    ports: Ports,
    process: ServerProcess,
}

impl Cluster {
    /// Starts all nodes, one after the other, and waits until each serves. Whether one leads is
    /// not waited for.
    pub async fn start(spec: ClusterSpec) -> anyhow::Result<Self> {
        let mut nodes = Vec::with_capacity(spec.nodes.len());
        for spec in spec.nodes {
            let process = ServerProcess::spawn(&spec).await?;
            let ports = *process.ports();
            nodes.push(Node {
                spec,
                ports,
                process,
            });
        }
        Ok(Self { nodes })
    }

    /// How many nodes there are, dead ones included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True for a cluster of no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The process of a node, counted from 0, alive or dead.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn node(&mut self, index: usize) -> &mut ServerProcess {
        &mut self.nodes[index].process
    }

    /// The node whose name, which is its node id, is `name`.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.spec.name() == name)
    }

    /// Where each node listens; the same after a restart.
    pub fn ports(&self) -> Vec<Ports> {
        self.nodes.iter().map(|node| node.ports).collect()
    }

    /// The gRPC addresses of all nodes, `127.0.0.1:port`: what a client is given.
    pub fn endpoints(&self) -> Vec<String> {
        self.nodes
            .iter()
            .map(|node| node.ports.rpc().to_string())
            .collect()
    }

    /// Starts a node that has ended, at its old address, and waits until it serves.
    pub async fn restart(&mut self, index: usize) -> anyhow::Result<()> {
        let node = self.nodes.get_mut(index).context("no such node")?;
        if node.process.is_running()? {
            bail!("node {} still runs", node.spec.name());
        }
        let spec = node.spec.clone().on_ports(&node.ports);
        node.process = ServerProcess::spawn(&spec).await?;
        Ok(())
    }
}
