//! The one retry loop that every call of the leader goes through.

mod giving_up;
mod one_try;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use kvcm_proto::meta::ErrorCode;
use tokio::time::Instant;
use tracing::Instrument;

pub(crate) use giving_up::kind_of;

use crate::{
    attempt::{Attempt, Story},
    budget::Slot,
    core::Core,
    error::{Error, ErrorKind},
    leader::Leader,
    policy::{Decision, Failure, Reason, RetrySession, Situation},
    reply::CallMeta,
    rpc::{Failed, Incoming},
    stats::count,
};

/// A repeat with less time than this would only blur what the error tells.
const TRY_LEAST: Duration = Duration::from_millis(20);

/// Searches that began so shortly before a call are as good as its own: a client that starts many
/// calls while nobody leads need not search for each.
const SEARCH_SHARED: Duration = Duration::from_millis(25);

/// Which of the leader's services is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Meta,
    Admin,
}

/// A call of the leader.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) service: Service,
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) body: Bytes,
    /// Carries a request id, the same over all tries, so that the server executes it once.
    pub(crate) mutating: bool,
    pub(crate) deadline: Instant,
}

/// A successful answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) body: Bytes,
    pub(crate) meta: CallMeta,
}

/// The state of one call between its tries.
struct Progress<'a> {
    core: &'a Arc<Core>,
    call: &'a Call,
    request_id: Option<String>,
    started: Instant,
    story: Story,
    tries: u32,
    /// Tries at a leader that had failed this call before.
    repeats: u32,
    session: Box<dyn RetrySession>,
    /// The leader that failed last, and how. Going there again is a repeat.
    failed: Option<(Option<Arc<Leader>>, Failed)>,
    may_have_happened: bool,
    /// The last failure that was not merely a try cut short by the deadline: it names the error.
    telling: Option<Failure>,
    /// A search helps this call only when it began after what the call knows already.
    search_since: Instant,
}

impl Core {
    /// Calls the leader, whoever that is by then, until there is a definite answer or the
    /// deadline has passed.
    pub(crate) async fn call(self: &Arc<Self>, call: &Call) -> Result<Answer, Error> {
        let permit = tokio::time::timeout_at(call.deadline, self.in_flight.acquire());
        let closed = || Error::local(ErrorKind::Closed, call.name, "the client is closed");
        if self.is_closing.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(closed());
        }
        let _permit = match permit.await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(closed()),
            Err(_) => {
                let most = self.settings.in_flight_max;
                let why = format!("{most} calls were under way until the deadline");
                return Err(Error::local(ErrorKind::Capacity, call.name, why));
            }
        };
        self.touch();
        self.budget.earn(Instant::now());
        let progress = Progress::new(self, call);
        let span = tracing::debug_span!(
            "kvcm_call",
            call = call.name,
            request_id = progress.request_id.as_deref(),
        );
        Box::pin(progress.run().instrument(span)).await
    }
}

impl<'a> Progress<'a> {
    fn new(core: &'a Arc<Core>, call: &'a Call) -> Self {
        let started = Instant::now();
        Self {
            core,
            call,
            request_id: call.mutating.then(|| core.next_request_id()),
            started,
            story: Story::default(),
            tries: 0,
            repeats: 0,
            session: core.policy.session(),
            failed: None,
            may_have_happened: false,
            telling: None,
            search_since: started.checked_sub(SEARCH_SHARED).unwrap_or(started),
        }
    }

    async fn run(mut self) -> Result<Answer, Error> {
        loop {
            let step_started = Instant::now();
            let (leader, result) = match self.leader().await {
                Ok(leader) => {
                    if let Some(wait) = self.price(&leader) {
                        self.pay(wait).await?;
                        continue;
                    }
                    self.tries += 1;
                    let result = self.attempt(&leader).await;
                    if let Err(failed) = &result {
                        self.note(Some(&leader), failed, step_started.elapsed());
                    }
                    (Some(leader), result)
                }
                Err(failed) => {
                    self.note(None, &failed, step_started.elapsed());
                    (None, Err(failed))
                }
            };
            let failed = match result {
                Ok(incoming) => return Ok(self.answer(leader.as_deref(), incoming)),
                Err(failed) => failed,
            };
            match self.decide(leader.as_deref(), &failed) {
                Decision::GiveUp(reason) => return Err(self.error(&failed, reason)),
                Decision::Redirect => count(&self.core.counters.redirects),
                Decision::RetryHere { wait } => {
                    let wait = self.retried(&failed, wait);
                    tokio::time::sleep(wait).await;
                }
                Decision::Rediscover { wait } => {
                    if let (Failure::Busy { .. }, Some(leader)) = (failed.failure, &leader)
                        && !self.core.is_pushed()
                    {
                        // Busy for long: it may have lost the lock and not know it.
                        self.core.table.send_modify(|table| table.suspect(leader));
                    }
                    let wait = self.retried(&failed, wait);
                    // Not the search that has just failed, even where the clock stood still since.
                    self.search_since = Instant::now() + Duration::from_nanos(1);
                    self.core.wait_for_news(wait).await;
                }
            }
            if self.remaining() < TRY_LEAST {
                return Err(self.error(&failed, Reason::Deadline));
            }
            self.failed = Some((leader, failed));
        }
    }

