//! What to do after a try that failed: decisions as data, made by a policy.
//!
//! The rules of the default policy:
//! - *not leader* and dead transports are retried until the call's deadline: a handful of tries
//!   would end long before any lease does;
//! - other failures are retried a few times only;
//! - a move without a wait needs a newer epoch, so two nodes that name each other cannot make a
//!   hot loop.
//!
//! What all calls of a client share is decided elsewhere: how often it searches for the leader
//! ([`search`](crate::search)), and how many repeats it may spend ([`budget`](crate::budget)).

use std::{fmt, sync::Arc, time::Duration};

use kvcm_clock::{Backoff, BackoffPolicy, Random};

/// How a try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// The node does not lead. Nothing was executed.
    NotLeader {
        /// When to ask again, as the node told; zero when it did not.
        retry_after: Duration,
    },
    /// The reply carried an older epoch than one already seen, and was discarded.
    StaleReply,
    /// A newer leader became known while the node was silent; the try was abandoned.
    Superseded,
    /// No connection. Nothing was executed.
    Unreachable,
    /// The connection died during the call.
    Broken,
    /// No answer within the time of one try.
    Silent,
    /// The node cannot do it now.
    Busy {
        /// When to try again, as the node told; zero when it did not.
        retry_after: Duration,
    },
    /// Nodes answered, and none knows a leader.
    NoLeader,
    /// Nodes answered and name a leader whose address cannot be reached from here.
    LeaderUnreachable,
    /// No node answered.
    NoNode,
    /// A definite answer that no retry changes.
    Final,
}

/// What a decision depends on, beside the failure itself.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Situation {
    /// A newer leader at another address is known.
    pub newer_leader: bool,
    /// Until the call's deadline.
    pub remaining: Duration,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The same node again, after a wait.
    RetryHere {
        /// The wait.
        wait: Duration,
    },
    /// The newer leader, at once.
    Redirect,
    /// Find out who leads, after a wait that ends early when a leader becomes known.
    Rediscover {
        /// The wait.
        wait: Duration,
    },
    /// No more.
    GiveUp(Reason),
}

/// Why a call is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The answer is definite.
    Definite,
    /// The deadline has passed.
    Deadline,
    /// Tried often enough.
    Tries,
    /// The retry budget leaves no time for another try.
    Budget,
}

/// Decides what follows the failures of calls. One policy serves all calls of a client; each call
/// has a session of it.
pub trait RetryPolicy: fmt::Debug + Send + Sync + 'static {
    /// A call begins.
    fn session(&self) -> Box<dyn RetrySession>;
}

/// The decisions of one call.
pub trait RetrySession: Send + Sync {
    /// What follows `failure`. Waits take their jitter from `random`.
    ///
    /// The caller never waits beyond the call's deadline, and pays repeats at the same leader from
    /// the retry budget, whatever is decided.
    fn decide(
        &mut self,
        failure: Failure,
        situation: &Situation,
        random: &mut dyn Random,
    ) -> Decision;
}

/// The policy of a client that is not given another one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct DefaultPolicy {
    /// Waits between tries at a busy node: 10 ms, doubled, times 0.5–1.5, at most 1 s.
    pub backoff: BackoffPolicy,
    /// Waits before a search while a leader is expected to appear: 12.5–37.5 ms.
    pub poll: BackoffPolicy,
    /// Tries that may end in a failure which says nothing about leadership.
    pub other_tries_max: u32,
    /// A node that is busy this often may have lost the lock without noticing: ask around.
    pub busy_tries_before_discovery: u32,
}

impl Failure {
    /// Whether the operation may have happened.
    pub fn may_have_happened(self) -> bool {
        matches!(
            self,
            Self::StaleReply | Self::Superseded | Self::Broken | Self::Silent
        )
    }

    /// Whether the node's leadership is in doubt.
    pub fn doubts_leader(self) -> bool {
        !matches!(self, Self::Final | Self::Busy { .. }) && !self.is_search()
    }

    /// Whether a search failed, and not a try at a node.
    pub fn is_search(self) -> bool {
        matches!(
            self,
            Self::NoLeader | Self::LeaderUnreachable | Self::NoNode
        )
    }

    /// Whether the connection is of no use any more.
    pub(crate) fn breaks_connection(self) -> bool {
        matches!(self, Self::Unreachable | Self::Broken | Self::Silent)
    }

