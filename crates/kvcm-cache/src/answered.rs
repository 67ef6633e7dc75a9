//! What became of the requests of clients, for a repeat.

use std::{collections::HashMap, ops::Range, time::Duration};

use kvcm_clock::Moment;
use kvcm_index::Grant;
use parking_lot::Mutex;

use crate::{
    CacheManager, Error, Result, SessionId, Skipped, StartRequest, Started,
    ops::{Op, Request},
    records::Records,
};

/// Between two warnings that requests are forgotten before their time.
const WARN: Duration = Duration::from_secs(60);

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
    done: Records,
    kept_for: Duration,
    /// Forgotten before their time.
    early: u64,
    /// From when on the next of them are worth a warning.
    warn_at: Moment,
}

/// How much is remembered of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestRecords {
    /// Bytes of memory.
    pub bytes: usize,
    /// How many were forgotten before their time, for want of memory; it only rises.
    pub forgotten_early: u64,
}

impl Answered {
    pub(crate) fn new(config: &crate::Config) -> Self {
        Self(Mutex::new(Inner {
            in_flight: HashMap::new(),
            done: Records::new(config.requests_kept, config.requests_bytes_max),
            kept_for: config.requests_kept,
            early: 0,
            warn_at: Moment::ZERO,
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
        let Some(request) = request else {
            return;
        };
        let mut inner = self.0.lock();
        inner.in_flight.remove(&request.key.id);
        if !stored {
            return;
        }
        let early = inner.done.note(&request, now) as u64;
        inner.early += early;
        if early > 0 && now >= inner.warn_at {
            inner.warn_at = now + WARN;
            let (kept_for, forgotten) = (inner.kept_for, inner.early);
            let bytes = inner.done.bytes();
            drop(inner);
            tracing::warn!(
                forgotten,
                bytes,
                kept_for_s = kept_for.as_secs(),
                "records of requests are forgotten before their time, for they are too many: raise \
                 kvcm.service.max_request_records_mb, or repeats may take effect twice"
            );
        }
    }

    /// The chunks of all that are stored, by their numbers.
    pub(crate) fn chunks(&self) -> Range<u64> {
        self.0.lock().done.chunks()
    }

    /// Those in this chunk, oldest first.
    pub(crate) fn chunk(&self, number: u64) -> Vec<Request> {
        self.0.lock().done.chunk(number)
    }

    fn records(&self) -> RequestRecords {
        let inner = self.0.lock();
        RequestRecords {
            bytes: inner.done.bytes(),
            forgotten_early: inner.early,
        }
    }

    fn get(&self, id: u128) -> Option<(u64, Option<RequestOutcome>)> {
        let inner = self.0.lock();
        if let Some((body, outcome)) = inner.done.get(id) {
            return Some((body, Some(outcome)));
        }
        inner.in_flight.get(&id).map(|body| (*body, None))
    }
}

impl CacheManager {
    /// What is known of the request with this id: the hash of its body and its outcome, which is
    /// none as long as the journal has not said whether it has it. Remembered for ten minutes, and
    /// on the next leader as long again, unless there are too many of them
    /// ([`Config::requests_bytes_max`](crate::Config::requests_bytes_max)).
    pub fn answered(&self, id: u128) -> Option<(u64, Option<RequestOutcome>)> {
        self.shared.answered.get(id)
    }

    /// How much memory the records of requests take.
    pub fn request_records(&self) -> RequestRecords {
        self.shared.answered.records()
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
