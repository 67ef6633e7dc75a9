//! Runs the callbacks, one after the other.

use std::{sync::Arc, time::Duration};

use coordination_core::Previous;
use kvcm_clock::{Clock, Moment, Timer};
use kvcm_fence::Epoch;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::Spawn;
use crate::{
    DrainEnd, Gate, Input, Leadership, LossReason, Progress, PromoteError, Promotion, Settings,
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
    StopDrain,
    Resume {
        epoch: Epoch,
    },
    Probe,
}

/// Runs the callbacks, one after the other, on the caller's runtime.
pub(super) struct Transitions {
    pub(super) jobs: mpsc::Receiver<Job>,
    /// Came while a drain was under way.
    pub(super) next: Option<Job>,
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
        while let Some(job) = self.next_job().await {
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
                    self.demoted(epoch, done).await;
                    Input::Demoted { epoch }
                }
                Job::Drain { epoch, bound } => {
                    let end = self.drain(epoch, bound).await;
                    if end != DrainEnd::Empty {
                        tracing::warn!(%epoch, ?end, ?bound, "the drain ended early");
                    }
                    Input::Drained { epoch, end }
                }
                Job::Resume { epoch } => {
                    let leadership = self.leadership.clone();
                    let resumed = self.on_runtime(async move { leadership.resume(epoch).await });
                    let until = self.clock.now() + self.settings.cancel_grace;
                    if self.within(until, resumed).await.is_none() {
                        tracing::error!(%epoch, "what was quiesced is not taken up again");
                    }
                    continue;
                }
                Job::Probe => {
                    let leadership = self.leadership.clone();
                    let probed = self.on_runtime(async move { leadership.probe().await });
                    // While it is asked, this node does not look who leads.
                    let until = self.clock.now() + self.settings.lease;
                    let result = self.within(until, probed).await;
                    let failed = || Err("the probe panicked or gave no answer".to_owned());
                    let result = result.unwrap_or_else(failed);
                    if let Err(error) = &result {
                        tracing::warn!(%error, "not fit to campaign");
                    }
                    Input::Probed { result }
                }
                // Its promotion, or its drain, has just returned.
                Job::Cancel | Job::StopDrain => continue,
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

    /// Quiesces, waits for what is in flight, flushes. Ends early when it is stopped, or when the
    /// lock is lost meanwhile and the demote callback is due.
    async fn drain(&mut self, epoch: Epoch, bound: Duration) -> DrainEnd {
        let until = self.clock.now() + bound;
        let leadership = self.leadership.clone();
        let quiesced = self.on_runtime(async move { leadership.quiesce(epoch).await });
        if self.within(until, quiesced).await.is_none() {
            return DrainEnd::Stuck;
        }
        tokio::select! {
            biased;
            Some(job) = self.jobs.recv() => {
                if !matches!(job, Job::StopDrain) {
                    self.next = Some(job);
                }
                return DrainEnd::InFlight(self.gate.in_flight());
            }
            () = self.gate.drained() => {}
            () = self.timer.sleep_until(until) => {
                return DrainEnd::InFlight(self.gate.in_flight());
            }
        }
        let leadership = self.leadership.clone();
        let flushed = self.on_runtime(async move { leadership.flush(epoch).await });
        match self.within(until, flushed).await {
            Some(()) => DrainEnd::Empty,
            None => DrainEnd::Stuck,
        }
    }

    /// Waits for the demote callback, however long: the next reign cannot begin before, and
    /// another node can lead meanwhile.
    async fn demoted(&self, epoch: Epoch, mut done: oneshot::Receiver<()>) {
        let until = self.clock.now() + self.settings.cancel_grace;
        let result = tokio::select! {
            biased;
            result = &mut done => result,
            () = self.timer.sleep_until(until) => {
                tracing::error!(
                    %epoch,
                    "the demote callback does not return, this node cannot campaign meanwhile"
                );
                done.await
            }
        };
        if result.is_err() {
            tracing::error!(%epoch, "the demote callback panicked");
        }
    }

    async fn next_job(&mut self) -> Option<Job> {
        match self.next.take() {
            Some(job) => Some(job),
            None => self.jobs.recv().await,
        }
    }

    /// None when the callback has panicked, or has not returned by then.
    async fn within<T>(&self, until: Moment, callback: oneshot::Receiver<T>) -> Option<T> {
        tokio::select! {
            biased;
            result = callback => result.ok(),
            () = self.timer.sleep_until(until) => None,
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
