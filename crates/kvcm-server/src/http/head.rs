//! When the head of a request must be there, for every request of an HTTP/1.1 connection.
//!
//! Hyper's own limit counts from the end of the answer before, and so has to be as long as a
//! connection may idle. This one counts from the first byte of a head. A head whose beginning came
//! together with the request before it has hyper's limit only.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Buf;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first byte of a head.
    Idle,
    /// The rest of a head, until then.
    Head(Instant),
    /// The answer.
    Busy,
}

/// The phase of one connection.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    phase: Arc<Mutex<Phase>>,
    limit: Duration,
}

impl Heads {
    /// The first head has to be there by `first`, each later one `limit` after it has begun.
    pub(super) fn new(first: Instant, limit: Duration) -> Self {
        Self {
            phase: Arc::new(Mutex::new(Phase::Head(first))),
            limit,
        }
    }

    /// Some bytes have come.
    pub(super) fn bytes_came(&self) {
        let mut phase = self.phase.lock();
        if *phase == Phase::Idle {
            *phase = Phase::Head(Instant::now() + self.limit);
        }
    }

    /// A head is there.
    pub(super) fn complete(&self) {
        *self.phase.lock() = Phase::Busy;
    }

    /// The wait for the next head begins with the end of this body of an answer.
    pub(super) const fn idle_after<B>(self, body: B) -> AnswerBody<B> {
        AnswerBody { body, heads: self }
    }

    /// Ready when a head has begun and is not there in time. To be polled after the connection.
    pub(super) fn poll_late(&self, mut timer: Pin<&mut Sleep>, cx: &mut Context<'_>) -> Poll<()> {
        let Phase::Head(by) = *self.phase.lock() else {
            return Poll::Pending;
        };
        if timer.deadline() != by {
            timer.as_mut().reset(by);
        }
        timer.poll(cx)
    }
}

/// The body of an answer.
#[derive(Debug)]
pub(super) struct AnswerBody<B> {
    body: B,
    heads: Heads,
}

impl<B> Drop for AnswerBody<B> {
    fn drop(&mut self) {
        *self.heads.phase.lock() = Phase::Idle;
    }
}

impl<B: Body<Data: Buf> + Unpin> Body for AnswerBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
