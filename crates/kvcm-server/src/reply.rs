//! Result codes and headers, the same for both packages of the protocol.

use std::time::Duration;

use kvcm_clock::wall_clock_us;
use kvcm_fence::Epoch;
use kvcm_proto::{admin, debug, meta};

use crate::{
    cluster::{Cluster, Hint},
    http::Answer,
    node::Endpoint,
};

/// Result codes of the protocol; the numbers agree across its packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    /// It worked.
    Ok = 1,
    /// This server does not do that.
    Unsupported = 2,
    /// It failed.
    Internal = 3,
    /// The request is wrong.
    InvalidArgument = 5,
    /// It exists with another description.
    Duplicate = 6,
    /// A limit is reached.
    Capacity = 7,
    /// The instance is not registered.
    NoInstance = 8,
    /// This node does not lead: nothing was done.
    NotLeader = 9,
    /// It may or may not have been done.
    Io = 20,
}

impl Code {
    /// The code with this number on the wire, if a call here may answer with it.
    pub(crate) fn from_number(number: i32) -> Option<Self> {
        let all = [
            Self::Ok,
            Self::Unsupported,
            Self::Internal,
            Self::InvalidArgument,
            Self::Duplicate,
            Self::Capacity,
            Self::NoInstance,
            Self::NotLeader,
            Self::Io,
        ];
        all.into_iter().find(|code| *code as i32 == number)
    }
}

/// Why a call did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallError {
    /// The code.
    pub(crate) code: Code,
    /// For people.
    pub(crate) message: String,
}

impl CallError {
    /// An error with a text.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// Required fields are missing.
    pub(crate) fn missing(fields: &[&str]) -> Self {
        let message = format!("missing or invalid fields: {{{}}}", fields.join(", "));
        Self::new(Code::InvalidArgument, message)
    }

    /// The instance is not registered.
    pub(crate) fn no_instance(id: &str) -> Self {
        Self::new(
            Code::NoInstance,
            format!("instance `{id}` does not exist; register it first"),
        )
    }
}

