//! The nodes of a cluster, and its leaders so far.

use std::time::Duration;

use kvcm_proto::admin::{GetManagerClusterInfoResponse, NodeEndpoint};

use crate::{address::Address, node::Node};

/// What a node knows about all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Members {
    /// The id of the node that answered.
    pub answered_by: String,
    /// Its role.
    pub role: String,
    /// The leader's id; empty when none is known.
    pub leader_node_id: String,
    /// The leader's epoch; `None` from a server without epochs.
    pub leader_epoch: Option<u64>,
    /// All live nodes; empty from a server that does not tell.
    pub nodes: Vec<Member>,
    /// Recent changes of leader, the latest last.
    pub history: Vec<LeaderChange>,
}

/// A node as it last described itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Where it listens; `None` when that cannot be called.
    pub node: Option<Node>,
    /// Its id.
    pub node_id: String,
    /// `leader`, `follower`, …
    pub role: String,
    /// Whether it could take over.
    pub ready: bool,
    /// Its version.
    pub version: String,
    /// When it last described itself.
    pub heartbeat_age: Duration,
}

/// A change of leader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaderChange {
    /// The new epoch.
    pub epoch: u64,
    /// Who leads from then on.
    pub node_id: String,
    /// How the reign before it ended, as one word.
    pub reason: String,
    /// Wall clock of the server, milliseconds since 1970.
    pub at_ms: i64,
}

impl Members {
    pub(crate) fn from_wire(wire: GetManagerClusterInfoResponse) -> Self {
        let nodes = wire.nodes.into_iter().map(|node| Member {
            node: node.endpoint.as_ref().and_then(endpoint),
            node_id: node.node_id,
            role: node.role,
            ready: node.ready,
            version: node.version,
            heartbeat_age: Duration::from_millis(
                u64::try_from(node.last_heartbeat_age_ms).unwrap_or(0),
            ),
        });
        let history = wire.history.into_iter().map(|change| LeaderChange {
            epoch: change.epoch,
            node_id: change.node_id,
            reason: change.reason,
            at_ms: change.at_ms,
        });
        Self {
            answered_by: wire.self_node_id,
            role: wire.self_role.unwrap_or_default(),
            leader_node_id: wire.leader_node_id,
            leader_epoch: wire.leader_epoch,
            nodes: nodes.collect(),
            history: history.collect(),
        }
    }
}

fn endpoint(wire: &NodeEndpoint) -> Option<Node> {
    let address = Address::advertised(&wire.host, wire.meta_rpc_port)?;
    let admin = Address::advertised(&wire.host, wire.admin_rpc_port);
    Some(Node {
        id: wire.node_id.clone(),
        endpoint: address.as_str().to_owned(),
        admin_endpoint: admin.as_ref().unwrap_or(&address).as_str().to_owned(),
    })
}
