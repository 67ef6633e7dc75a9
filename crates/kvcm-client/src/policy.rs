//! What to do after a try that failed: the decision as a pure function.
//!
//! The seeds of the rules:
//! - *not leader* and dead transports are retried until the call's deadline: a handful of tries
//!   would end long before any lease does;
//! - other failures are retried a few times only;
//! - a move without a wait needs a newer epoch, so two nodes that name each other cannot make a
//!   hot loop;
//! - a client whose retry budget is spent waits longer instead of giving up on a failover.

use std::time::Duration;

/// Tries that may end in a failure which says nothing about leadership.
pub(crate) const OTHER_TRIES_MAX: u32 = 5;

/// A node that says "busy" this often may have lost the lock without noticing: ask around.
const BUSY_TRIES_BEFORE_DISCOVERY: u32 = 2;

/// How a try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The node does not lead. Nothing was executed.
    NotLeader { retry_after: Duration },
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
    Busy { retry_after: Duration },
    /// Nobody whom the client can reach knows a leader.
    NoLeader,
    /// A definite answer that no retry changes.
    Final,
}

impl Failure {
    /// Whether the operation may have happened.
    pub(crate) fn may_have_happened(self) -> bool {
        matches!(
            self,
            Self::StaleReply | Self::Superseded | Self::Broken | Self::Silent
        )
    }

    /// Whether the node's leadership is in doubt.
    pub(crate) fn doubts_leader(self) -> bool {
        !matches!(self, Self::Final | Self::Busy { .. } | Self::NoLeader)
    }

    /// Whether the connection is of no use any more.
    pub(crate) fn breaks_connection(self) -> bool {
        matches!(self, Self::Unreachable | Self::Broken | Self::Silent)
    }
}

/// What the decision depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// A newer leader at another address is known.
    pub(crate) newer_leader: bool,
    /// Failures of this call, this one included, that say nothing about leadership.
    pub(crate) other_failures: u32,
    /// Failures of this call, this one included.
    pub(crate) failures: u32,
    /// Until the call's deadline.
    pub(crate) remaining: Duration,
    /// The wait of the long series (up to 1 s).
    pub(crate) backoff: Duration,
    /// The wait of the short series (up to 50 ms), while a leader is expected to appear.
    pub(crate) poll: Duration,
    /// The longest wait of the short series.
    pub(crate) poll_cap: Duration,
    /// The retry budget had a token.
    pub(crate) token: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The same node again, after a wait.
    RetryHere { wait: Duration },
    /// The newer leader, at once.
    Redirect,
    /// Find out who leads, after a wait that ends early when a newer leader becomes known.
    Rediscover { wait: Duration },
    /// No more.
    GiveUp(Reason),
}

/// Why a call is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The answer is definite.
    Definite,
    /// The deadline has passed.
    Deadline,
    /// Tried often enough.
    Tries,
    /// The retry budget is spent.
    Budget,
}

/// The decision after `failure`.
pub(crate) fn decide(failure: Failure, state: &State) -> Decision {
    if failure == Failure::Final {
        return Decision::GiveUp(Reason::Definite);
    }
    if state.remaining.is_zero() {
        return Decision::GiveUp(Reason::Deadline);
    }
    if state.newer_leader {
        return Decision::Redirect;
    }
    let poll = if state.token {
        state.poll
    } else {
        state.backoff.max(state.poll)
    };
    let wait = match failure {
        Failure::Busy { retry_after } => return busy(retry_after, state),
        // What refuses is one node, what is awaited is any node of the cluster: the push-back
        // cannot hold the client longer than the poll does.
        Failure::NotLeader { retry_after } => poll.max(retry_after.min(state.poll_cap)),
        // The first death is news: the others may already know better.
        _ if failure != Failure::NoLeader && state.failures == 1 => Duration::ZERO,
        _ => poll,
    };
    Decision::Rediscover {
        wait: wait.min(state.remaining),
    }
}

