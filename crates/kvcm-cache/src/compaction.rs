//! When a snapshot is due, and who writes it.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use kvcm_clock::{Backoff, BackoffPolicy, Timer};
use kvcm_journal::LogSize;

use crate::{CacheManager, Error};

/// Between two looks at the size of the log.
const LOOK: Duration = Duration::from_secs(1);

/// Between two tries to write a snapshot.
const RETRY: BackoffPolicy = BackoffPolicy {
    first: Duration::from_secs(1),
    cap: Duration::from_secs(60),
    factor: 2.0,
    jitter: 0.2,
};

/// What is known of a manager's snapshots.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    bytes: AtomicU64,
    written: AtomicU64,
    failed: AtomicU64,
}

/// Snapshots of a manager, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    /// How many were written.
    pub written: u64,
    /// How many were not.
    pub failed: u64,
    /// Bytes of the last one, also of one that was found.
    pub bytes: u64,
}

impl Compaction {
    /// With a snapshot of so many bytes that was found.
    pub(crate) fn found(bytes: u64) -> Self {
        let compaction = Self::default();
        compaction.bytes.store(bytes, Ordering::Relaxed);
        compaction
    }

    pub(crate) fn written(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.written.fetch_add(1, Ordering::Relaxed);
    }
}

impl CacheManager {
    /// What became of snapshots so far.
    pub fn snapshots(&self) -> Snapshots {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Snapshots {
            written: read(&self.compaction.written),
            failed: read(&self.compaction.failed),
            bytes: read(&self.compaction.bytes),
        }
    }

    /// Whether the log has grown so long that a snapshot is worth its while: as long as the last
    /// snapshot, so that what a recovery reads is at most twice the state, and what is written at
    /// most twice the changes.
    fn is_due(&self, log: LogSize) -> bool {
        let snapshot = self.compaction.bytes.load(Ordering::Relaxed);
        log.bytes >= snapshot.max(self.config.log_bytes_min)
    }

    /// Writes snapshots when they are due, for ever, and writes everything again into a journal
    /// that went back in time. Returns only when the journal says that this node has been
    /// superseded. Dropping it stops it; a snapshot that is not finished then never counts.
    pub async fn run_snapshots(&self, timer: &dyn Timer) -> Error {
        let clock = &self.shared.clock;
        let mut retry = Backoff::new(RETRY);
        let mut wait = LOOK;
        let mut went_back = false;
        loop {
            tokio::select! {
                () = self.log.went_back(), if !went_back => went_back = true,
                () = timer.sleep_until(clock.now() + wait) => {}
            }
            let written = if went_back {
                tracing::error!("the journal of an index lost changes, writing everything again");
                self.make_up().await.map(|()| true)
            } else if !self.keep_log && (self.is_due(self.log_size()) || self.leaves_out()) {
                self.snapshot().await
            } else {
                Ok(false)
            };
            match written {
                Ok(written) => {
                    went_back = false;
                    (retry, wait) = (Backoff::new(RETRY), LOOK);
                    if written {
                        let Snapshots { bytes, .. } = self.snapshots();
                        tracing::info!(bytes, "a snapshot of an index is written");
                    }
                }
                Err(error) if error.is_fenced() => return error,
                Err(error) => {
                    self.compaction.failed.fetch_add(1, Ordering::Relaxed);
                    wait = retry.next(&mut fastrand::Rng::new());
                    tracing::warn!(
                        %error,
                        again_in_ms = wait.as_millis() as u64,
                        "a snapshot of an index was not written"
                    );
                }
            }
        }
    }

    /// The recovery left blocks out whose instance is gone. A registration of the same name may
    /// come, and must not find them at the next recovery.
    fn leaves_out(&self) -> bool {
        self.left_out && self.compaction.written.load(Ordering::Relaxed) == 0
    }
}
