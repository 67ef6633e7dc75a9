//! Calls to the backend, each bounded whatever the backend does.

use std::sync::Arc;

use coordination_core::{Backend, Error, Owner, Reservation, TryLock};
use futures_util::future::BoxFuture;
use kvcm_clock::{Clock, Moment, Timer};
use kvcm_fence::{Epoch, Incarnation};

use crate::{CallFailed, Input, Phase, Settings};

/// Makes calls and turns their answers into inputs.
pub(super) struct Calls {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) key: Arc<str>,
    pub(super) owner: Arc<Owner>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timer: Arc<dyn Timer>,
    pub(super) settings: Settings,
    pub(super) info: Arc<dyn Fn(Phase) -> String + Send + Sync>,
}

/// What one call needs, owned by its future.
struct Call {
    backend: Arc<dyn Backend>,
    key: Arc<str>,
    owner: Arc<Owner>,
    timer: Arc<dyn Timer>,
    /// Taken before the request: the lease counts from here.
    sent: Moment,
    deadline: Moment,
}

impl Calls {
    fn call(&self) -> Call {
        let sent = self.clock.now();
        Call {
            backend: self.backend.clone(),
            key: self.key.clone(),
            owner: self.owner.clone(),
            timer: self.timer.clone(),
            sent,
            deadline: sent + self.settings.call_timeout,
        }
    }

    pub(super) fn try_lock(
        &self,
        floor: Epoch,
        presumed_dead: Option<(Incarnation, Epoch)>,
    ) -> BoxFuture<'static, Input> {
        let call = self.call();
        let ttl = self.settings.lease;
        let info = (self.info)(Phase::Recovering);
        Box::pin(async move {
            let request = TryLock {
                key: &call.key,
                owner: &call.owner,
                ttl,
                floor,
                info: &info,
                presumed_dead,
            };
            let answer = call.backend.try_lock(request, call.deadline);
            let result = call.bounded(answer).await;
            Input::LockAnswered {
                sent: call.sent,
                result,
            }
        })
    }

    pub(super) fn observe(&self) -> BoxFuture<'static, Input> {
        let call = self.call();
        Box::pin(async move {
            let result = call
                .bounded(call.backend.lock_holder(&call.key, call.deadline))
                .await;
            Input::HolderAnswered { result }
        })
    }

    pub(super) fn renew(&self, epoch: Epoch, phase: Phase) -> BoxFuture<'static, Input> {
        let call = self.call();
        let ttl = self.settings.lease;
        let info = (self.info)(phase);
        Box::pin(async move {
            let answer =
                call.backend
                    .renew_lock(&call.key, &call.owner, epoch, ttl, &info, call.deadline);
            let result = call.bounded(answer).await;
            Input::RenewAnswered {
                epoch,
                sent: call.sent,
                result,
            }
        })
    }

    pub(super) fn unlock(
        &self,
        epoch: Epoch,
        reserve: Option<Reservation>,
    ) -> BoxFuture<'static, Input> {
        let call = self.call();
        Box::pin(async move {
            let reserve = reserve.as_ref();
            let answer = call
                .backend
                .unlock(&call.key, &call.owner, epoch, reserve, call.deadline);
            let result = call.bounded(answer).await;
            Input::UnlockAnswered { epoch, result }
        })
    }
}

impl Call {
    /// The backend promises to answer by the deadline; if it does not, the call is dropped.
    async fn bounded<T>(
        &self,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, CallFailed> {
        tokio::select! {
            biased;
            answer = answer => answer.map_err(|error| CallFailed {
                message: error.to_string(),
                fatal: !error.is_retryable(),
            }),
            () = self.timer.sleep_until(self.deadline) => Err(CallFailed {
                message: format!("{} gave no answer in time", self.backend.describe()),
                fatal: false,
            }),
        }
    }
}
