//! Writing to a memory journal.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kvcm_fence::Claim;

use crate::{
    AppendError, Batch, LoadError, LoadSink, Loaded, LogSize, Record, Snapshot, Writer,
    memory_state::{Keep, Kept, Shared, State},
    progress::Progress,
};

/// Records that a load hands over before it lets others run.
const LOAD_STEP: usize = 256;

#[derive(Debug)]
pub(crate) struct MemoryWriter {
    shared: Arc<Shared>,
    claim: Claim,
    former: Option<Claim>,
    loaded: AtomicBool,
    progress: Progress,
}

impl MemoryWriter {
    pub(crate) fn new(shared: Arc<Shared>, claim: Claim, former: Option<Claim>) -> Self {
        Self {
            shared,
            claim,
            former,
            loaded: AtomicBool::new(false),
            progress: Progress::default(),
        }
    }

    fn check_loaded(&self) -> Result<(), AppendError> {
        if self.loaded.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err(AppendError::NotLoaded)
        }
    }

    /// Whether `seq` is committed; an error when that can no longer be known or was never asked.
    fn poll_committed(&self, seq: u64) -> Result<bool, AppendError> {
        let state = self.shared.lock();
        state.fence.check(&self.claim)?;
        if seq > state.last {
            return Err(AppendError::NoSuchSeq {
                seq,
                last: state.last,
            });
        }
        if let (true, Some(has)) = (seq > state.committed, state.faults.went_back) {
            let had = state.committed;
            return Err(AppendError::WentBack { has, had });
        }
        Ok(seq <= state.committed)
    }

    /// Copies the next records after `after`, so that the sink runs without the lock.
    fn read(&self, after: u64) -> Result<(Vec<Record>, u64), LoadError> {
        let state = self.shared.lock();
        state.fence.check(&self.claim)?;
        let start = state.records.partition_point(|record| record.seq <= after);
        let committed = state.committed;
        let step = state.records[start..]
            .iter()
            .take_while(|record| record.seq <= committed)
            .take(LOAD_STEP);
        Ok((step.cloned().collect(), committed))
    }
}

#[async_trait]
impl Writer for MemoryWriter {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn former(&self) -> Option<&Claim> {
        self.former.as_ref()
    }

    fn report_progress(&mut self, report: Box<dyn Fn() + Send + Sync>) {
        self.progress = Progress::to(report);
    }

    async fn load(&mut self, sink: &mut (dyn LoadSink + Send)) -> Result<Loaded, LoadError> {
        let mut sink = self.progress.of(sink);
        let (snapshot, mut loaded) = {
            let state = self.shared.lock();
            state.fence.check(&self.claim)?;
            if state.faults.refuse_loads {
                return Err(LoadError::Unavailable {
                    source: "the test refuses loads".into(),
                });
            }
            let loaded = Loaded {
                dropped: state.dropped,
                ..Loaded::default()
            };
            (state.snapshot.clone(), loaded)
        };
        let mut after = 0;
        if let Some(snapshot) = snapshot {
            after = snapshot.through;
            for chunk in snapshot.chunks {
                loaded.snapshot_chunks += 1;
                loaded.bytes += chunk.len() as u64;
                sink.snapshot(snapshot.version, chunk)
                    .map_err(|source| LoadError::Rejected { source })?;
                tokio::task::yield_now().await;
            }
        }
        loop {
            let (records, committed) = self.read(after)?;
            let Some(last) = records.last() else {
                loaded.last_seq = committed;
                break;
            };
            after = last.seq;
            for record in &records {
                loaded.records += 1;
                loaded.bytes += record.batch.size() as u64;
                sink.record(record)
                    .map_err(|source| LoadError::Rejected { source })?;
            }
            tokio::task::yield_now().await;
        }
        self.loaded.store(true, Ordering::Release);
        Ok(loaded)
    }

    fn submit(&self, batch: Batch) -> Result<u64, AppendError> {
        self.check_loaded()?;
        let (size, limit) = (batch.size(), self.shared.batch_bytes_max);
        if size > limit {
            return Err(AppendError::TooLarge { size, limit });
        }
        let mut state = self.shared.lock();
        state.fence.check(&self.claim)?;
        if state.faults.refuse_submits {
            return Err(AppendError::not_done("the test refuses batches"));
        }
        state.last += 1;
        let seq = state.last;
        if !state.faults.hold && state.faults.went_back.is_none() {
            state.committed = seq;
        }
        if self.shared.keep == Keep::Content {
            state.log.records += 1;
            state.log.bytes += size as u64;
            state.records.push(Record {
                cluster: self.claim.cluster.clone(),
                epoch: self.claim.epoch,
                seq,
                batch,
            });
        }
        Ok(seq)
    }

    async fn committed(&self, seq: u64, timeout: Duration) -> Result<(), AppendError> {
        if self.poll_committed(seq)? {
            return Ok(());
        }
        let wait = async {
            loop {
                let changed = self.shared.changed().notified();
                tokio::pin!(changed);
                // Registered before the look, so that no change between the two is missed.
                changed.as_mut().enable();
                if self.poll_committed(seq)? {
                    return Ok(());
                }
                changed.await;
            }
        };
        match tokio::time::timeout(timeout, wait).await {
            Ok(result) => result,
            Err(_) => Err(AppendError::unknown(format!(
                "batch {seq} was not acknowledged within {} ms",
                timeout.as_millis()
            ))),
        }
    }

    fn committed_seq(&self) -> u64 {
        self.shared.lock().committed
    }

    fn last_seq(&self) -> u64 {
        self.shared.lock().last
    }

    async fn snapshot(&self, snapshot: Snapshot, _timeout: Duration) -> Result<(), AppendError> {
        self.check_loaded()?;
        let keeps = self.shared.keep == Keep::Content;
        // Without the lock: making them may take a while.
        let snapshot = Kept {
            through: snapshot.through,
            version: snapshot.version,
            chunks: snapshot.chunks.filter(|_| keeps).collect(),
        };
        let mut state = self.shared.lock();
        state.fence.check(&self.claim)?;
        if state.faults.refuse_snapshots {
            return Err(AppendError::not_done("the test refuses snapshots"));
        }
        if snapshot.through > state.committed {
            return Err(AppendError::NoSuchSeq {
                seq: snapshot.through,
                last: state.committed,
            });
        }
        if snapshot.through == state.committed && state.faults.went_back.take().is_some() {
            state.committed = state.last;
        }
        if keeps {
            state.replace_by(snapshot);
        }
        Ok(())
    }

    fn log_size(&self) -> LogSize {
        self.shared.lock().log
    }
}

// === impl State ===

impl State {
    /// Puts the snapshot in the place of the records that it covers.
    fn replace_by(&mut self, snapshot: Kept) {
        let older = |s: &Kept| s.through > snapshot.through;
        if self.snapshot.as_ref().is_some_and(older) {
            return;
        }
        let covered = |record: &&Record| record.seq <= snapshot.through;
        let gone = self.records.iter().take_while(covered).count();
        let bytes: usize = self.records[..gone].iter().map(|r| r.batch.size()).sum();
        self.records.drain(..gone);
        self.log.records -= gone as u64;
        self.log.bytes -= bytes as u64;
        self.snapshot = Some(snapshot);
    }
}
