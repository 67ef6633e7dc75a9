//! `GET /metrics`.

use std::sync::Arc;

use axum::{
    Router,
    response::{IntoResponse as _, Response},
    routing::get,
};
use http::{StatusCode, header::CONTENT_TYPE};
use prometheus_client::encoding::prometheus_text;

use super::Metrics;

impl Metrics {
    /// Everything, in Prometheus' text format.
    ///
    /// # Errors
    /// None that can happen while text is written to memory.
    pub(super) fn page(&self) -> Result<String, std::fmt::Error> {
        let mut page = String::with_capacity(32 << 10);
        prometheus_text::encode(&mut page, &self.registry)?;
        Ok(page)
    }

    /// `GET /metrics`.
    pub(crate) fn routes(self: Arc<Self>) -> Router {
        Router::new().route("/metrics", get(move || async move { self.response() }))
    }

    fn response(&self) -> Response {
        match self.page() {
            Ok(page) => ([(CONTENT_TYPE, prometheus_text::CONTENT_TYPE)], page).into_response(),
            Err(error) => {
                tracing::error!(%error, "metrics cannot be printed");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}
