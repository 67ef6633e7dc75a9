//! Health for load balancers and orchestrators, on the admin HTTP port.

use std::sync::Arc;

use axum::{
    Router,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{StatusCode, header::CONTENT_TYPE};
use kvcm_proto::{admin::CheckHealthRequest, json::to_json};

use crate::{cluster::Cluster, http::CallContext, service::Services};

/// - `/livez`: the process's loops turn; if not, only a restart helps.
/// - `/readyz`: it can answer discovery and could campaign; a follower is ready too, or an ordered
///   rollout would stall.
/// - `/leaderz`: it serves as leader.
/// - `/api/healthy`: it does what its role asks for.
pub(crate) fn routes(services: Arc<Services>) -> Router {
    let probe = |check: fn(&Cluster) -> Result<(), String>| {
        let services = services.clone();
        get(move || async move { answer(check(&services.cluster)) })
    };
    let live = |cluster: &Cluster| cluster.is_alive().then_some(()).ok_or_else(no);
    let leads = |cluster: &Cluster| cluster.leads().then_some(()).ok_or_else(no);
    let healthy = {
        let services = services.clone();
        get(move || async move { healthy(&services) })
    };
    Router::new()
        .route("/livez", probe(live))
        .route("/readyz", probe(Cluster::ready))
        .route("/leaderz", probe(leads))
        .route("/api/healthy", healthy)
}

fn no() -> String {
    "no".to_owned()
}

fn answer(check: Result<(), String>) -> (StatusCode, String) {
    match check {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// In the words of the protocol.
fn healthy(services: &Services) -> Response {
    let health = services.check_health(&CallContext::default(), CheckHealthRequest::default());
    let json = |status, body: bytes::Bytes| {
        (status, [(CONTENT_TYPE, "application/json")], body).into_response()
    };
    if health.is_health {
        return json(StatusCode::OK, r#"{"status":"OK"}"#.into());
    }
    match to_json(&health) {
        Ok(body) => json(StatusCode::SERVICE_UNAVAILABLE, body.into()),
        Err(error) => {
            tracing::error!(%error, "the state of health cannot be printed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