    /// What a try at `leader` costs when it failed this call before: a wait for the slot that was
    /// taken, `Err` when there is none in time. `None`: nothing; moves are free.
    fn price(&mut self, leader: &Leader) -> Option<Result<Duration, Duration>> {
        let (before, failed) = self.failed.as_ref()?;
        let before = before.as_deref()?;
        if before.epoch != leader.epoch || before.address != leader.address {
            return None;
        }
        self.repeats += 1;
        let is_free = match failed.failure {
            Failure::NotLeader { .. } | Failure::Busy { .. } => false,
            // Its own time-out keeps the repeats of a call apart.
            Failure::Silent => true,
            // A connection that dies takes all its calls along: each may come back once.
            _ => self.repeats == 1,
        };
        if is_free {
            return None;
        }
        let patience = self.remaining().saturating_sub(TRY_LEAST);
        let slot = self.core.budget.spend(Instant::now(), patience);
        let share = self.core.with_random(|random| random.next_f64());
        let wait = match slot {
            Some(Slot::Now) => return None,
            Some(Slot::Within(limit)) => Ok(limit.mul_f64(share)),
            Some(Slot::After(wait)) => Ok(wait.mul_f64(1.0 + share)),
            None => Err(patience),
        };
        if !matches!(slot, Some(Slot::Within(_))) {
            count(&self.core.counters.budget_empty);
        }
        Some(wait.map(|wait| wait.min(patience)))
    }

    /// Waits for the slot, or for news. Without a slot only news helps.
    async fn pay(&mut self, price: Result<Duration, Duration>) -> Result<(), Error> {
        let (Ok(wait) | Err(wait)) = price;
        self.story.waited(wait);
        let is_news = self.core.wait_for_news(wait).await;
        let Some((_, failed)) = self.failed.take() else {
            return Ok(());
        };
        let reason = match price {
            Err(_) if !is_news => Reason::Budget,
            _ if self.remaining() < TRY_LEAST => Reason::Deadline,
            _ => return Ok(()),
        };
        Err(self.error(&failed, reason))
    }

    /// Where to send: what the table says, or what a search finds.
    async fn leader(&self) -> Result<Arc<Leader>, Failed> {
        if let Some(leader) = self.core.route() {
            return Ok(leader);
        }
        let search = self
            .core
            .search(self.search_since, true, Some(self.call.deadline));
        // Whatever makes a leader known ends the search for it.
        let known = self.core.news();
        let nobody = |failure, text: String| Failed::local(failure, text);
        let found = async {
            tokio::select! {
                biased;
                round = search => round,
                () = known => None,
            }
        };
        match tokio::time::timeout_at(self.call.deadline, found).await {
            Ok(round) => self.core.route().ok_or_else(|| match round {
                Some(round) => nobody(round.failure(), round.to_string()),
                None => nobody(Failure::NoLeader, "a leader came and went".to_owned()),
            }),
            Err(_) => Err(match self.core.searches.last() {
                Some(round) => nobody(round.failure(), round.to_string()),
                None => nobody(Failure::NoNode, "no node answered in time".to_owned()),
            }),
        }
    }

    fn decide(&mut self, leader: Option<&Leader>, failed: &Failed) -> Decision {
        let cut_short = failed.failure == Failure::Silent
            && self.remaining() < self.core.settings.attempt_timeout;
        if self.telling.is_none() || !cut_short {
            self.telling = Some(failed.failure);
        }
        // A leader that lost its lease between doing and answering says IO_ERROR.
        let is_unknown = failed.failure.may_have_happened()
            || [ErrorCode::IoError, ErrorCode::UnknownError].contains(&giving_up::code_of(failed));
        self.may_have_happened |= self.call.mutating && is_unknown;
        let newer_leader = match leader {
            Some(leader) => self.core.table.borrow().moved_from(leader),
            None => false,
        };
        let situation = Situation {
            newer_leader,
            remaining: self.remaining(),
        };
        let session = &mut self.session;
        self.core
            .with_random(|random| session.decide(failed.failure, &situation, random))
    }

    fn remaining(&self) -> Duration {
        self.call.deadline.saturating_duration_since(Instant::now())
    }

    /// Takes note of a wait, which never reaches beyond the deadline.
    fn retried(&mut self, failed: &Failed, wait: Duration) -> Duration {
        let wait = wait.min(self.remaining());
        self.core.counters.retried(failed.failure);
        self.story.waited(wait);
        wait
    }

    fn note(&mut self, leader: Option<&Leader>, failed: &Failed, elapsed: Duration) {
        tracing::debug!(
            call = self.call.name,
            node = leader.map(|leader| leader.address.as_str()),
            epoch = leader.map(|leader| leader.epoch),
            failure = ?failed.failure,
            text = failed.text,
            ?elapsed,
            "a try failed"
        );
        self.story.push(Attempt {
            node: leader.map(|leader| leader.address.as_str().to_owned()),
            epoch: leader.map_or(0, |leader| leader.epoch),
            code: Some(failed.code).filter(|code| *code != 0),
            result: failed.text.clone(),
            elapsed,
            wait: Duration::ZERO,
        });
    }

    fn answer(self, leader: Option<&Leader>, incoming: Incoming) -> Answer {
        let cluster = self.core.table.borrow().cluster().clone();
        let node = leader.map_or("", |leader| leader.address.as_str());
        Answer {
            body: incoming.body,
            meta: CallMeta {
                epoch: incoming.header.epoch,
                node: node.into(),
                cluster_id: Some(cluster).filter(|id| !id.is_empty()),
                attempts: self.tries,
                elapsed: self.started.elapsed(),
                request_id: incoming.header.request_id,
                history: self.story.into_parts().0.into(),
            },
        }
    }
}
