//! Answers to those who may not.

use axum::{body::Body, response::Response};
use http::{HeaderValue, StatusCode, header};
use tonic::Status;

/// Why a call is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// No credentials.
    Missing,
    /// The header cannot be read.
    Malformed,
    /// They are nobody's.
    Wrong,
    /// Their owner may not do this.
    Forbidden,
    /// Too many passwords are being verified.
    Busy,
    /// Only the leader knows the accounts, and this node does not lead.
    NotLeader,
}

impl Denied {
    const fn message(self) -> &'static str {
        match self {
            Self::Missing => {
                "credentials are needed: header authorization with Bearer <token>, or Basic with \
                 an account's name and password"
            }
            Self::Malformed => "header authorization: expected Bearer <token> or Basic <base64>",
            Self::Wrong => "the credentials are not right",
            Self::Forbidden => "the role of these credentials does not allow this",
            Self::Busy => "too many passwords are being verified, try again",
            Self::NotLeader => {
                "accounts are known to the leader only, and this node does not lead: ask the \
                 leader, or use a token of kvcm.service.admin_auth_token"
            }
        }
    }

    /// The answer over gRPC.
    pub(crate) fn grpc(self) -> Response {
        let message = self.message();
        let status = match self {
            Self::Missing | Self::Malformed | Self::Wrong => Status::unauthenticated(message),
            Self::Forbidden => Status::permission_denied(message),
            Self::Busy | Self::NotLeader => Status::unavailable(message),
        };
        status.into_http()
    }

    /// The answer over HTTP, as the predecessor has it.
    pub(crate) fn http(self) -> Response {
        let (status, error) = match self {
            Self::Missing | Self::Malformed | Self::Wrong => {
                (StatusCode::UNAUTHORIZED, "unauthorized")
            }
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
            Self::Busy | Self::NotLeader => (StatusCode::SERVICE_UNAVAILABLE, self.message()),
        };
        let body = serde_json::json!({ "error": error });
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let challenge = match self {
            Self::Missing => r#"Bearer realm="kvcm""#,
            Self::Malformed => r#"Bearer realm="kvcm", error="invalid_request""#,
            Self::Wrong => r#"Bearer realm="kvcm", error="invalid_token""#,
            Self::Forbidden => r#"Bearer realm="kvcm", error="insufficient_scope""#,
            Self::Busy | Self::NotLeader => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
                return response;
            }
        };
        let challenge = HeaderValue::from_static(challenge);
        headers.insert(header::WWW_AUTHENTICATE, challenge);
        response
    }
}
