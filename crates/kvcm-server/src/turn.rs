//! A call that changes something, while it is served.

use std::{ops::Deref, sync::Arc};

use kvcm_journal::RequestKey;
use kvcm_registry::Registry;

use crate::{
    reign::Reign,
    reply::{CallError, Code},
    requests::Answer,
};

/// The reign in which a call changes something, and the request that the change is recorded for.
#[derive(Debug)]
pub(crate) struct Turn {
    reign: Arc<Reign>,
    /// The registry of the reign; what is changed through it belongs to the request.
    pub(crate) registry: Registry,
    /// The request, when the caller has given it an id.
    pub(crate) request: Option<RequestKey>,
}

impl Turn {
    /// Of this request.
    pub(crate) fn new(reign: Arc<Reign>, request: Option<RequestKey>) -> Self {
        Self {
            registry: reign.registry.for_request(request),
            reign,
            request,
        }
    }
}

impl Deref for Turn {
    type Target = Reign;

    fn deref(&self) -> &Reign {
        &self.reign
    }
}

impl Reign {
    /// What registry and indexes have recorded of a request: the hash of its body and its outcome.
    pub(crate) fn recorded(&self, id: u128) -> Option<(u64, Answer)> {
        if let Some(body) = self.registry.answered(id) {
            return Some((body, Answer::Done));
        }
        self.caches.all().iter().find_map(|cache| {
            let (body, outcome) = cache.answered(id)?;
            let answer = match outcome {
                Some(outcome) => Answer::Recorded(outcome),
                None => Answer::Refused(CallError::new(
                    Code::Io,
                    "whether the first call with this request id is stored is not known yet, ask \
                     again",
                )),
            };
            Some((body, answer))
        })
    }
}
