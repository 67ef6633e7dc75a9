//! A node of the cluster, as the client knows it.

use kvcm_proto::meta::NodeEndpoint;

use crate::address::Address;

/// A node and where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The node's id; empty while only its address is known.
    pub id: String,
    /// `host:port` of the meta service (gRPC).
    pub endpoint: String,
    /// `host:port` of the admin service (gRPC); equals `endpoint` where the port is shared.
    pub admin_endpoint: String,
}

impl Node {
    /// A node of which only the address is known.
    pub(crate) fn at(address: &Address) -> Self {
        Self {
            id: String::new(),
            endpoint: address.as_str().to_owned(),
            admin_endpoint: address.as_str().to_owned(),
        }
    }

    /// What the wire says, with its address; none when it cannot be reached by that.
    pub(crate) fn from_wire(endpoint: &NodeEndpoint) -> Option<(Self, Address)> {
        let address = Address::advertised(&endpoint.host, endpoint.meta_rpc_port)?;
        let admin = Address::advertised(&endpoint.host, endpoint.admin_rpc_port);
        let node = Self {
            id: endpoint.node_id.clone(),
            endpoint: address.as_str().to_owned(),
            admin_endpoint: admin.as_ref().unwrap_or(&address).as_str().to_owned(),
        };
        Some((node, address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_admin_port_means_the_shared_one() {
        let mut wire = NodeEndpoint {
            node_id: "a".to_owned(),
            host: "h".to_owned(),
            meta_rpc_port: 1,
            ..NodeEndpoint::default()
        };
        let (node, address) = Node::from_wire(&wire).unwrap();
        assert_eq!(
            (address.as_str(), node.admin_endpoint.as_str()),
            ("h:1", "h:1")
        );
        wire.admin_rpc_port = 2;
        assert_eq!(Node::from_wire(&wire).unwrap().0.admin_endpoint, "h:2");
        wire.meta_rpc_port = 0;
        assert!(Node::from_wire(&wire).is_none());
    }
}