    /// One word, for metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotLeader { .. } => "not_leader",
            Self::StaleReply => "stale_reply",
            Self::Superseded => "superseded",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
            Self::Silent => "silent",
            Self::Busy { .. } => "busy",
            Self::NoLeader => "no_leader",
            Self::LeaderUnreachable => "leader_unreachable",
            Self::NoNode => "no_node",
            Self::Final => "final",
        }
    }
}

// === impl DefaultPolicy ===

impl Default for DefaultPolicy {
    fn default() -> Self {
        Self {
            backoff: BackoffPolicy::CLIENT,
            poll: BackoffPolicy {
                first: Duration::from_millis(25),
                cap: Duration::from_millis(50),
                factor: 1.0,
                jitter: 0.5,
            },
            other_tries_max: 5,
            busy_tries_before_discovery: 2,
        }
    }
}

impl DefaultPolicy {
    pub(crate) fn shared() -> Arc<dyn RetryPolicy> {
        Arc::new(Self::default())
    }
}

impl RetryPolicy for DefaultPolicy {
    fn session(&self) -> Box<dyn RetrySession> {
        Box::new(Session {
            backoff: Backoff::new(self.backoff),
            polls: Backoff::new(self.poll),
            policy: *self,
            failures: 0,
            other_failures: 0,
        })
    }
}

/// One call under the default policy.
#[derive(Debug)]
struct Session {
    policy: DefaultPolicy,
    backoff: Backoff,
    polls: Backoff,
    failures: u32,
    /// Failures that say nothing about leadership.
    other_failures: u32,
}

impl RetrySession for Session {
    fn decide(
        &mut self,
        failure: Failure,
        situation: &Situation,
        random: &mut dyn Random,
    ) -> Decision {
        self.failures += 1;
        if failure == Failure::Final {
            return Decision::GiveUp(Reason::Definite);
        }
        if situation.remaining.is_zero() {
            return Decision::GiveUp(Reason::Deadline);
        }
        if situation.newer_leader {
            self.polls.reset();
            return Decision::Redirect;
        }
        let wait = match failure {
            Failure::Busy { retry_after } => return self.busy(retry_after, situation, random),
            // What refuses is one node, what is awaited is any node of the cluster: the push-back
            // cannot hold the client longer than the poll does.
            Failure::NotLeader { retry_after } => {
                let poll = self.polls.next(random);
                poll.max(retry_after.min(self.policy.poll.cap))
            }
            // The search itself keeps its distance from the one before.
            _ if failure.is_search() => Duration::ZERO,
            // The first death is news: the others may already know better.
            _ if self.failures == 1 => Duration::ZERO,
            _ => self.polls.next(random),
        };
        Decision::Rediscover {
            wait: wait.min(situation.remaining),
        }
    }
}