impl From<kvcm_cache::Error> for CallError {
    fn from(error: kvcm_cache::Error) -> Self {
        use kvcm_cache::ErrorKind;
        let code = match error.kind() {
            ErrorKind::InvalidArgument => Code::InvalidArgument,
            ErrorKind::InstanceNotExist => Code::NoInstance,
            ErrorKind::Capacity => Code::Capacity,
            ErrorKind::Unsupported => Code::Unsupported,
            ErrorKind::Fenced | ErrorKind::Unknown => Code::Io,
            ErrorKind::SessionGone | ErrorKind::NotStored | ErrorKind::Internal => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

/// What the header of an answer says, before it is put into a package's own message.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    /// The code.
    pub(crate) code: Code,
    /// For people.
    pub(crate) message: String,
    /// `<trace id>_<µs>`.
    pub(crate) request_id: String,
    /// From a node that does not lead.
    pub(crate) hint: Option<Hint>,
    /// The epoch of the leader that answers.
    pub(crate) epoch: Option<Epoch>,
    /// Its cluster.
    pub(crate) cluster_id: Option<String>,
}

impl Header {
    /// The header of an answer that any node gives.
    pub(crate) fn ok(trace_id: &str) -> Self {
        Self {
            code: Code::Ok,
            message: String::new(),
            request_id: request_id(trace_id),
            hint: None,
            epoch: None,
            cluster_id: None,
        }
    }

    /// The header of a call that did not work.
    pub(crate) fn refused(trace_id: &str, error: CallError) -> Self {
        Self {
            code: error.code,
            message: error.message,
            ..Self::ok(trace_id)
        }
    }

    /// The header of a leader-only call on a node that does not lead.
    pub(crate) fn not_leader(trace_id: &str, cluster: &Cluster) -> Self {
        let hint = cluster.hint();
        let message = match (&hint.leader.endpoint, hint.leader.node_id.is_empty()) {
            (Some(_), _) => format!("Server is not leader, {} leads", hint.leader.node_id),
            (None, false) => {
                format!(
                    "Server is not leader, {} is {}",
                    hint.leader.node_id, hint.leader.phase
                )
            }
            (None, true) => format!(
                "Server is not leader, nobody is known to lead ({})",
                hint.reason
            ),
        };
        let error = CallError::new(Code::NotLeader, message);
        Self {
            hint: Some(hint),
            ..Self::refused(trace_id, error)
        }
    }

    /// Adds who answers.
    pub(crate) fn by_leader(self, epoch: Epoch, cluster: &Cluster) -> Self {
        let cluster_id = cluster.id().map(|id| id.to_string());
        Self {
            epoch: Some(epoch),
            cluster_id,
            ..self
        }
    }
}

fn request_id(trace_id: &str) -> String {
    format!("{trace_id}_{}", wall_clock_us())
}

/// Milliseconds as the protocol has them.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A response that carries a header.
pub(crate) trait Reply: Answer + Default + Send + 'static {
    /// Puts the header in.
    fn set_header(&mut self, header: Header);

    /// A response that is nothing but its header.
    fn only(header: Header) -> Self {
        let mut reply = Self::default();
        reply.set_header(header);
        reply
    }
}

macro_rules! package {
    ($package:ident, { $($extra:tt)* }, [$($reply:ident),* $(,)?]) => {
        impl From<Header> for $package::CommonResponseHeader {
            fn from(header: Header) -> Self {
                Self {
                    status: Some($package::Status {
                        code: header.code as i32,
                        message: header.message,
                    }),
                    request_id: header.request_id,
                    leader_hint: header.hint.map(|hint| $package::LeaderHint {
                        node_id: hint.leader.node_id,
                        endpoint: hint.leader.endpoint.map(Into::into),
                        epoch: hint.leader.epoch.get(),
                        retry_after_ms: millis(hint.retry_after),
                        reason: hint.reason.to_owned(),
                        phase: hint.leader.phase.to_owned(),
                        age_ms: millis(hint.leader.age),
                    }),
                    epoch: header.epoch.map(Epoch::get),
                    cluster_id: header.cluster_id,
                    $($extra)*
                }
            }
        }

        impl From<Endpoint> for $package::NodeEndpoint {
            fn from(endpoint: Endpoint) -> Self {
                Self {
                    node_id: endpoint.node_id,
                    host: endpoint.host,
                    meta_rpc_port: endpoint.meta_rpc_port.into(),
                    meta_http_port: endpoint.meta_http_port.into(),
                    admin_rpc_port: endpoint.admin_rpc_port.into(),
                    admin_http_port: endpoint.admin_http_port.into(),
                    custom_info: endpoint.custom_info,
                }
            }
        }

        $(
            impl Answer for $package::$reply {
                fn header(&self) -> (i32, &str) {
                    self.header.as_ref().map_or((0, ""), |header| {
                        let code = header.status.as_ref().map_or(0, |status| status.code);
                        (code, &header.request_id)
                    })
                }
            }

            impl Reply for $package::$reply {
                fn set_header(&mut self, header: Header) {
                    self.header = Some(header.into());
                }
            }
        )*
    };
}

package!(meta, { tracer_result: String::new(), }, [
    CommonResponse,
    RegisterInstanceResponse,
    GetInstanceInfoResponse,
    GetCacheLocationResponse,
    GetCacheLocationLenResponse,
    GetCacheMetaResponse,
    StartWriteCacheResponse,
    GetClusterInfoResponse,
]);

package!(
    admin,
    {},
    [
        CommonResponse,
        ListStorageResponse,
        GetInstanceGroupResponse,
        ListInstanceGroupResponse,
        GetCacheMetaResponse,
        GetInstanceInfoResponse,
        ListInstanceInfoResponse,
        ListAccountResponse,
        ConfigSnapShotResponse,
        GetMetricsResponse,
        CheckHealthResponse,
        GetManagerClusterInfoResponse,
        GetLeaderElectorConfigResponse,
    ]
);

impl Answer for debug::CommonResponse {
    fn header(&self) -> (i32, &str) {
        self.header.as_ref().map_or((0, ""), |header| {
            let code = header.status.as_ref().map_or(0, |status| status.code);
            (code, &header.request_id)
        })
    }
}

impl Reply for debug::CommonResponse {
    fn set_header(&mut self, header: Header) {
        self.header = Some(debug::CommonResponseHeader {
            status: Some(debug::Status {
                code: header.code as i32,
                message: header.message,
            }),
            request_id: header.request_id,
        });
    }
}
