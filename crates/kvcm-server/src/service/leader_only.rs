//! What every call passes that only a leader serves.

use std::sync::Arc;

use kvcm_cache::RequestOutcome;
use kvcm_clock::wall_clock_ms;
use kvcm_fence::Epoch;
use kvcm_proto::admin;
use prost::Message;

use super::Services;
use crate::{
    http::CallContext,
    reign::Reign,
    reply::{CallError, Code, Header, Reply},
    requests::{self, Answer, Begun},
    turn::Turn,
};

impl Services {
    /// Serves a call that changes nothing: admit, evaluate, confirm.
    pub(super) fn read<R: Reply>(
        &self,
        context: &CallContext,
        trace_id: &str,
        work: impl FnOnce(&Reign) -> Result<R, CallError>,
    ) -> R {
        let Some((admission, reign)) = self.admit(context) else {
            return R::only(Header::not_leader(trace_id, &self.cluster));
        };
        let result = match &context.fault {
            Some(fault) => Err(fault.clone()),
            None => work(&reign),
        };
        // Evaluated by a node that may not lead any more, an answer could be older than what the
        // new leader has answered already.
        if admission.confirm().is_err() {
            return R::only(Header::not_leader(trace_id, &self.cluster));
        }
        self.answer(trace_id, admission.epoch(), result)
    }

    /// Serves a call that changes something. With a request id a repeat gets the same answer: one
    /// that an index or the registry has recorded is told anew by `again`.
    pub(super) async fn write<R, Q, F>(
        &self,
        context: &CallContext,
        rpc: &str,
        trace_id: &str,
        request: Q,
        work: impl FnOnce(Turn, Q) -> F + Send,
        again: impl FnOnce(&Reign, &Q, Option<RequestOutcome>) -> Result<R, CallError> + Send,
    ) -> R
    where
        R: Reply,
        Q: Message,
        F: Future<Output = Result<R, CallError>> + Send,
    {
        let Some((admission, reign)) = self.admit(context) else {
            return R::only(Header::not_leader(trace_id, &self.cluster));
        };
        let epoch = admission.epoch();
        if let Some(fault) = &context.fault {
            return self.answer(trace_id, epoch, Err(fault.clone()));
        }
        let Some(id) = &context.request_id else {
            let result = work(Turn::new(reign.clone(), None), request).await;
            let result = admission.confirm().map_err(unknown).and(result);
            return self.answer(trace_id, epoch, result);
        };
        let key = requests::key(id, rpc, &request);
        let recorded = || reign.recorded(key.id);
        let result = match reign.requests.begin(key, recorded).await {
            Begun::New(ticket) => {
                let turn = Turn::new(reign.clone(), Some(key));
                let result = work(turn, request).await;
                let result = admission.confirm().map_err(unknown).and(result);
                let result = result.map_err(|error| match recorded() {
                    None | Some((_, Answer::Recorded(RequestOutcome::BadMask(_)))) => error,
                    // An earlier try, whose outcome was not known, was stored meanwhile.
                    Some(_) => asked_again(),
                });
                // A failure that is nobody's fault may not come again: the repeat tries once more.
                let passes = |code| matches!(code, Code::Io | Code::Internal);
                let is_definite = !matches!(&result, Err(error) if passes(error.code));
                if is_definite && recorded().is_none() {
                    ticket.keep(result.as_ref().map(drop).map_err(Clone::clone));
                }
                result
            }
            Begun::Answered(answer) => {
                let told = match answer {
                    Answer::Refused(error) => Err(error),
                    Answer::Recorded(RequestOutcome::BadMask(why)) => {
                        Err(CallError::new(Code::InvalidArgument, why))
                    }
                    Answer::Recorded(outcome) => again(&reign, &request, Some(outcome)),
                    Answer::Done => again(&reign, &request, None),
                };
                admission.confirm().map_err(unknown).and(told)
            }
            Begun::OtherBody => {
                let message = format!("request id `{id}` was used for another request");
                Err(CallError::new(Code::InvalidArgument, message))
            }
        };
        self.answer(trace_id, epoch, result)
    }

    /// Serves a call of AdminService that changes something and answers with nothing but how it
    /// went.
    pub(super) async fn change<Q, F>(
        &self,
        context: &CallContext,
        rpc: &str,
        trace_id: &str,
        request: Q,
        work: impl FnOnce(Turn, Q) -> F + Send,
    ) -> admin::CommonResponse
    where
        Q: Message,
        F: Future<Output = Result<(), CallError>> + Send,
    {
        // Its answers are of another type than those of the calls that MetaService has as well.
        let rpc = format!("admin.{rpc}");
        let work = |turn, request| {
            let done = work(turn, request);
            async move { done.await.map(|()| admin::CommonResponse::default()) }
        };
        self.write(context, &rpc, trace_id, request, work, said_all)
            .await
    }

    /// Lets the call in when this node leads, in an epoch that the client accepts.
    fn admit(&self, context: &CallContext) -> Option<(elector::Admission<'_>, Arc<Reign>)> {
        if context.unverified {
            return None;
        }
        let admission = self.cluster.elector().gate().admit().ok()?;
        if context.min_epoch > admission.epoch() {
            // The client has seen a later leader; the next reign of this node must be later still.
            if is_plausible(context.min_epoch, wall_clock_ms()) {
                self.cluster.elector().epoch_seen(context.min_epoch);
            }
            return None;
        }
        let reign = self.reigns.current(admission.epoch())?;
        Some((admission, reign))
    }

    fn answer<R: Reply>(&self, trace_id: &str, epoch: Epoch, result: Result<R, CallError>) -> R {
        let (mut reply, header) = match result {
            Ok(reply) => (reply, Header::ok(trace_id)),
            Err(error) => (R::default(), Header::refused(trace_id, error)),
        };
        reply.set_header(header.by_leader(epoch, &self.cluster));
        reply
    }
}

/// Tells an answer anew that is nothing but its header.
pub(super) fn said_all<R: Reply, Q>(
    _: &Reign,
    _: &Q,
    _: Option<RequestOutcome>,
) -> Result<R, CallError> {
    Ok(R::default())
}

fn asked_again() -> CallError {
    let message = "an earlier call with this request id was stored after all, ask again";
    CallError::new(Code::Io, message)
}

/// Whether a leader may ever have had this epoch. Epochs start at the wall clock's milliseconds and
/// rise by one with each change of leader, so none is years ahead of the clock. Without the bound one
/// call with the highest number there is would leave no epoch for any leader to come.
fn is_plausible(epoch: Epoch, wall_ms: u64) -> bool {
    const AHEAD_MAX_MS: u64 = 10 * 365 * 24 * 3_600_000;
    epoch.get() <= wall_ms.saturating_add(AHEAD_MAX_MS)
}

/// The change was made in memory that may be gone by now.
fn unknown(lost: elector::Lost) -> CallError {
    CallError::new(
        Code::Io,
        format!("{lost}; whether it was done is not known"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_caller_can_use_up_all_epochs() {
        let now = 1_800_000_000_000;
        let epoch = |value| Epoch::new(value).unwrap();
        assert!(is_plausible(epoch(7), now));
        // A year's worth of changes of leader, one each millisecond.
        assert!(is_plausible(epoch(now + 365 * 86_400_000), now));
        assert!(!is_plausible(Epoch::MAX, now));
    }
}
