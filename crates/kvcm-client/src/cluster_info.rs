//! What one node says about the cluster.

use std::time::Duration;

use futures_util::{StreamExt, stream::BoxStream};
use kvcm_proto::meta::{GetClusterInfoRequest, GetClusterInfoResponse, WatchClusterInfoRequest};
use prost::Message;

use crate::{
    address::Address,
    node::Node,
    rpc::{Failed, open},
};

/// The answer of one node to "who leads?".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterInfo {
    /// `host:port` of the node that answered.
    pub answered_by: String,
    /// Its id.
    pub self_node_id: String,
    /// `leader`, `follower` or a state between; empty from a server that does not tell.
    pub self_role: String,
    /// The cluster; empty when the node does not tell.
    pub cluster_id: String,
    /// The leader's id; empty when the node knows none.
    pub leader_node_id: String,
    /// The leader; `None` when the node knows none, or not where it listens.
    pub leader: Option<Node>,
    /// The leader's epoch; `None` from a server without epochs.
    pub leader_epoch: Option<u64>,
    /// How old the knowledge is.
    pub info_age: Duration,
    /// All nodes that live, as far as they can be called; empty from a server that does not tell.
    pub nodes: Vec<Node>,
}

/// Nodes of a cluster that are remembered.
const NODES_MAX: usize = 64;

pub(crate) const NAME: &str = "GetClusterInfo";
pub(crate) const PATH: &str = "/kv_cache_manager.proto.meta.MetaService/GetClusterInfo";

/// The same as a stream.
pub(crate) const WATCH_PATH: &str = "/kv_cache_manager.proto.meta.MetaService/WatchClusterInfo";

/// The request of the stream, encoded.
pub(crate) fn watch_request() -> bytes::Bytes {
    WatchClusterInfoRequest::default().encode_to_vec().into()
}

/// Reads all answers of the node at `from`. A refusal ends them.
pub(crate) fn read_all(
    from: Address,
    bodies: BoxStream<'static, Result<bytes::Bytes, Failed>>,
) -> BoxStream<'static, Result<ClusterInfo, Failed>> {
    let read =
        move |body: Result<bytes::Bytes, Failed>| ClusterInfo::read(&from, &open(body?)?.body);
    bodies.map(read).boxed()
}

/// The request, encoded.
pub(crate) fn request() -> bytes::Bytes {
    GetClusterInfoRequest::default().encode_to_vec().into()
}

impl ClusterInfo {
    /// Reads an answer of the node at `from`.
    pub(crate) fn read(from: &Address, body: &[u8]) -> Result<Self, Failed> {
        let wire = GetClusterInfoResponse::decode(body)
            .map_err(|error| Failed::garbled(&error.to_string()))?;
        let mut leader = wire.leader_endpoint.as_ref().and_then(Node::from_wire);
        let is_self = !wire.self_node_id.is_empty() && wire.self_node_id == wire.leader_node_id;
        if leader.is_none() && is_self {
            leader = Some((Node::at(from), from.clone()));
        }
        let leader = leader.map(|(mut node, _)| {
            if node.id.is_empty() {
                node.id.clone_from(&wire.leader_node_id);
            }
            node
        });
        let nodes = wire.nodes.iter().filter_map(Node::from_wire);
        let nodes = nodes.map(|(node, _)| node).take(NODES_MAX).collect();
        let cluster_id = wire.header.and_then(|header| header.cluster_id);
        Ok(Self {
            answered_by: from.as_str().to_owned(),
            self_node_id: wire.self_node_id,
            self_role: wire.self_role.unwrap_or_default(),
            cluster_id: cluster_id.unwrap_or_default(),
            leader_node_id: wire.leader_node_id,
            leader,
            leader_epoch: wire.leader_epoch,
            info_age: Duration::from_millis(wire.info_age_ms.unwrap_or(0).try_into().unwrap_or(0)),
            nodes,
        })
    }

    /// Whether the node that answered says that it leads itself.
    pub(crate) fn is_own_claim(&self) -> bool {
        !self.self_node_id.is_empty() && self.self_node_id == self.leader_node_id
    }

    /// The leader and its address, when it can be called.
    pub(crate) fn leader_address(&self) -> Option<(Node, Address)> {
        let node = self.leader.clone()?;
        let address = Address::parse(&node.endpoint).ok()?;
        Some((node, address))
    }

    /// The cluster id, when the node told one.
    pub(crate) fn cluster(&self) -> Option<&str> {
        Some(self.cluster_id.as_str()).filter(|id| !id.is_empty())
    }
}
