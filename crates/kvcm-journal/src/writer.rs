//! The right to write.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use kvcm_fence::Claim;

use crate::{AppendError, Batch, LoadError, LoadSink, Loaded, Snapshot};

/// Writes under one claim. Only [`Journal::claim`](crate::Journal::claim) gives one, and a later
/// claim makes it worthless.
///
/// To ensure correctness:
///
/// - Every write checks in the same atomic step that exactly this claim stands.
/// - Sequence numbers start at 1 and rise by one per batch, in the order of [`submit`] and across
///   epochs; batches enter the store in that order, without a gap.
/// - A batch that has a number is only ever rolled forward: the writer tries with the same number
///   until the store has it or the claim ends. So no caller has to take an effect back, and a
///   caller that stops waiting loses nothing but the answer.
///
/// [`submit`]: Writer::submit
#[async_trait]
pub trait Writer: fmt::Debug + Send + Sync + 'static {
    /// The claim under which it writes.
    fn claim(&self) -> &Claim;

    /// The claim that stood before, if any: proof that somebody has led.
    fn former(&self) -> Option<&Claim>;

    /// `report` is called whenever a [`load`](Writer::load) has got on by one step: a chunk of the
    /// snapshot, or a record. A store that stands still calls nothing.
    fn report_progress(&mut self, report: Box<dyn Fn() + Send + Sync>);

    /// Reads the content in order: the chunks of the last snapshot, then the records after it.
    ///
    /// Has to succeed once before the first write. Dropping the future stops the load, and it can
    /// be started again from the beginning with a fresh sink.
    ///
    /// # Errors
    /// [`LoadError`]. Records that are damaged are not an error: they are skipped and reported.
    async fn load(&mut self, sink: &mut (dyn LoadSink + Send)) -> Result<Loaded, LoadError>;

    /// Gives the batch its sequence number and place, without waiting. Callers that must keep an
    /// order submit under the lock that makes it.
    ///
    /// # Errors
    /// [`AppendError`]: the batch has no place and is gone.
    fn submit(&self, batch: Batch) -> Result<u64, AppendError>;

    /// Waits until the store has the batch `seq`, and with it all earlier ones.
    ///
    /// # Errors
    /// `Unavailable` with an unknown outcome when `timeout` passes first: ask again. `Fenced` when
    /// the claim ended before the acknowledgement: the batch may or may not be in the store.
    async fn committed(&self, seq: u64, timeout: Duration) -> Result<(), AppendError>;

    /// The number of the last batch that the store has, as far as this writer knows.
    fn committed_seq(&self) -> u64;

    /// The number of the last batch that was submitted; after a load at least that of the last
    /// record in the store.
    fn last_seq(&self) -> u64;

    /// Writes a snapshot of the state after batch `snapshot.through`, which has to be committed.
    /// The store may then drop the records up to it.
    ///
    /// # Errors
    /// [`AppendError`]: the former snapshot and the records stay.
    async fn snapshot(&self, snapshot: Snapshot, timeout: Duration) -> Result<(), AppendError>;

    /// What has been written since the last snapshot: tells when the next one is due.
    fn log_size(&self) -> LogSize;

    /// [`submit`](Writer::submit), then [`committed`](Writer::committed).
    ///
    /// # Errors
    /// [`AppendError`]. After an unknown outcome the batch has the number
    /// [`last_seq`](Writer::last_seq) had at the submission; do not append it again.
    async fn append(&self, batch: Batch, timeout: Duration) -> Result<u64, AppendError> {
        let seq = self.submit(batch)?;
        self.committed(seq, timeout).await?;
        Ok(seq)
    }
}

/// The part of a journal that a load has to replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSize {
    /// Records after the last snapshot.
    pub records: u64,
    /// Their payload in bytes.
    pub bytes: u64,
}
