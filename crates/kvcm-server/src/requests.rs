//! Answers to changing calls, kept so that a repeat gets the same one.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use kvcm_clock::{Clock, Moment};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::watch;

/// How long an answer is kept.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// Bytes of all answers together; the oldest go first.
const KEPT_BYTES: usize = 64 << 20;

/// What one entry costs beside its answer.
const ENTRY_BYTES: usize = 256;

/// The answers of one reign. A repeat of a request id gets the answer of the first call, one that
/// comes while the first is still served waits for it, and the same id with another body is a
/// mistake of the caller.
#[derive(Debug)]
pub(crate) struct Requests {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<String, Entry>,
    /// Finished entries, the oldest first.
    order: VecDeque<(Moment, String)>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    body: u64,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Pending(watch::Receiver<()>),
    Done(Bytes),
}

/// What to do with a call that has a request id.
#[derive(Debug)]
pub(crate) enum Begun<'a> {
    /// It is new: serve it, then [`Ticket::done`].
    New(Ticket<'a>),
    /// It was answered before.
    Answered(Bytes),
    /// The id was used for another call.
    OtherBody,
}

/// The right and duty to answer a request id. Dropped without an answer, the id is free again:
/// only definite outcomes are kept.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    requests: &'a Requests,
    id: Option<String>,
    body: u64,
    /// Closing it wakes the repeats that wait.
    _pending: watch::Sender<()>,
}

/// Tells two bodies of one rpc apart.
pub(crate) fn fingerprint(rpc: &str, request: &impl Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    rpc.hash(&mut hasher);
    hasher.write(&request.encode_to_vec());
    hasher.finish()
}

impl Requests {
    /// Nothing is known yet.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
        }
    }

    /// Looks `id` up; waits while the first call with it is being served.
    pub(crate) async fn begin(&self, id: &str, body: u64) -> Begun<'_> {
        loop {
            let mut pending = {
                let mut state = self.state.lock();
                match state.entries.get(id) {
                    None => {
                        let (sender, pending) = watch::channel(());
                        let answer = Answer::Pending(pending);
                        state.entries.insert(id.to_owned(), Entry { body, answer });
                        let id = Some(id.to_owned());
                        return Begun::New(Ticket {
                            requests: self,
                            id,
                            body,
                            _pending: sender,
                        });
                    }
                    Some(entry) if entry.body != body => return Begun::OtherBody,
                    Some(Entry {
                        answer: Answer::Done(answer),
                        ..
                    }) => {
                        return Begun::Answered(answer.clone());
                    }
                    Some(Entry {
                        answer: Answer::Pending(pending),
                        ..
                    }) => pending.clone(),
                }
            };
            // Ends when the ticket of the first call is gone.
            while pending.changed().await.is_ok() {}
        }
    }
}

impl Ticket<'_> {
    /// Keeps the answer.
    pub(crate) fn done(mut self, answer: &impl Message) {
        let Some(id) = self.id.take() else { return };
        let answer = Bytes::from(answer.encode_to_vec());
        let now = self.requests.clock.now();
        let mut state = self.requests.state.lock();
        state.bytes += answer.len() + ENTRY_BYTES;
        state.order.push_back((now, id.clone()));
        state.entries.insert(
            id,
            Entry {
                body: self.body,
                answer: Answer::Done(answer),
            },
        );
        state.forget_old(now);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.requests.state.lock().entries.remove(id);
        }
    }
}

impl State {
    fn forget_old(&mut self, now: Moment) {
        while let Some((at, _)) = self.order.front() {
            if now.since(*at) < KEPT_FOR && self.bytes <= KEPT_BYTES {
                return;
            }
            let Some((_, id)) = self.order.pop_front() else {
                return;
            };
            if let Some(Entry {
                answer: Answer::Done(answer),
                ..
            }) = self.entries.remove(&id)
            {
                self.bytes = self.bytes.saturating_sub(answer.len() + ENTRY_BYTES);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, poll};
    use kvcm_clock::ManualClock;
    use kvcm_proto::meta::Status;

    use super::*;

    fn status(message: &str) -> Status {
        Status {
            code: 1,
            message: message.to_owned(),
        }
    }

    fn requests() -> (ManualClock, Requests) {
        let clock = ManualClock::default();
        (clock.clone(), Requests::new(Arc::new(clock)))
    }

    #[tokio::test]
    async fn a_repeat_gets_the_first_answer_and_another_body_is_refused() {
        let (_, requests) = requests();
        let Begun::New(ticket) = requests.begin("a", 1).await else {
            panic!()
        };
        ticket.done(&status("first"));
        let Begun::Answered(bytes) = requests.begin("a", 1).await else {
            panic!()
        };
        assert_eq!(Status::decode(bytes).unwrap(), status("first"));
        assert!(matches!(requests.begin("a", 2).await, Begun::OtherBody));
        assert!(matches!(requests.begin("b", 2).await, Begun::New(_)));
    }

    #[tokio::test]
    async fn a_repeat_waits_for_the_first_and_serves_itself_when_that_one_gave_up() {
        let (_, requests) = requests();
        let Begun::New(first) = requests.begin("a", 1).await else {
            panic!()
        };
        let mut second = Box::pin(requests.begin("a", 1));
        assert!(poll!(second.as_mut()).is_pending());
        drop(first);
        let Begun::New(second) = second.await else {
            panic!()
        };
        let third = requests.begin("a", 1);
        second.done(&status("second"));
        assert!(matches!(third.now_or_never(), Some(Begun::Answered(_))));
    }

    #[tokio::test]
    async fn answers_are_forgotten_after_their_time() {
        let (clock, requests) = requests();
        let Begun::New(ticket) = requests.begin("a", 1).await else {
            panic!()
        };
        ticket.done(&status("a"));
        clock.advance(KEPT_FOR);
        let Begun::New(ticket) = requests.begin("b", 1).await else {
            panic!()
        };
        ticket.done(&status("b"));
        assert!(matches!(requests.begin("a", 2).await, Begun::New(_)));
    }
}
