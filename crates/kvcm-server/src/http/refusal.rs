//! Answers to requests that reach no service.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use kvcm_proto::{
    json::to_json,
    meta::{CommonResponse, CommonResponseHeader, ErrorCode, Status},
};

use super::HeaderError;

/// What the protocol has for an answer that cannot be printed.
pub(super) const UNPRINTABLE: &str = "{}";

/// The answer to a request that reaches no service.
///
/// The body is `{"header":{"status":{"code":…,"message":…},…}}` like every answer of the
/// protocol, so that clients which look for a status find one; the predecessor sends `{}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// The code in the body.
    pub code: ErrorCode,
    /// What was wrong and what to do.
    pub message: String,
}

impl Refusal {
    /// A request that cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorCode::InvalidArgument, message)
    }

    /// Any other refusal.
    pub fn new(status: StatusCode, code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }
}

impl From<HeaderError> for Refusal {
    fn from(error: HeaderError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let answer = CommonResponse {
            header: Some(CommonResponseHeader {
                status: Some(Status {
                    code: self.code.into(),
                    message: self.message,
                }),
                ..CommonResponseHeader::default()
            }),
        };
        let body = to_json(&answer).unwrap_or_else(|_| UNPRINTABLE.into());
        json_response(self.status, body)
    }
}

/// A response with a JSON body.
pub(super) fn json_response(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
