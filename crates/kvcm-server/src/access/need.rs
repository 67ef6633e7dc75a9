//! What a call needs.

use http::Method;
use kvcm_proto::meta::meta_service_server;

/// Open to everybody: orchestrators and load balancers have no credentials.
const PROBES: [&str; 4] = ["/livez", "/readyz", "/leaderz", "/api/healthy"];
const OPEN_SERVICES: [&str; 2] = ["/grpc.health.v1.", "/grpc.reflection."];

/// What a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// gRPC, of any service.
    Grpc,
    /// MetaService over HTTP.
    MetaHttp,
    /// AdminService over HTTP, with metrics and probes.
    AdminHttp,
    /// DebugService over HTTP.
    DebugHttp,
}

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// What every user may do with the data.
    Data,
    /// Any credentials: looking at metrics.
    Look,
    /// The role of an administrator.
    Admin,
}

impl Scope {
    /// What a call needs; an unknown one needs the most.
    pub(crate) fn need(self, method: &Method, path: &str) -> Need {
        match self {
            Self::MetaHttp => Need::Data,
            Self::AdminHttp if PROBES.contains(&path) => Need::Nothing,
            Self::AdminHttp if method == Method::GET => Need::Look,
            Self::AdminHttp | Self::DebugHttp => Need::Admin,
            Self::Grpc => {
                let service = path
                    .strip_prefix('/')
                    .and_then(|path| path.split('/').next());
                if service == Some(meta_service_server::SERVICE_NAME) {
                    Need::Data
                } else if OPEN_SERVICES.iter().any(|open| path.starts_with(open)) {
                    Need::Nothing
                } else {
                    Need::Admin
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_be_open_needs_an_administrator() {
        for (scope, method, path, need) in [
            (
                Scope::Grpc,
                Method::POST,
                "/kv_cache_manager.proto.meta.MetaService/X",
                Need::Data,
            ),
            (
                Scope::Grpc,
                Method::POST,
                "/kv_cache_manager.proto.admin.AdminService/X",
                Need::Admin,
            ),
            (
                Scope::Grpc,
                Method::POST,
                "/kv_cache_manager.proto.debug.DebugService/X",
                Need::Admin,
            ),
            (
                Scope::Grpc,
                Method::POST,
                "/kv_cache_manager.proto.meta.MetaServiceX/X",
                Need::Admin,
            ),
            (
                Scope::Grpc,
                Method::POST,
                "/grpc.health.v1.Health/Check",
                Need::Nothing,
            ),
            (Scope::Grpc, Method::POST, "", Need::Admin),
            (
                Scope::MetaHttp,
                Method::POST,
                "/api/getCacheLocation",
                Need::Data,
            ),
            (Scope::AdminHttp, Method::GET, "/livez", Need::Nothing),
            (
                Scope::AdminHttp,
                Method::GET,
                "/livez/../metrics",
                Need::Look,
            ),
            (Scope::AdminHttp, Method::GET, "/metrics", Need::Look),
            (
                Scope::AdminHttp,
                Method::POST,
                "/api/addAccount",
                Need::Admin,
            ),
            (Scope::AdminHttp, Method::POST, "/metrics", Need::Admin),
            (
                Scope::DebugHttp,
                Method::POST,
                "/api/injectFault",
                Need::Admin,
            ),
        ] {
            assert_eq!(scope.need(&method, path), need, "{scope:?} {method} {path}");
        }
    }
}
