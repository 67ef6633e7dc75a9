//! What became of the requests of clients, for a repeat.

use std::{collections::HashMap, ops::Range};

use kvcm_clock::Moment;
use kvcm_index::Grant;
use kvcm_journal::Requests;
use parking_lot::Mutex;

use crate::{
    CacheManager, Error, Result, SessionId, Skipped, StartRequest, Started,
    ops::{Op, Request},
};

/// What became of a request. It is in the journal together with the effect, so the next leader
/// knows it too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Done; there is no more to say.
    Done,
    /// A write session began: [`CacheManager::started_again`] tells it anew.
    Started(Box<StartedBefore>),
    /// The mask of a finish did not fit, and why; the session has ended.
    BadMask(Box<str>),
}

/// As much of a start as the same request does not say itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedBefore {
    pub(crate) session: SessionId,
    pub(crate) grant: Grant,
    /// Without meaning when every key was skipped.
    pub(crate) storage: u16,
    pub(crate) skipped: Skipped,
}

/// The requests that a manager knows.
#[derive(Debug)]
pub(crate) struct Answered(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// On their way into the journal, each with the hash of its body.
    in_flight: HashMap<u128, u64>,
    done: Requests<RequestOutcome>,
}

impl Answered {
    pub(crate) fn new(config: &crate::Config) -> Self {
        Self(Mutex::new(Inner {
            in_flight: HashMap::new(),
            done: Requests::new(config.requests_kept, config.requests_max),
        }))
    }

    /// The batch of a request is about to be written; its operation for that batch.
    pub(crate) fn begin(&self, request: Option<&Request>) -> Option<Op> {
        let request = request?;
        let mut inner = self.0.lock();
        inner.in_flight.insert(request.key.id, request.key.body);
        Some(Op::Request(request.clone()))
    }

    /// It is stored, or it is not.
    pub(crate) fn settle(&self, request: Option<Request>, stored: bool, now: Moment) {
        let Some(Request { key, outcome }) = request else {
            return;
        };
        let mut inner = self.0.lock();
        inner.in_flight.remove(&key.id);
        if stored {
            inner.done.note(key, outcome, now);
        }
    }

    /// The places of all that are stored.
    pub(crate) fn all_places(&self) -> Range<u64> {
        self.0.lock().done.all_places()
    }

    /// Those in these places, oldest first.
    pub(crate) fn places(&self, places: Range<u64>) -> Vec<Request> {
        let inner = self.0.lock();
        let done = inner.done.places(places);
        done.map(|(key, outcome)| Request {
            key,
            outcome: outcome.clone(),
        })
        .collect()
    }

    fn get(&self, id: u128) -> Option<(u64, Option<RequestOutcome>)> {
        let inner = self.0.lock();
        if let Some((body, outcome)) = inner.done.get(id) {
            return Some((body, Some(outcome.clone())));
        }
        inner.in_flight.get(&id).map(|body| (*body, None))
    }
}

impl CacheManager {
    /// What is known of the request with this id: the hash of its body and its outcome, which is
    /// none as long as the journal has not said whether it has it. Remembered for ten minutes, and
    /// on the next leader as long again, unless there are too many of them
    /// ([`Config::requests_max`](crate::Config::requests_max)).
    pub fn answered(&self, id: u128) -> Option<(u64, Option<RequestOutcome>)> {
        self.shared.answered.get(id)
    }

    /// The answer to a start that is repeated: the same session and the same locations.
    ///
    /// # Errors
    /// Those of a request that cannot be right; [`Error::Internal`] when the instance was
    /// registered anew or the outcome is not that of a start.
    pub fn started_again(
        &self,
        request: &StartRequest<'_>,
        outcome: &RequestOutcome,
    ) -> Result<Started> {
        match outcome {
            RequestOutcome::Started(before) => self.granted_before(request, before),
            _ => Err(Error::Internal(
                "the request id belongs to a request of another kind".into(),
            )),
        }
    }
}
