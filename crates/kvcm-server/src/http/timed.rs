//! A gRPC request that has to arrive in time.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

/// A body that fails when it is not complete after a time. Most bodies are there at once and never
/// need the timer.
#[derive(Debug)]
pub(super) struct Timed {
    inner: Incoming,
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    /// Gives `inner` as long as `limit` from the first wait on.
    pub(super) const fn new(inner: Incoming, limit: Duration) -> Self {
        Self {
            inner,
            limit,
            timer: None,
        }
    }
}

impl Body for Timed {
    type Data = Bytes;
    /// A status goes to the client as it is.
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            let frame = frame.map(|frame| frame.map_err(|e| Status::from_error(e.into())));
            return Poll::Ready(frame);
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        timer.as_mut().poll(cx).map(|()| Some(Err(late(limit))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn late(limit: Duration) -> Status {
    Status::deadline_exceeded(format!(
        "the request did not arrive within {} ms, the limit that kvcm.service.read_timeout_ms sets",
        limit.as_millis()
    ))
}
