//! What is called.

use bytes::Bytes;
use kvcm_proto::{admin, meta};
use kvcm_testkit::Ports;
use prost::Message;
use serde_json::{Value, json};

use crate::api::nodes::GROUP;

/// A call, and whom it is made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Of the data plane, on a follower: refused with a hint.
    NotLeader,
    /// Who leads, asked of a follower.
    ClusterInfo,
    /// Of an instance that is registered already, on the leader.
    Register,
    /// An operator's read, on the leader.
    ListStorage,
}

/// How a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Grpc,
    Http,
}

impl Transport {
    pub(super) const ALL: [Self; 2] = [Self::Grpc, Self::Http];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Grpc => "gRPC",
            Self::Http => "HTTP",
        }
    }
}

impl Call {
    pub(super) const ALL: [Self; 4] = [
        Self::NotLeader,
        Self::ClusterInfo,
        Self::Register,
        Self::ListStorage,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NotLeader => "NotLeader, follower",
            Self::ClusterInfo => "GetClusterInfo, follower",
            Self::Register => "RegisterInstance again, leader",
            Self::ListStorage => "ListStorage, leader",
        }
    }

    pub(super) fn is_of_leader(self) -> bool {
        matches!(self, Self::Register | Self::ListStorage)
    }

    pub(super) fn is_of_admin(self) -> bool {
        self == Self::ListStorage
    }

    /// The status that every answer must carry.
    pub(super) fn code(self) -> meta::ErrorCode {
        match self {
            Self::NotLeader => meta::ErrorCode::ServerNotLeader,
            _ => meta::ErrorCode::Ok,
        }
    }

    pub(super) fn path(self, transport: Transport) -> &'static str {
        match (self, transport) {
            (Self::NotLeader, Transport::Grpc) => {
                "/kv_cache_manager.proto.meta.MetaService/GetCacheLocation"
            }
            (Self::NotLeader, Transport::Http) => "/api/getCacheLocation",
            (Self::ClusterInfo, Transport::Grpc) => {
                "/kv_cache_manager.proto.meta.MetaService/GetClusterInfo"
            }
            (Self::ClusterInfo, Transport::Http) => "/api/getClusterInfo",
            (Self::Register, Transport::Grpc) => {
                "/kv_cache_manager.proto.meta.MetaService/RegisterInstance"
            }
            (Self::Register, Transport::Http) => "/api/registerInstance",
            (Self::ListStorage, Transport::Grpc) => {
                "/kv_cache_manager.proto.admin.AdminService/ListStorage"
            }
            (Self::ListStorage, Transport::Http) => "/api/listStorage",
        }
    }

    pub(super) fn port(self, transport: Transport, ports: &Ports) -> std::net::SocketAddr {
        match (self, transport) {
            (Self::ListStorage, Transport::Grpc) => ports.admin_rpc(),
            (Self::ListStorage, Transport::Http) => ports.admin_http(),
            (_, Transport::Grpc) => ports.rpc(),
            (_, Transport::Http) => ports.http(),
        }
    }

    /// The body of the request: a message without its frame, or JSON.
    pub(super) fn request(self, transport: Transport) -> Bytes {
        match transport {
            Transport::Grpc => self.message().into(),
            Transport::Http => self.json().to_string().into(),
        }
    }

    fn message(self) -> Vec<u8> {
        let trace_id = "bench".to_owned();
        let instance_id = "bench".to_owned();
        match self {
            Self::NotLeader => meta::GetCacheLocationRequest {
                trace_id,
                instance_id,
                query_type: meta::QueryType::QtPrefixMatch.into(),
                block_keys: vec![1, 2, 3, 4],
                ..Default::default()
            }
            .encode_to_vec(),
            Self::ClusterInfo => meta::GetClusterInfoRequest {
                trace_id,
                ..Default::default()
            }
            .encode_to_vec(),
            Self::Register => meta::RegisterInstanceRequest {
                trace_id,
                instance_group: GROUP.to_owned(),
                instance_id,
                block_size: 16,
                location_spec_infos: vec![meta::LocationSpecInfo {
                    name: "tp0".to_owned(),
                    size: 1024,
                }],
                model_deployment: Some(meta::ModelDeployment {
                    model_name: "model".to_owned(),
                    dtype: "fp8".to_owned(),
                    tp_size: 1,
                    dp_size: 1,
                    pp_size: 1,
                    ..Default::default()
                }),
                ..Default::default()
            }
            .encode_to_vec(),
            Self::ListStorage => admin::ListStorageRequest { trace_id }.encode_to_vec(),
        }
    }

    fn json(self) -> Value {
        match self {
            Self::NotLeader => json!({
                "trace_id": "bench",
                "instance_id": "bench",
                "query_type": "QT_PREFIX_MATCH",
                "block_keys": [1, 2, 3, 4],
            }),
            Self::ClusterInfo | Self::ListStorage => json!({ "trace_id": "bench" }),
            Self::Register => json!({
                "trace_id": "bench",
                "instance_group": GROUP,
                "instance_id": "bench",
                "block_size": 16,
                "location_spec_infos": [{ "name": "tp0", "size": 1024 }],
                "model_deployment": {
                    "model_name": "model",
                    "dtype": "fp8",
                    "tp_size": 1,
                    "dp_size": 1,
                    "pp_size": 1,
                },
            }),
        }
    }
}
