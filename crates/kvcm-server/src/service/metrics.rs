//! AdminService: numbers of this node.

use kvcm_clock::wall_clock_ms;
use kvcm_proto::admin;

use super::Services;
use crate::{http::CallContext, reply::Header};

impl Services {
    /// The numbers of this node.
    pub(crate) fn get_metrics(
        &self,
        _context: &CallContext,
        request: admin::GetMetricsRequest,
    ) -> admin::GetMetricsResponse {
        admin::GetMetricsResponse {
            header: Some(Header::ok(&request.trace_id).into()),
            timestamp: i64::try_from(wall_clock_ms()).unwrap_or(i64::MAX),
            metrics: self.metrics.protocol(),
            extra_data: String::new(),
        }
    }
}
