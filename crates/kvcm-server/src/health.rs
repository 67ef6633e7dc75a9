//! Health for load balancers and orchestrators, on the admin HTTP port.

use std::sync::Arc;

use axum::{Router, routing::get};
use http::StatusCode;
use kvcm_proto::admin::CheckHealthRequest;

use crate::{http::CallContext, service::Services};

/// `/livez`: the process's loops turn. `/readyz`: it can answer discovery and could campaign; a
/// follower is ready too, or an ordered rollout would stall. `/leaderz`: it serves as leader.
pub(crate) fn routes(services: Arc<Services>) -> Router {
    let probe = move |check: fn(bool, bool) -> bool| {
        let services = services.clone();
        get(move || async move {
            let request = CheckHealthRequest::default();
            let health = services.check_health(&CallContext::default(), request);
            if check(health.is_health, health.is_leader) {
                (StatusCode::OK, "ok\n")
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, "no\n")
            }
        })
    };
    Router::new()
        .route("/livez", probe(|healthy, _| healthy))
        .route("/readyz", probe(|healthy, _| healthy))
        .route("/leaderz", probe(|_, leads| leads))
}
