//! Telling watchers.

use std::sync::Arc;

use coordination_core::{Hint, HintStream};
use futures_util::stream;
use tokio::sync::broadcast::{self, error::RecvError};

/// How many hints a watcher may be behind before it is told only that something changed.
const BEHIND_MAX: usize = 64;

/// The hints about all locks, in one channel: there are few locks.
#[derive(Debug)]
pub(crate) struct Hints {
    sender: broadcast::Sender<(Arc<str>, Hint)>,
}

impl Hints {
    pub(crate) fn new() -> Self {
        let (sender, _) = broadcast::channel(BEHIND_MAX);
        Self { sender }
    }

    /// Tells the watchers of `key`, if there are any.
    pub(crate) fn send(&self, key: &str, hint: Hint) {
        if self.sender.receiver_count() > 0 {
            // Fails only when the last watcher has gone in this moment.
            let _ = self.sender.send((key.into(), hint));
        }
    }

    /// Hints from now on, not from the first poll on: what happens between a look at the lock and
    /// the wait for a hint must not be lost.
    pub(crate) fn watch(&self, key: &str) -> HintStream {
        let (receiver, key) = (self.sender.subscribe(), key.to_owned());
        Box::pin(stream::unfold(receiver, move |mut receiver| {
            let key = key.clone();
            async move {
                loop {
                    match receiver.recv().await {
                        Ok((about, hint)) if *about == *key => return Some((hint, receiver)),
                        Ok(_) => {}
                        Err(RecvError::Lagged(_)) => return Some((Hint::Changed, receiver)),
                        Err(RecvError::Closed) => return None,
                    }
                }
            }
        }))
    }
}
