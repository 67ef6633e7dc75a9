//! The one retry loop that every call of the leader goes through.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use kvcm_clock::Backoff;
use kvcm_proto::meta::{CommonResponseHeader, ErrorCode};
use tokio::time::Instant;
use tracing::Instrument;

use crate::{
    address::Address,
    attempt::{Attempt, Story},
    core::Core,
    error::{Error, ErrorKind, Outcome},
    leader::{Leader, Verdict},
    node::Node,
    policy::{Decision, Failure, Reason, RetrySession, Situation},
    reply::CallMeta,
    rpc::{Failed, Incoming, Outgoing},
    settings::{SEARCHES, SEARCHES_WHILE_PUSHED},
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
        let wait = self.core.budget.spend(Instant::now(), patience);
        if wait == Some(Duration::ZERO) {
            return None;
        }
        count(&self.core.counters.budget_empty);
        // Slots are a second apart, and clients that failed together have them together.
        let spread = 1.0 + self.core.with_random(|random| random.next_f64());
        let wait = wait.map(|wait| wait.mul_f64(spread).min(patience));
        Some(wait.ok_or(patience))
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
        let search = self.core.search(self.search_since, true);
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

    /// One try. It ends early when a newer leader becomes known, whose epoch would make this
    /// one's answer worthless; and while it lasts longer than usual, the client asks around.
    async fn attempt(&self, leader: &Arc<Leader>) -> Result<Incoming, Failed> {
        let outgoing = Outgoing {
            path: self.call.path,
            body: self.call.body.clone(),
            request_id: self.request_id.as_deref(),
            min_epoch: self.core.table.borrow().seen(),
            timeout: self.attempt_timeout(),
            reply_bytes_max: self.core.settings.reply_bytes_max,
        };
        let address = self.address(leader)?;
        let result = tokio::select! {
            biased;
            result = self.core.send(&address, &outgoing) => result,
            () = self.core.superseded(leader) => Err(Failed::local(
                Failure::Superseded,
                "abandoned for a newer leader",
            )),
            () = ask_around_while_silent(self.core) => Err(Failed::silent(outgoing.timeout)),
        };
        match result {
            Ok(incoming) => {
                self.believe(leader, &incoming.header)?;
                Ok(incoming)
            }
            Err(failed) => Err(self.learn(leader, failed)),
        }
    }

    /// Where the leader listens for this call.
    fn address(&self, leader: &Leader) -> Result<Address, Failed> {
        match self.call.service {
            Service::Meta => Ok(leader.address.clone()),
            Service::Admin => Address::parse(&leader.node.admin_endpoint)
                .map_err(|why| Failed::local(Failure::Unreachable, why)),
        }
    }

    /// A silent node must leave time for another one.
    fn attempt_timeout(&self) -> Duration {
        let remaining = self.remaining();
        let share = (remaining / 2).max(TRY_LEAST);
        self.core.settings.attempt_timeout.min(share).min(remaining)
    }

    /// Checks the epoch of an answer against what has been seen.
    fn believe(&self, leader: &Leader, header: &CommonResponseHeader) -> Result<(), Failed> {
        let cluster = header.cluster_id.as_deref();
        let epoch = header.epoch;
        if self.core.table.borrow().is_settled(cluster, epoch, leader) {
            return Ok(());
        }
        let mut verdict = Verdict::Fresh;
        self.core.table.send_if_modified(|table| {
            verdict = table.reply(cluster, epoch, leader);
            verdict == Verdict::Fresh
        });
        let Verdict::Stale { seen } = verdict else {
            return Ok(());
        };
        count(&self.core.counters.stale_replies);
        let epoch = epoch.unwrap_or(0);
        self.core.table.send_modify(|table| table.suspect(leader));
        Err(Failed::local(
            Failure::StaleReply,
            format!("a reply of epoch {epoch}, but epoch {seen} has been seen"),
        ))
    }

    /// Takes from a failure what it tells about leadership.
    fn learn(&self, leader: &Leader, failed: Failed) -> Failed {
        match (&failed.failure, &failed.header) {
            (Failure::NotLeader { .. }, Some(header)) => self.take_hint(header),
            (_, Some(header)) => {
                if let Err(stale) = self.believe(leader, header) {
                    return stale;
                }
            }
            (_, None) => {}
        }
        if matches!(failed.failure, Failure::NotLeader { .. }) {
            let mut is_news = false;
            self.core
                .table
                .send_modify(|table| is_news = table.refute(leader));
            if is_news {
                // Nothing is to wait behind it on a connection to a node that does not serve.
                self.core.transport.close(&leader.address);
            }
        } else if failed.failure.doubts_leader() {
            self.core.table.send_modify(|table| table.suspect(leader));
        }
        failed
    }

    fn take_hint(&self, header: &CommonResponseHeader) {
        let Some(hint) = &header.leader_hint else {
            return;
        };
        let endpoint = hint.endpoint.as_ref().and_then(Node::from_wire);
        let cluster = header.cluster_id.as_deref();
        let taken = self
            .core
            .table
            .send_if_modified(|table| table.hint(cluster, hint.epoch, endpoint));
        if !taken {
            count(&self.core.counters.stale_hints);
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
            || [ErrorCode::IoError, ErrorCode::UnknownError].contains(&code_of(failed));
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

    fn error(&mut self, failed: &Failed, reason: Reason) -> Error {
        let telling = self.telling.unwrap_or(failed.failure);
        let kind = match (reason, telling) {
            (Reason::Definite | Reason::Tries, _) | (Reason::Budget, Failure::Busy { .. }) => {
                kind_of(failed)
            }
            (_, Failure::NotLeader { .. } | Failure::NoLeader | Failure::StaleReply) => {
                ErrorKind::NoLeader
            }
            (_, Failure::LeaderUnreachable) => ErrorKind::LeaderUnreachable,
            (_, Failure::Unreachable | Failure::Broken | Failure::NoNode) => ErrorKind::Transport,
            (_, _) => ErrorKind::DeadlineExceeded,
        };
        let outcome = if self.may_have_happened && reason != Reason::Definite {
            Outcome::Unknown
        } else {
            Outcome::NotDone
        };
        let after = self.started.elapsed().as_millis();
        let last = self.story.last_result().to_owned();
        let message = match reason {
            Reason::Definite => last,
            Reason::Deadline => format!("gave up after {after} ms, last: {last}"),
            Reason::Tries => format!("gave up after {} tries, last: {last}", self.tries),
            Reason::Budget => {
                format!("the retry budget leaves no time for another try, last: {last}")
            }
        };
        let (attempts, total) = std::mem::take(&mut self.story).into_parts();
        Error::new(kind, outcome, self.call.name, message).with_attempts(attempts, total)
    }
}

/// Never returns; what it finds wakes [`Core::superseded`].
async fn ask_around_while_silent(core: &Arc<Core>) {
    tokio::time::sleep(core.settings.silence_delay).await;
    let mut waits = Backoff::new(if core.is_pushed() {
        SEARCHES_WHILE_PUSHED
    } else {
        SEARCHES
    });
    loop {
        core.search(Instant::now(), true).await;
        let wait = core.next_wait(&mut waits);
        tokio::time::sleep(wait).await;
    }
}

fn code_of(failed: &Failed) -> ErrorCode {
    ErrorCode::try_from(failed.code).unwrap_or(ErrorCode::Unspecified)
}

/// The kind of a definite failure.
pub(crate) fn kind_of(failed: &Failed) -> ErrorKind {
    use tonic::Code;

    if let Some(status) = failed.status {
        return match status {
            Code::Unimplemented => ErrorKind::Unsupported,
            Code::InvalidArgument | Code::OutOfRange => ErrorKind::InvalidArgument,
            Code::ResourceExhausted => ErrorKind::Capacity,
            Code::Unauthenticated | Code::PermissionDenied => ErrorKind::Unauthorized,
            _ => ErrorKind::Transport,
        };
    }
    match ErrorCode::try_from(failed.code) {
        Ok(ErrorCode::InvalidArgument) => ErrorKind::InvalidArgument,
        Ok(ErrorCode::InstanceNotExist) => ErrorKind::InstanceNotExist,
        Ok(ErrorCode::DuplicateEntity) => ErrorKind::Duplicate,
        Ok(ErrorCode::ReachMaxEntityCapacity) => ErrorKind::Capacity,
        Ok(ErrorCode::ServerNotLeader) => ErrorKind::NotLeader,
        Ok(ErrorCode::Unsupported) => ErrorKind::Unsupported,
        _ if failed.code != 0 => ErrorKind::Server(failed.code),
        _ => ErrorKind::Transport,
    }
}
