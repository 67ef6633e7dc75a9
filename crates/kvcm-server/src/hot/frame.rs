//! The body of a gRPC answer that is there already.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::{Body, Frame as Piece};

/// Bytes before a message: not compressed, and its length.
pub(super) const PREFIX: usize = 5;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// One message with its prefix, then status OK. tonic's own body would copy the message once more.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    message: Option<Bytes>,
    is_told: bool,
}

impl Frame {
    /// From a message with [`PREFIX`] in front of it.
    pub(super) const fn new(message: Bytes) -> Self {
        Self {
            message: Some(message),
            is_told: false,
        }
    }

    #[cfg(test)]
    pub(super) fn message(&self) -> &[u8] {
        self.message.as_deref().unwrap_or_default()
    }
}

/// What stands before a message of so many bytes; none when no frame can hold it.
pub(super) fn prefix(length: usize) -> Option<[u8; PREFIX]> {
    let [a, b, c, d] = u32::try_from(length).ok()?.to_be_bytes();
    Some([0, a, b, c, d])
}

impl Body for Frame {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Piece<Bytes>, Infallible>>> {
        if let Some(message) = self.message.take() {
            return Poll::Ready(Some(Ok(Piece::data(message))));
        }
        if std::mem::replace(&mut self.is_told, true) {
            return Poll::Ready(None);
        }
        let trailers = HeaderMap::from_iter([(STATUS, OK)]);
        Poll::Ready(Some(Ok(Piece::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_told
    }
}