impl Session {
    fn busy(
        &mut self,
        retry_after: Duration,
        situation: &Situation,
        random: &mut dyn Random,
    ) -> Decision {
        self.other_failures += 1;
        if self.other_failures >= self.policy.other_tries_max {
            return Decision::GiveUp(Reason::Tries);
        }
        let wait = self.backoff.next(random).max(retry_after);
        let wait = wait.min(situation.remaining);
        if self.other_failures >= self.policy.busy_tries_before_discovery {
            Decision::Rediscover { wait }
        } else {
            Decision::RetryHere { wait }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const NOT_LEADER: Failure = Failure::NotLeader {
        retry_after: Duration::ZERO,
    };
    const BUSY: Failure = Failure::Busy {
        retry_after: Duration::ZERO,
    };

    /// Always the middle: jitter changes nothing.
    struct Middle;

    impl Random for Middle {
        fn next_u64(&mut self) -> u64 {
            1 << 63
        }
    }

    fn situation() -> Situation {
        Situation {
            newer_leader: false,
            remaining: MS * 5000,
        }
    }

    fn after(session: &mut dyn RetrySession, failure: Failure) -> Decision {
        session.decide(failure, &situation(), &mut Middle)
    }

    fn session() -> Box<dyn RetrySession> {
        DefaultPolicy::default().session()
    }

    fn rediscover(ms: u32) -> Decision {
        Decision::Rediscover { wait: MS * ms }
    }

    const DOUBTFUL: [Failure; 6] = [
        NOT_LEADER,
        Failure::StaleReply,
        Failure::Superseded,
        Failure::Unreachable,
        Failure::Broken,
        Failure::Silent,
    ];
    const SEARCHES: [Failure; 3] = [
        Failure::NoLeader,
        Failure::LeaderUnreachable,
        Failure::NoNode,
    ];

    #[test]
    fn a_newer_leader_is_followed_at_once_whatever_failed() {
        let moved = Situation {
            newer_leader: true,
            ..situation()
        };
        for failure in DOUBTFUL.into_iter().chain(SEARCHES).chain([BUSY]) {
            let decision = session().decide(failure, &moved, &mut Middle);
            assert_eq!(decision, Decision::Redirect, "{failure:?}");
        }
    }

    #[test]
    fn without_a_newer_epoch_every_doubt_waits_and_asks_around() {
        for failure in DOUBTFUL {
            let mut session = session();
            after(&mut *session, failure);
            assert_eq!(after(&mut *session, failure), rediscover(25), "{failure:?}");
            assert!(failure.doubts_leader());
        }
    }

    #[test]
    fn leadership_failures_are_retried_until_the_deadline_and_no_longer() {
        for failure in DOUBTFUL.into_iter().chain(SEARCHES) {
            let mut session = session();
            for _ in 0..10_000 {
                assert!(matches!(
                    after(&mut *session, failure),
                    Decision::Rediscover { .. }
                ));
            }
            let late = Situation {
                remaining: Duration::ZERO,
                newer_leader: true,
            };
            let decision = session.decide(failure, &late, &mut Middle);
            assert_eq!(decision, Decision::GiveUp(Reason::Deadline));
        }
    }

    #[test]
    fn the_first_death_is_looked_into_without_a_wait_but_a_refusal_is_not() {
        for failure in [Failure::Unreachable, Failure::Broken, Failure::Silent] {
            assert_eq!(after(&mut *session(), failure), rediscover(0));
        }
        assert_eq!(after(&mut *session(), NOT_LEADER), rediscover(25));
    }

    #[test]
    fn searches_keep_their_own_distance() {
        for failure in SEARCHES {
            let mut session = session();
            after(&mut *session, failure);
            assert_eq!(after(&mut *session, failure), rediscover(0));
        }
    }

    #[test]
    fn busy_is_retried_here_then_elsewhere_then_given_up_after_five_tries() {
        let mut session = session();
        assert_eq!(
            after(&mut *session, BUSY),
            Decision::RetryHere { wait: MS * 10 }
        );
        for ms in [20, 40, 80] {
            assert_eq!(after(&mut *session, BUSY), rediscover(ms));
        }
        assert_eq!(after(&mut *session, BUSY), Decision::GiveUp(Reason::Tries));
    }

    #[test]
    fn push_back_is_a_lower_bound_of_the_wait() {
        let busy = Failure::Busy {
            retry_after: MS * 900,
        };
        assert_eq!(
            after(&mut *session(), busy),
            Decision::RetryHere { wait: MS * 900 }
        );
        let refused = Failure::NotLeader {
            retry_after: MS * 900,
        };
        assert_eq!(after(&mut *session(), refused), rediscover(50));
    }

    #[test]
    fn no_wait_reaches_beyond_the_deadline() {
        let short = Situation {
            remaining: MS * 3,
            ..situation()
        };
        let decision = session().decide(NOT_LEADER, &short, &mut Middle);
        assert_eq!(decision, rediscover(3));
        let decision = session().decide(BUSY, &short, &mut Middle);
        assert_eq!(decision, Decision::RetryHere { wait: MS * 3 });
    }

    #[test]
    fn a_definite_answer_is_final() {
        let moved = Situation {
            newer_leader: true,
            ..situation()
        };
        let decision = session().decide(Failure::Final, &moved, &mut Middle);
        assert_eq!(decision, Decision::GiveUp(Reason::Definite));
    }

    #[test]
    fn only_answers_and_refused_connections_prove_that_nothing_happened() {
        for failure in [NOT_LEADER, BUSY, Failure::Unreachable, Failure::NoLeader] {
            assert!(!failure.may_have_happened(), "{failure:?}");
        }
        for failure in [Failure::Broken, Failure::Silent, Failure::StaleReply] {
            assert!(failure.may_have_happened(), "{failure:?}");
        }
    }
}