fn busy(retry_after: Duration, state: &State) -> Decision {
    if state.other_failures >= OTHER_TRIES_MAX {
        return Decision::GiveUp(Reason::Tries);
    }
    if !state.token {
        return Decision::GiveUp(Reason::Budget);
    }
    let wait = state.backoff.max(retry_after).min(state.remaining);
    if state.other_failures >= BUSY_TRIES_BEFORE_DISCOVERY {
        Decision::Rediscover { wait }
    } else {
        Decision::RetryHere { wait }
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

    fn state() -> State {
        State {
            newer_leader: false,
            other_failures: 1,
            failures: 2,
            remaining: MS * 5000,
            backoff: MS * 640,
            poll: MS * 30,
            poll_cap: MS * 50,
            token: true,
        }
    }

    const DOUBTFUL: [Failure; 6] = [
        NOT_LEADER,
        Failure::StaleReply,
        Failure::Superseded,
        Failure::Unreachable,
        Failure::Broken,
        Failure::Silent,
    ];

    #[test]
    fn a_newer_leader_is_followed_at_once_whatever_failed() {
        for failure in DOUBTFUL.into_iter().chain([BUSY, Failure::NoLeader]) {
            let decision = decide(
                failure,
                &State {
                    newer_leader: true,
                    ..state()
                },
            );
            assert_eq!(decision, Decision::Redirect, "{failure:?}");
        }
    }

    #[test]
    fn without_a_newer_epoch_every_doubt_waits_and_asks_around() {
        for failure in DOUBTFUL {
            let decision = decide(failure, &state());
            assert_eq!(
                decision,
                Decision::Rediscover { wait: MS * 30 },
                "{failure:?}"
            );
            assert!(failure.doubts_leader());
        }
    }

    #[test]
    fn leadership_failures_are_retried_until_the_deadline_and_no_longer() {
        for failure in DOUBTFUL.into_iter().chain([Failure::NoLeader]) {
            let many = State {
                failures: 10_000,
                other_failures: 0,
                ..state()
            };
            assert!(matches!(
                decide(failure, &many),
                Decision::Rediscover { .. }
            ));
            let late = State {
                remaining: Duration::ZERO,
                newer_leader: true,
                ..state()
            };
            assert_eq!(decide(failure, &late), Decision::GiveUp(Reason::Deadline));
        }
    }

    #[test]
    fn the_first_death_is_looked_into_without_a_wait_but_a_refusal_is_not() {
        let first = State {
            failures: 1,
            ..state()
        };
        for failure in [Failure::Unreachable, Failure::Broken, Failure::Silent] {
            assert_eq!(
                decide(failure, &first),
                Decision::Rediscover {
                    wait: Duration::ZERO
                }
            );
        }
        for failure in [NOT_LEADER, Failure::NoLeader] {
            assert_eq!(
                decide(failure, &first),
                Decision::Rediscover { wait: MS * 30 }
            );
        }
    }

    #[test]
    fn an_empty_budget_slows_a_failover_down_but_does_not_end_it() {
        let empty = State {
            token: false,
            ..state()
        };
        assert_eq!(
            decide(NOT_LEADER, &empty),
            Decision::Rediscover { wait: MS * 640 }
        );
        assert_eq!(decide(BUSY, &empty), Decision::GiveUp(Reason::Budget));
    }

    #[test]
    fn busy_is_retried_here_then_elsewhere_then_given_up_after_five_tries() {
        let after = |other_failures| {
            decide(
                BUSY,
                &State {
                    other_failures,
                    ..state()
                },
            )
        };
        assert_eq!(after(1), Decision::RetryHere { wait: MS * 640 });
        for tries in 2..5 {
            assert_eq!(after(tries), Decision::Rediscover { wait: MS * 640 });
        }
        assert_eq!(after(5), Decision::GiveUp(Reason::Tries));
    }

    #[test]
    fn push_back_is_a_lower_bound_of_the_wait() {
        let busy = Failure::Busy {
            retry_after: MS * 900,
        };
        assert_eq!(
            decide(busy, &state()),
            Decision::RetryHere { wait: MS * 900 }
        );
        let refused = Failure::NotLeader {
            retry_after: MS * 900,
        };
        assert_eq!(
            decide(refused, &state()),
            Decision::Rediscover { wait: MS * 50 }
        );
    }

    #[test]
    fn no_wait_reaches_beyond_the_deadline() {
        let short = State {
            remaining: MS * 3,
            ..state()
        };
        assert_eq!(
            decide(NOT_LEADER, &short),
            Decision::Rediscover { wait: MS * 3 }
        );
        assert_eq!(decide(BUSY, &short), Decision::RetryHere { wait: MS * 3 });
    }

    #[test]
    fn a_definite_answer_is_final() {
        let decision = decide(
            Failure::Final,
            &State {
                newer_leader: true,
                ..state()
            },
        );
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
