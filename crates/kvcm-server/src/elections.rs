//! `GET /debug/elections`: the last changes of leadership, and why.

use std::sync::Arc;

use axum::{
    Router,
    response::{IntoResponse as _, Response},
    routing::get,
};
use elector::Record;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};

use crate::cluster::Cluster;

/// The page, on the admin HTTP port.
pub(crate) fn routes(cluster: Arc<Cluster>) -> Router {
    let page = move || async move {
        let page = page(&cluster).to_string();
        let answer: Response = ([(CONTENT_TYPE, "application/json")], page).into_response();
        answer
    };
    Router::new().route("/debug/elections", get(page))
}

fn page(cluster: &Cluster) -> Value {
    let view = cluster.elector().view().clone();
    let owner = &cluster.node().owner;
    let leader = cluster.leader();
    let history = cluster.elector().history();
    json!({
        "node_id": owner.node.to_string(),
        "incarnation": owner.incarnation.to_string(),
        "role": cluster.role().as_str(),
        "epoch": view.epoch.map(|epoch| epoch.get()),
        "highest_epoch": view.highest.get(),
        "leader_node_id": leader.node_id,
        "leader_phase": leader.phase,
        "backend_error": view.backend_error,
        // The latest first: that is what one looks for.
        "history": history.iter().rev().map(entry).collect::<Vec<_>>(),
    })
}

fn entry(Record { wall_ms, change }: &Record) -> Value {
    let us = |part: std::time::Duration| u64::try_from(part.as_micros()).unwrap_or(u64::MAX);
    let parts = change.took.parts();
    let took: Map<String, Value> = parts
        .filter_map(|(name, part)| Some((name.to_owned(), us(part?).into())))
        .collect();
    json!({
        "at_ms": wall_ms,
        "node_id": change.owner.node.to_string(),
        "incarnation": change.owner.incarnation.to_string(),
        "epoch": change.epoch.get(),
        "result": change.turn.result(),
        "reason": change.turn.reason(),
        "evidence": change.evidence,
        "took_us": took,
    })
}
