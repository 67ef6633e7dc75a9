//! Changing calls that carry a request id: a repeat gets the same answer.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kvcm_cache::RequestOutcome;
use kvcm_clock::Clock;
use kvcm_journal::{RequestKey, Requests as Noted};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::watch;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::reply::CallError;

/// How long an answer is kept.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// How many are kept; the oldest go first.
const KEPT_MAX: usize = 1 << 16;

/// The requests of one reign that are served right now, and the answers of those that have changed
/// nothing. Those that have are known to whoever has the change: its record is in the journal,
/// together with the change, and the next leader finds it there.
///
/// A repeat of a request id gets the answer of the first call, one that comes while the first is
/// still served waits for it, and the same id with another body is a mistake of the caller.
#[derive(Debug)]
pub(crate) struct Requests {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Each with the hash of its body.
    served: HashMap<u128, (u64, watch::Receiver<()>)>,
    answers: Noted<Result<(), CallError>>,
}

/// What became of the first call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// It was refused, and nothing has changed.
    Refused(CallError),
    /// It is done, and its answer says no more than that or can be told anew.
    Done,
    /// An index has recorded it.
    Recorded(RequestOutcome),
}

/// What to do with a call that has a request id.
#[derive(Debug)]
pub(crate) enum Begun<'a> {
    /// It is new: serve it.
    New(Ticket<'a>),
    /// It was answered before.
    Answered(Answer),
    /// The id was used for another call.
    OtherBody,
}

/// The right and duty to answer a request id. Dropped without an answer, the id is free again:
/// only definite outcomes are kept.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    requests: &'a Requests,
    key: RequestKey,
    /// Closing it wakes the repeats that wait.
    _served: watch::Sender<()>,
}

/// Names a request. The hashes are stored in journals, so they never change.
pub(crate) fn key(id: &str, rpc: &str, request: &impl Message) -> RequestKey {
    let mut body = Xxh3::new();
    body.update(rpc.as_bytes());
    body.update(&[0]);
    body.update(&request.encode_to_vec());
    RequestKey {
        id: xxh3_128(id.as_bytes()),
        body: body.digest(),
    }
}

impl Requests {
    /// Nothing is known yet.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::new(State {
                served: HashMap::new(),
                answers: Noted::new(KEPT_FOR, KEPT_MAX),
            }),
        }
    }

    /// Looks a request up, also in what is `recorded`: the hash of its body and its outcome. Waits
    /// while the first call with the id is being served.
    pub(crate) async fn begin(
        &self,
        key: RequestKey,
        recorded: impl Fn() -> Option<(u64, Answer)>,
    ) -> Begun<'_> {
        loop {
            let mut served = {
                let mut state = self.state.lock();
                if let Some((body, served)) = state.served.get(&key.id) {
                    if *body != key.body {
                        return Begun::OtherBody;
                    }
                    served.clone()
                } else {
                    let kept = state.answers.get(key.id).map(|(body, answer)| {
                        let answer = match answer {
                            Ok(()) => Answer::Done,
                            Err(error) => Answer::Refused(error.clone()),
                        };
                        (body, answer)
                    });
                    match kept.or_else(&recorded) {
                        Some((body, _)) if body != key.body => return Begun::OtherBody,
                        Some((_, answer)) => return Begun::Answered(answer),
                        None => {}
                    }
                    let (sender, served) = watch::channel(());
                    state.served.insert(key.id, (key.body, served));
                    return Begun::New(Ticket {
                        requests: self,
                        key,
                        _served: sender,
                    });
                }
            };
            // Ends when the ticket of the first call is gone.
            while served.changed().await.is_ok() {}
        }
    }
}

impl Ticket<'_> {
    /// Keeps an answer that nobody has recorded.
    pub(crate) fn keep(self, answer: Result<(), CallError>) {
        let now = self.requests.clock.now();
        let mut state = self.requests.state.lock();
        state.answers.note(self.key, answer, now);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.requests.state.lock().served.remove(&self.key.id);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, poll};
    use kvcm_clock::ManualClock;
    use kvcm_proto::meta::RemoveCacheRequest;

    use super::*;
    use crate::reply::Code;

    fn named(id: u128, body: u64) -> RequestKey {
        RequestKey { id, body }
    }

    const fn nothing() -> Option<(u64, Answer)> {
        None
    }

    fn requests() -> (ManualClock, Requests) {
        let clock = ManualClock::default();
        (clock.clone(), Requests::new(Arc::new(clock)))
    }

    fn refused() -> CallError {
        CallError::new(Code::Capacity, "full")
    }

    #[tokio::test]
    async fn a_repeat_gets_the_first_answer_and_another_body_is_refused() {
        let (_, requests) = requests();
        let Begun::New(ticket) = requests.begin(named(1, 1), nothing).await else {
            panic!()
        };
        ticket.keep(Err(refused()));
        let Begun::Answered(answer) = requests.begin(named(1, 1), nothing).await else {
            panic!()
        };
        assert_eq!(answer, Answer::Refused(refused()));
        let other = requests.begin(named(1, 2), nothing).await;
        assert!(matches!(other, Begun::OtherBody));
        let new = requests.begin(named(2, 2), nothing).await;
        assert!(matches!(new, Begun::New(_)));
    }

    #[tokio::test]
    async fn what_is_recorded_with_its_effect_is_known() {
        let (_, requests) = requests();
        let recorded = || Some((1, Answer::Done));
        let again = requests.begin(named(1, 1), recorded).await;
        assert!(matches!(again, Begun::Answered(Answer::Done)));
        let other = requests.begin(named(1, 2), recorded).await;
        assert!(matches!(other, Begun::OtherBody));
    }

    #[tokio::test]
    async fn a_repeat_waits_for_the_first_and_serves_itself_when_that_one_gave_up() {
        let (_, requests) = requests();
        let Begun::New(first) = requests.begin(named(1, 1), nothing).await else {
            panic!()
        };
        let mut second = Box::pin(requests.begin(named(1, 1), nothing));
        assert!(poll!(second.as_mut()).is_pending());
        drop(first);
        let Begun::New(second) = second.await else {
            panic!()
        };
        let third = requests.begin(named(1, 1), nothing);
        second.keep(Ok(()));
        assert!(matches!(third.now_or_never(), Some(Begun::Answered(_))));
    }

    #[tokio::test]
    async fn answers_are_forgotten_after_their_time() {
        let (clock, requests) = requests();
        for (id, wait) in [(1, Duration::ZERO), (2, KEPT_FOR)] {
            clock.advance(wait);
            let Begun::New(ticket) = requests.begin(named(id, 1), nothing).await else {
                panic!()
            };
            ticket.keep(Ok(()));
        }
        let again = requests.begin(named(1, 2), nothing).await;
        assert!(matches!(again, Begun::New(_)));
    }

    /// Other processes and later versions look for the same numbers.
    #[test]
    fn the_numbers_of_a_request_never_change() {
        let request = RemoveCacheRequest {
            instance_id: "i".to_owned(),
            block_keys: vec![1, -1],
            ..RemoveCacheRequest::default()
        };
        assert_eq!(key("client-1:7", "RemoveCache", &request), NUMBERS);
        assert_ne!(key("client-1:7", "TrimCache", &request).body, NUMBERS.body);
    }

    const NUMBERS: RequestKey = RequestKey {
        id: 82_353_901_277_463_602_419_945_171_724_980_742_976,
        body: 18_071_824_350_089_108_659,
    };
}
