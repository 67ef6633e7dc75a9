//! Who this node is.

use coordination_core::{NodeId, Owner};
use kvcm_fence::Incarnation;
use serde::{Deserialize, Serialize};

/// How to reach a node. Its JSON is the node record that the predecessor keeps as well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Endpoint {
    /// The node.
    pub(crate) node_id: String,
    /// Its advertised host.
    pub(crate) host: String,
    /// MetaService over gRPC.
    pub(crate) meta_rpc_port: u16,
    /// MetaService over HTTP.
    pub(crate) meta_http_port: u16,
    /// AdminService over gRPC.
    pub(crate) admin_rpc_port: u16,
    /// AdminService over HTTP.
    pub(crate) admin_http_port: u16,
    /// Free text from the node's configuration.
    pub(crate) custom_info: String,
}

/// Who this node is: its name, this life of its process, and how to reach it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Node id and incarnation.
    pub(crate) owner: Owner,
    /// How to reach it.
    pub(crate) endpoint: Endpoint,
    /// Nodes of a higher one are given the first chance to lead.
    pub(crate) priority: u8,
}

/// The version that this node reports.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Node {
    /// A new life of a node. Without a configured id the name is `{host}:{admin_http_port}_{16
    /// random letters and digits}`.
    pub(crate) fn new(configured: Option<NodeId>, mut endpoint: Endpoint) -> anyhow::Result<Self> {
        let node = match configured {
            Some(node) => node,
            None => {
                let suffix: String = (0..16).map(|_| fastrand::alphanumeric()).collect();
                let host = endpoint.host.trim_matches(['[', ']']);
                format!("{host}:{}_{suffix}", endpoint.admin_http_port).parse()?
            }
        };
        endpoint.node_id = node.to_string();
        Ok(Self {
            owner: Owner {
                node,
                incarnation: Incarnation::random(),
            },
            endpoint,
            priority: 0,
        })
    }
}

/// The host that others reach this node under: the configured one, else the first address of
/// this machine that is not loopback, else the loopback address.
///
/// Connecting a datagram socket sends nothing; it asks the kernel which address it would use.
pub(crate) fn advertised_host(configured: Option<&str>) -> String {
    if let Some(host) = configured {
        return host.to_owned();
    }
    let routed = || {
        let socket = std::net::UdpSocket::bind(("0.0.0.0", 0)).ok()?;
        // An address of the documentation range: never assigned, so nothing can be there.
        socket.connect(("192.0.2.1", 9)).ok()?;
        let address = socket.local_addr().ok()?.ip();
        (!address.is_loopback() && !address.is_unspecified()).then(|| address.to_string())
    };
    routed().unwrap_or_else(|| "127.0.0.1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_name_holds_host_and_port_and_differs_each_time() {
        let endpoint = Endpoint {
            host: "[::1]".to_owned(),
            admin_http_port: 6492,
            ..Endpoint::default()
        };
        let a = Node::new(None, endpoint.clone()).unwrap();
        let b = Node::new(None, endpoint).unwrap();
        assert!(
            a.owner.node.as_str().starts_with("::1:6492_"),
            "{}",
            a.owner
        );
        assert_ne!(a.owner.node, b.owner.node);
        assert_eq!(a.endpoint.node_id, a.owner.node.as_str());
    }
}
