//! The way of every effect: into the journal first, then into memory.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kvcm_journal::{AppendError, Batch, Outcome, Writer};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::{
    Error, Result,
    ops::{KIND, Op, VERSION},
};

/// Writes operations and settles their effects.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    writer: Arc<dyn Writer>,
    /// Batches that have a place and whose effects are not all in memory yet.
    unsettled: Arc<Mutex<BTreeSet<u64>>>,
    /// How long a caller waits for an acknowledgement.
    timeout: Duration,
    signals: Arc<Signals>,
}

#[derive(Debug, Default)]
struct Signals {
    /// Why the journal does not acknowledge, when it said so.
    trouble: Mutex<String>,
    /// A batch is settled.
    settled: Notify,
    /// The journal has lost what it had acknowledged, and waits for all of it.
    went_back: Notify,
    /// It has it again.
    made_up: Notify,
}

impl Log {
    pub(crate) fn new(writer: Arc<dyn Writer>, timeout: Duration) -> Self {
        Self {
            writer,
            unsettled: Arc::default(),
            timeout,
            signals: Arc::default(),
        }
    }

    pub(crate) fn writer(&self) -> &Arc<dyn Writer> {
        &self.writer
    }

    /// The number up to which all effects are in memory.
    pub(crate) fn settled_through(&self) -> u64 {
        let unsettled = self.unsettled.lock();
        match unsettled.first() {
            Some(first) => first - 1,
            None => self.writer.last_seq(),
        }
    }

    /// Stores the operations as one batch, then runs `settle(true)`. Runs `settle(false)` instead
    /// when they are not stored, or when this writer will never know.
    ///
    /// A batch that has a place cannot be taken back, so from then on nothing depends on the
    /// caller: when it stops waiting, or waits in vain, a task of its own sees the batch through.
    pub(crate) async fn commit<R: Send + 'static>(
        &self,
        ops: &[Op],
        settle: impl FnOnce(bool) -> R + Send + 'static,
    ) -> Result<R> {
        let submitted = {
            // Under the lock, so that `settled_through` never misses a batch.
            let mut unsettled = self.unsettled.lock();
            let submitted = self.submit(ops);
            if let Ok(seq) = submitted {
                unsettled.insert(seq);
            }
            submitted
        };
        let seq = match submitted {
            Ok(seq) => seq,
            Err(error) => {
                settle(false);
                return Err(Error::from_append(error));
            }
        };
        if self.writer.committed_seq() >= seq {
            return Ok(self.settle(seq, true, settle));
        }
        let (told, answer) = oneshot::channel();
        let log = self.clone();
        tokio::spawn(async move {
            let stored = log.see_through(seq).await;
            let result = log.settle(seq, stored.is_ok(), settle);
            // The caller may have gone.
            let _ = told.send(stored.map(|()| result));
        });
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(Ok(Ok(result))) => Ok(result),
            Ok(Ok(Err(error))) => Err(lost(error)),
            Ok(Err(_)) => Err(Error::Unknown("the server is shutting down".into())),
            Err(_) => Err(Error::Unknown(format!(
                "the journal did not answer within {} ms, it goes on trying{}",
                self.timeout.as_millis(),
                self.trouble()
            ))),
        }
    }

    fn submit(&self, ops: &[Op]) -> Result<u64, AppendError> {
        let mut bytes = Vec::new();
        ops.iter().for_each(|op| op.encode(&mut bytes));
        self.writer.submit(Batch::new(KIND, VERSION, bytes.into()))
    }

    fn settle<R>(&self, seq: u64, stored: bool, settle: impl FnOnce(bool) -> R) -> R {
        let result = settle(stored);
        self.unsettled.lock().remove(&seq);
        self.signals.settled.notify_waiters();
        result
    }

    /// What the journal says of its trouble, to be added to a sentence; empty without any.
    pub(crate) fn trouble(&self) -> String {
        match &**self.signals.trouble.lock() {
            "" => String::new(),
            trouble => format!(": {trouble}"),
        }
    }

    /// Returns when the journal says that it has lost what it had acknowledged: it then needs a
    /// snapshot through [`all_settled`](Self::all_settled).
    pub(crate) async fn went_back(&self) {
        self.signals.went_back.notified().await;
    }

    /// The journal has everything again.
    pub(crate) fn made_up(&self) {
        self.signals.made_up.notify_waiters();
    }

    /// Waits until the effects of all batches that the journal has ever acknowledged are in memory;
    /// gives the number of the last.
    pub(crate) async fn all_settled(&self) -> u64 {
        loop {
            // Made before the look, so that no change between the two is missed.
            let mut settled = std::pin::pin!(self.signals.settled.notified());
            settled.as_mut().enable();
            let committed = self.writer.committed_seq();
            let first = self.unsettled.lock().first().copied();
            if first.is_none_or(|first| first > committed) {
                return committed;
            }
            settled.await;
        }
    }

    async fn see_through(&self, seq: u64) -> Result<(), AppendError> {
        loop {
            let mut made_up = std::pin::pin!(self.signals.made_up.notified());
            made_up.as_mut().enable();
            match self.writer.committed(seq, self.timeout).await {
                Err(error) if error.is_unknown() => {
                    tracing::warn!(seq, %error, "the journal is slow to acknowledge");
                    *self.signals.trouble.lock() = error.to_string();
                }
                Err(AppendError::WentBack { .. }) => {
                    self.signals.went_back.notify_one();
                    // The time-out is for a batch that comes while it is being made up for.
                    let _ = tokio::time::timeout(self.timeout, made_up).await;
                }
                result => {
                    self.signals.trouble.lock().clear();
                    return result;
                }
            }
        }
    }
}

/// The batch had a place and the claim ended before the acknowledgement.
fn lost(error: AppendError) -> Error {
    match error {
        AppendError::Fenced(fenced) => Error::Fenced {
            fenced,
            outcome: Outcome::Unknown,
        },
        other => Error::Unknown(other.to_string()),
    }
}
