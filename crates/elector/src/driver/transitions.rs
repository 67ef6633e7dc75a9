//! Runs the callbacks, one after the other.

use std::{sync::Arc, time::Duration};

use coordination_core::Previous;
use kvcm_clock::{Clock, Timer};
use kvcm_fence::Epoch;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::Spawn;
use crate::{
    Gate, Input, Leadership, LossReason, Progress, PromoteError, Promotion, Settings,
    handle::Message,
};

/// Something for the worker.
#[derive(Debug)]
pub(super) enum Job {
    Promote {
        epoch: Epoch,
        previous: Option<Previous>,
    },
    Cancel,
    Demote {
        epoch: Epoch,
        reason: LossReason,
    },
    Drain {
        epoch: Epoch,
        bound: Duration,
    },
    Probe,
}

/// Runs the callbacks, one after the other, on the caller's runtime.
pub(super) struct Transitions {
    pub(super) jobs: mpsc::Receiver<Job>,
    pub(super) messages: mpsc::Sender<Message>,
    pub(super) gate: Arc<Gate>,
    pub(super) leadership: Arc<dyn Leadership>,
    pub(super) settings: Settings,
    pub(super) timer: Arc<dyn Timer>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) spawner: Arc<dyn Spawn>,
}

impl Transitions {
    /// Ends when the lock loop has ended.
    pub(super) async fn run(mut self) {
        while let Some(job) = self.jobs.recv().await {
            let input = match job {
                Job::Promote { epoch, previous } => {
                    let result = self.promote(epoch, previous).await;
                    if let Err(error) = &result {
                        tracing::error!(%epoch, %error, "the promotion failed");
                    }
                    Input::Promoted { epoch, result }
                }
                Job::Demote { epoch, reason } => {
                    let leadership = self.leadership.clone();
                    let done = self.on_runtime(async move {
                        leadership.on_no_longer_leader(epoch, reason).await;
                    });
                    if done.await.is_err() {
                        tracing::error!(%epoch, "the demote callback panicked");
                    }
                    Input::Demoted { epoch }
                }
                Job::Drain { epoch, bound } => {
                    self.drain(epoch, bound).await;
                    Input::Drained { epoch }
                }
                Job::Probe => {
                    let leadership = self.leadership.clone();
                    let result = self
                        .on_runtime(async move { leadership.probe().await })
                        .await;
                    let result = result.unwrap_or_else(|_| Err("the probe panicked".to_owned()));
                    if let Err(error) = &result {
                        tracing::warn!(%error, "not fit to campaign");
                    }
                    Input::Probed { result }
                }
                // Its promotion has just returned.
                Job::Cancel => continue,
            };
            if self.messages.send(Message::Input(input)).await.is_err() {
                return;
            }
        }
    }

    async fn promote(
        &mut self,
        epoch: Epoch,
        previous: Option<Previous>,
    ) -> Result<(), PromoteError> {
        let cancel = CancellationToken::new();
        let progress = Progress::default();
        let promotion = Promotion {
            epoch,
            previous,
            cancel: cancel.clone(),
            progress: progress.clone(),
        };
        let leadership = self.leadership.clone();
        let mut running =
            self.on_runtime(async move { leadership.on_become_leader(promotion).await });
        let mut count = progress.count();
        let mut until = self.clock.now() + self.settings.promote_stall;
        let mut stalled = false;
        loop {
            tokio::select! {
                biased;
                result = &mut running => {
                    let panicked = |_| PromoteError::Failed("the callback panicked".to_owned());
                    let result = result.map_err(panicked).flatten();
                    return match result {
                        _ if stalled => Err(PromoteError::Failed("no progress".to_owned())),
                        result => result,
                    };
                }
                // Only a cancellation can come while the worker is busy.
                Some(_) = self.jobs.recv(), if !cancel.is_cancelled() => {
                    cancel.cancel();
                    until = self.clock.now() + self.settings.cancel_grace;
                }
                () = self.timer.sleep_until(until) => {
                    if cancel.is_cancelled() {
                        // It may hold locks and write at any moment: nothing less is safe.
                        tracing::error!(%epoch, "the promotion ignores its cancellation, aborting");
                        self.spawner.abort();
                        std::future::pending::<()>().await;
                    }
                    if progress.count() == count {
                        stalled = true;
                        cancel.cancel();
                        until = self.clock.now() + self.settings.cancel_grace;
                    } else {
                        count = progress.count();
                        until = self.clock.now() + self.settings.promote_stall;
                    }
                }
            }
        }
    }

    async fn drain(&self, epoch: Epoch, bound: Duration) {
        let until = self.clock.now() + bound;
        let (quiesce, flush) = (self.leadership.clone(), self.leadership.clone());
        let drained = async {
            let _ = self
                .on_runtime(async move { quiesce.quiesce(epoch).await })
                .await;
            self.gate.drained().await;
            let _ = self
                .on_runtime(async move { flush.flush(epoch).await })
                .await;
        };
        tokio::select! {
            biased;
            () = drained => {}
            () = self.timer.sleep_until(until) => {
                let in_flight = self.gate.in_flight();
                tracing::warn!(%epoch, in_flight, ?bound, "drain ended by its bound");
            }
        }
    }

    /// An error means that the callback panicked.
    fn on_runtime<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (done, result) = oneshot::channel();
        self.spawner.spawn(Box::pin(async move {
            let _ = done.send(work.await);
        }));
        result
    }
}
