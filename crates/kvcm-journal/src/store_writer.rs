//! Writing to a store outside this process.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kvcm_fence::Claim;
use tokio::{task::AbortHandle, time::Instant};
use tracing::{debug, error, warn};

use crate::{
    AppendError, Batch, LoadError, LoadSink, Loaded, LogSize, Snapshot, Writer,
    pace::Pace,
    progress::Progress,
    queue::Queue,
    store::{Store, StoreError},
};

/// The first wait after a try that failed; doubles with each.
const RETRY_FIRST: Duration = Duration::from_millis(10);
/// The longest wait between two tries.
const RETRY_MAX: Duration = Duration::from_millis(500);

/// The writer of every store outside this process: a queue, and a task that empties it into the
/// store, all that has gathered at a time.
#[derive(Debug)]
pub(crate) struct StoreWriter {
    queue: Arc<Queue>,
    former: Option<Claim>,
    store: Arc<dyn Store>,
    committer: Option<AbortHandle>,
    progress: Progress,
}

impl StoreWriter {
    pub(crate) fn new(claim: Claim, former: Option<Claim>, store: Arc<dyn Store>) -> Self {
        Self {
            queue: Arc::new(Queue::new(claim)),
            former,
            store,
            committer: None,
            progress: Progress::default(),
        }
    }
}

impl Drop for StoreWriter {
    fn drop(&mut self) {
        if let Some(committer) = &self.committer {
            committer.abort();
        }
    }
}

#[async_trait]
impl Writer for StoreWriter {
    fn claim(&self) -> &Claim {
        self.queue.claim()
    }

    fn former(&self) -> Option<&Claim> {
        self.former.as_ref()
    }

    fn report_progress(&mut self, report: Box<dyn Fn() + Send + Sync>) {
        self.progress = Progress::to(report);
    }

    async fn load(&mut self, sink: &mut (dyn LoadSink + Send)) -> Result<Loaded, LoadError> {
        let (loaded, log) = self.store.load(&mut self.progress.of(sink)).await?;
        if self.committer.is_none() {
            self.queue.open(loaded.last_seq, log);
            let committer = tokio::spawn(commit(self.queue.clone(), self.store.clone()));
            self.committer = Some(committer.abort_handle());
        }
        Ok(loaded)
    }

    fn submit(&self, batch: Batch) -> Result<u64, AppendError> {
        self.queue.submit(batch)
    }

    async fn committed(&self, seq: u64, timeout: Duration) -> Result<(), AppendError> {
        self.queue.committed(seq, timeout).await
    }

    fn committed_seq(&self) -> u64 {
        self.queue.committed_seq()
    }

    fn last_seq(&self) -> u64 {
        self.queue.last_seq()
    }

    async fn snapshot(&self, snapshot: Snapshot, timeout: Duration) -> Result<(), AppendError> {
        self.queue.check_snapshot(snapshot.through)?;
        let through = snapshot.through;
        match self.store.snapshot(snapshot, timeout).await {
            Ok(()) => {
                self.queue.compacted(through);
                Ok(())
            }
            Err(AppendError::Fenced(fenced)) => {
                self.queue.end(fenced.clone());
                Err(AppendError::Fenced(fenced))
            }
            Err(error) => Err(error),
        }
    }

    fn log_size(&self) -> LogSize {
        self.queue.log_size()
    }
}

/// Empties the queue into the store until the claim ends.
async fn commit(queue: Arc<Queue>, store: Arc<dyn Store>) {
    let mut pace = Pace::default();
    loop {
        pace.gather(&queue).await;
        let Some(group) = queue.take() else {
            queue.submitted.notified().await;
            continue;
        };
        let begun = Instant::now();
        match store.append(&group).await {
            Ok(()) => {
                let took = begun.elapsed();
                let (acknowledged, gathered) = queue.acknowledged();
                pace.wrote(took, acknowledged, gathered);
            }
            Err(StoreError::Fenced(fenced)) => {
                debug!(claim = %queue.claim(), %fenced, "the journal is closed to this claim");
                queue.end(fenced);
                return;
            }
            Err(StoreError::WentBack(has)) => {
                let had = queue.committed_seq();
                error!(
                    has,
                    had, "the journal went back in time; a snapshot makes up for it"
                );
                queue.went_back(has);
            }
            Err(StoreError::Unavailable(why)) => {
                warn!(
                    why,
                    first = group.first,
                    "the journal did not take a batch, trying again"
                );
                let tries = queue.failed(why);
                let wait = RETRY_FIRST.saturating_mul(1 << tries.min(16));
                tokio::time::sleep(wait.min(RETRY_MAX)).await;
            }
        }
    }
}
