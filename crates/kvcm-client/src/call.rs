//! The one retry loop that every call of the leader goes through.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use kvcm_clock::{Backoff, BackoffPolicy};
use kvcm_proto::meta::CommonResponseHeader;
use tokio::time::Instant;

use crate::{
    attempt::{Attempt, Story},
    core::Core,
    error::{Error, ErrorKind, Outcome},
    leader::{Leader, Verdict},
    node::Node,
    policy::{Decision, Failure, Reason, State, decide},
    reply::CallMeta,
    rpc::{Failed, Incoming, Outgoing},
    settings::POLL,
    stats::count,
};

/// A repeat with less time than this would only blur what the error tells.
const TRY_LEAST: Duration = Duration::from_millis(20);

/// A call of the leader.
#[derive(Clone, Debug)]
pub(crate) struct Call {
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
    failures: u32,
    other_failures: u32,
    may_have_happened: bool,
    /// The last failure that was not merely a try cut short by the deadline: it names the error.
    telling: Option<Failure>,
    backoff: Backoff,
    polls: Backoff,
    /// A search helps this call only when it began after what the call knows already.
    search_since: Instant,
}

impl Core {
    /// Calls the leader, whoever that is by then, until there is a definite answer or the
    /// deadline has passed.
    pub(crate) async fn call(self: &Arc<Self>, call: &Call) -> Result<Answer, Error> {
        self.touch();
        Box::pin(Progress::new(self, call).run()).await
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
            failures: 0,
            other_failures: 0,
            may_have_happened: false,
            telling: None,
            backoff: Backoff::new(BackoffPolicy::CLIENT),
            polls: Backoff::new(POLL),
            // A client that starts many calls while nobody leads need not search for each.
            search_since: started.checked_sub(POLL.first).unwrap_or(started),
        }
    }

    async fn run(mut self) -> Result<Answer, Error> {
        loop {
            let step_started = Instant::now();
            let (leader, result) = match self.leader().await {
                Ok(leader) => {
                    self.tries += 1;
                    let result = self.attempt(&leader).await;
                    (Some(leader), result)
                }
                Err(failed) => (None, Err(failed)),
            };
            let failed = match result {
                Ok(incoming) => return Ok(self.answer(leader.as_deref(), incoming)),
                Err(failed) => failed,
            };
            self.note(leader.as_deref(), &failed, step_started.elapsed());
            match self.decide(leader.as_deref(), &failed) {
                Decision::GiveUp(reason) => return Err(self.error(&failed, reason)),
                Decision::Redirect => {
                    count(&self.core.counters.redirects);
                    self.polls.reset();
                }
                Decision::RetryHere { wait } => {
                    self.retried(wait);
                    tokio::time::sleep(wait).await;
                }
                Decision::Rediscover { wait } => {
                    self.retried(wait);
                    self.search_since = Instant::now();
                    self.core.wait_for_news(wait).await;
                }
            }
            if self.remaining() < TRY_LEAST {
                return Err(self.error(&failed, Reason::Deadline));
            }
        }
    }

    /// Where to send: what the table says, or what a search finds.
    async fn leader(&self) -> Result<Arc<Leader>, Failed> {
        if let Some(leader) = self.core.route() {
            return Ok(leader);
        }
        let search = self.core.search(self.search_since, false);
        let nobody = |text: String| Failed::local(Failure::NoLeader, text);
        match tokio::time::timeout_at(self.call.deadline, search).await {
            Ok(round) => self.core.route().ok_or_else(|| nobody(round.to_string())),
            Err(_) => Err(nobody("no node answered in time".to_owned())),
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
        let result = tokio::select! {
            biased;
            result = self.core.send(&leader.address, &outgoing) => result,
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
        if failed.failure.doubts_leader() {
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
        self.failures += 1;
        if matches!(failed.failure, Failure::Busy { .. }) {
            self.other_failures += 1;
            if self.other_failures >= 2
                && let Some(leader) = leader
            {
                // Busy for long: it may have lost the lock and not know it.
                self.core.table.send_modify(|table| table.suspect(leader));
            }
        }
        let cut_short = failed.failure == Failure::Silent
            && self.remaining() < self.core.settings.attempt_timeout;
        if self.telling.is_none() || !cut_short {
            self.telling = Some(failed.failure);
        }
        self.may_have_happened |= self.call.mutating && failed.failure.may_have_happened();
        let newer_leader = match leader {
            Some(leader) => self.core.table.borrow().moved_from(leader),
            None => false,
        };
        // Only what makes a server work costs a token.
        let is_free = newer_leader || leader.is_none() || failed.failure == Failure::Final;
        let token = is_free || self.core.budget.spend(Instant::now());
        if !token {
            count(&self.core.counters.budget_empty);
        }
        let state = State {
            newer_leader,
            other_failures: self.other_failures,
            failures: self.failures,
            remaining: self.remaining(),
            backoff: self.core.next_wait(&mut self.backoff),
            poll: self.core.next_wait(&mut self.polls),
            poll_cap: POLL.cap,
            token,
        };
        decide(failed.failure, &state)
    }

    fn remaining(&self) -> Duration {
        self.call.deadline.saturating_duration_since(Instant::now())
    }

    fn retried(&mut self, wait: Duration) {
        count(&self.core.counters.retries);
        self.story.waited(wait);
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
        if self.failures == 0 {
            self.core.budget.earn();
        }
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
            },
        }
    }

    fn error(self, failed: &Failed, reason: Reason) -> Error {
        let telling = self.telling.unwrap_or(failed.failure);
        let kind = match (reason, telling) {
            (Reason::Definite | Reason::Tries | Reason::Budget, _) => kind_of(failed),
            (
                Reason::Deadline,
                Failure::NotLeader { .. } | Failure::NoLeader | Failure::StaleReply,
            ) => ErrorKind::NoLeader,
            (Reason::Deadline, Failure::Unreachable | Failure::Broken) => ErrorKind::Transport,
            (Reason::Deadline, _) => ErrorKind::DeadlineExceeded,
        };
        let outcome = if self.may_have_happened && reason != Reason::Definite {
            Outcome::Unknown
        } else {
            Outcome::NotDone
        };
        let after = self.started.elapsed().as_millis();
        let last = self.story.last_result();
        let message = match reason {
            Reason::Definite => last.to_owned(),
            Reason::Deadline => format!("gave up after {after} ms, last: {last}"),
            Reason::Tries => format!("gave up after {} tries, last: {last}", self.tries),
            Reason::Budget => format!("the retry budget is spent, last: {last}"),
        };
        let (attempts, total) = self.story.into_parts();
        Error::new(kind, outcome, self.call.name, message).with_attempts(attempts, total)
    }
}

/// Never returns; what it finds wakes [`Core::superseded`].
async fn ask_around_while_silent(core: &Arc<Core>) {
    tokio::time::sleep(core.settings.silence_delay).await;
    let mut polls = Backoff::new(POLL);
    loop {
        core.search(Instant::now(), true).await;
        let wait = core.next_wait(&mut polls);
        tokio::time::sleep(wait).await;
    }
}

/// The kind of a definite failure.
pub(crate) fn kind_of(failed: &Failed) -> ErrorKind {
    use kvcm_proto::meta::ErrorCode;
    use tonic::Code;

    if let Some(status) = failed.status {
        return match status {
            Code::Unimplemented => ErrorKind::Unsupported,
            Code::InvalidArgument | Code::OutOfRange => ErrorKind::InvalidArgument,
            Code::ResourceExhausted => ErrorKind::Capacity,
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
