//! What a call carries beside its message.

use std::net::SocketAddr;

use http::{Extensions, HeaderMap};
use kvcm_fence::Epoch;
use thiserror::Error;

use crate::{access::Unverified, reply::CallError};

const REQUEST_ID: &str = "x-kvcm-request-id";
const MIN_EPOCH: &str = "x-kvcm-min-epoch";

/// Longest request id, in bytes: it is kept for minutes with the answer.
const REQUEST_ID_MAX: usize = 128;

/// The peer of a connection; [`serve`](super::serve) puts it into each request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote(pub SocketAddr);

/// What a call carries beside its message, the same over gRPC (as metadata) and HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallContext {
    /// Where the call comes from.
    pub remote: Option<SocketAddr>,
    /// `x-kvcm-request-id`: makes a repeat of a changing call get the same answer.
    pub request_id: Option<String>,
    /// `x-kvcm-min-epoch`: the lowest epoch whose answer the client accepts; zero when not given.
    pub min_epoch: Epoch,
    /// Nobody could tell whether the caller's password is right: it gets what a node answers that
    /// does not lead.
    pub unverified: bool,
    /// What DebugService has injected into this call.
    pub(crate) fault: Option<CallError>,
}

/// A header that cannot be right.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("header {name}: expected {expected}")]
pub struct HeaderError {
    /// The header.
    pub name: &'static str,
    /// What can be written.
    pub expected: &'static str,
}

impl CallContext {
    /// Reads the context of a request.
    ///
    /// # Errors
    /// When a header of ours is malformed.
    pub fn read(headers: &HeaderMap, extensions: &Extensions) -> Result<Self, HeaderError> {
        Ok(Self {
            remote: extensions.get::<Remote>().map(|remote| remote.0),
            request_id: request_id(headers)?,
            min_epoch: min_epoch(headers)?,
            unverified: extensions.get::<Unverified>().is_some(),
            fault: None,
        })
    }
}

fn request_id(headers: &HeaderMap) -> Result<Option<String>, HeaderError> {
    let Some(value) = headers.get(REQUEST_ID) else {
        return Ok(None);
    };
    let is_fine = |text: &&str| !text.is_empty() && text.len() <= REQUEST_ID_MAX;
    match value.to_str().ok().filter(is_fine) {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(HeaderError {
            name: REQUEST_ID,
            expected: "1 to 128 visible ASCII characters",
        }),
    }
}

fn min_epoch(headers: &HeaderMap) -> Result<Epoch, HeaderError> {
    let Some(value) = headers.get(MIN_EPOCH) else {
        return Ok(Epoch::ZERO);
    };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number
        .and_then(|number| Epoch::new(number).ok())
        .ok_or(HeaderError {
            name: MIN_EPOCH,
            expected: "a number below 2^53",
        })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(name: &'static str, value: &[u8]) -> Result<CallContext, HeaderError> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_bytes(value).unwrap());
        CallContext::read(&headers, &Extensions::new())
    }

    #[test]
    fn nothing_is_needed() {
        let context = CallContext::read(&HeaderMap::new(), &Extensions::new());
        assert_eq!(context, Ok(CallContext::default()));
    }

    #[test]
    fn our_headers_are_read_or_refused() {
        let id = read(REQUEST_ID, b"client-1:7").unwrap().request_id;
        assert_eq!(id.as_deref(), Some("client-1:7"));
        assert_eq!(
            read(MIN_EPOCH, b"7").unwrap().min_epoch,
            Epoch::new(7).unwrap()
        );
        for (name, value) in [
            (REQUEST_ID, &b""[..]),
            (REQUEST_ID, &[b'x'; 129]),
            (REQUEST_ID, b"\xe4"),
            (MIN_EPOCH, b"-1"),
            (MIN_EPOCH, b"9007199254740992"),
            (MIN_EPOCH, b""),
        ] {
            let error = read(name, value).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
