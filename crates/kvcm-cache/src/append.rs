//! The way of every effect: into the journal first, then into memory.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kvcm_journal::{AppendError, Batch, Outcome, Writer};
use parking_lot::Mutex;
use tokio::sync::oneshot;

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
}

impl Log {
    pub(crate) fn new(writer: Arc<dyn Writer>, timeout: Duration) -> Self {
        Self {
            writer,
            unsettled: Arc::default(),
            timeout,
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
                "the journal did not answer within {} ms, it goes on trying",
                self.timeout.as_millis()
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
        result
    }

    async fn see_through(&self, seq: u64) -> Result<(), AppendError> {
        loop {
            match self.writer.committed(seq, self.timeout).await {
                Err(error) if error.is_unknown() => {
                    tracing::warn!(seq, %error, "the journal is slow to acknowledge");
                }
                result => return result,
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
