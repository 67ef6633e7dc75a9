//! The rules of the election, each on the full list of commands.

use std::time::Duration;

use coordination_core::{
    Acquired, Hint, Holder, LockOutcome, Previous, ReignEnd, RenewOutcome, UnlockOutcome,
};
use kvcm_fence::Incarnation;

use super::*;
use crate::PromoteError;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn owner(name: &str) -> Owner {
    Owner {
        node: name.parse().unwrap(),
        incarnation: Incarnation::from_bits(name.len() as u128),
    }
}

fn epoch(value: u64) -> Epoch {
    Epoch::new(value).unwrap()
}

fn down() -> CallFailed {
    CallFailed {
        message: "connection refused".to_owned(),
        fatal: false,
    }
}

/// A core with a clock. Lease 1 s, loop 100 ms, so the local lease is 1000 - 1 - 5 = 994 ms.
struct Bench {
    core: Core,
    now: Moment,
    /// The wake-up that was asked for last.
    wake: Moment,
}

impl Bench {
    fn new() -> Self {
        let mut settings = Settings::new(MS(1000), MS(100));
        settings.drain = MS(500);
        let now = Moment::ZERO + Duration::from_secs(100);
        Self {
            core: Core::new(settings, owner("me"), now),
            now,
            wake: now,
        }
    }

    /// All commands but the wake-up.
    fn step(&mut self, input: Input) -> Vec<Command> {
        let mut commands = self.core.step(self.now, input);
        match commands.pop() {
            Some(Command::Wake(at)) => self.wake = at,
            other => panic!("{other:?}"),
        }
        commands
    }

    fn at(&mut self, after: Duration, input: Input) -> Vec<Command> {
        self.now = self.now + after;
        self.step(input)
    }

    fn acquired(&mut self, value: u64, previous: Option<Previous>) -> Vec<Command> {
        let acquired = Acquired {
            epoch: epoch(value),
            previous,
            repeated: false,
        };
        let result = Ok(LockOutcome::Acquired(acquired));
        self.step(Input::LockAnswered {
            sent: self.now,
            result,
        })
    }

    fn renewed(&mut self, value: u64) -> Vec<Command> {
        self.renew_answered(value, Ok(RenewOutcome::Renewed))
    }

    fn renew_answered(
        &mut self,
        value: u64,
        result: Result<RenewOutcome, CallFailed>,
    ) -> Vec<Command> {
        self.step(Input::RenewAnswered {
            epoch: epoch(value),
            sent: self.now,
            result,
        })
    }

    fn promoted(&mut self, value: u64) -> Vec<Command> {
        self.step(Input::Promoted {
            epoch: epoch(value),
            result: Ok(()),
        })
    }

    fn unlocked(&mut self, value: u64) -> Vec<Command> {
        let result = Ok(UnlockOutcome::Unlocked);
        self.step(Input::UnlockAnswered {
            epoch: epoch(value),
            result,
        })
    }

    fn held_by(&mut self, name: &str, value: u64, remaining: Duration) -> Vec<Command> {
        let holder = Holder {
            owner: owner(name),
            epoch: epoch(value),
            info: String::new(),
            remaining,
        };
        let result = Ok(LockOutcome::Held(holder));
        self.step(Input::LockAnswered {
            sent: self.now,
            result,
        })
    }

    /// A leader of this epoch.
    fn leading(value: u64) -> Self {
        let mut bench = Self::new();
        assert_eq!(bench.step(Input::Tick), [try_lock(0)]);
        bench.acquired(value, None);
        assert_eq!(bench.promoted(value), [renew(value, Phase::Serving)]);
        assert!(matches!(
            bench.renewed(value)[..],
            [Command::OpenGate { .. }]
        ));
        assert_eq!(bench.core.view().role, Role::Leader);
        bench
    }
}

fn try_lock(floor: u64) -> Command {
    Command::TryLock {
        floor: epoch(floor),
        presumed_dead: None,
    }
}

fn renew(value: u64, phase: Phase) -> Command {
    Command::Renew {
        epoch: epoch(value),
        phase,
    }
}

fn promote(value: u64) -> Command {
    Command::Promote {
        epoch: epoch(value),
        previous: None,
    }
}

fn demote(value: u64, reason: LossReason) -> Command {
    Command::Demote {
        epoch: epoch(value),
        reason,
    }
}

fn shut(value: u64) -> Command {
    Command::ShutGate {
        epoch: epoch(value),
    }
}

fn unlock(value: u64) -> Command {
    Command::Unlock {
        epoch: epoch(value),
    }
}

fn previous(end: ReignEnd, lease_left: Duration) -> Option<Previous> {
    Some(Previous {
        owner: owner("other"),
        epoch: epoch(6),
        end,
        lease_left,
    })
}

/// A reign before, which certainly has ended.
fn released() -> Option<Previous> {
    previous(ReignEnd::Released, MS(0))
}

#[test]
fn rule_1_the_lease_counts_from_before_the_request_less_its_margins() {
    let mut bench = Bench::leading(7);
    let sent = bench.now;
    bench.now = bench.now + MS(100);
    assert_eq!(bench.step(Input::Tick), [renew(7, Phase::Serving)]);
    bench.now = bench.now + MS(40);
    let sent_renewal = sent + MS(100);
    let result = Ok(RenewOutcome::Renewed);
    let commands = bench.step(Input::RenewAnswered {
        epoch: epoch(7),
        sent: sent_renewal,
        result,
    });
    assert_eq!(
        commands,
        [Command::ExtendGate {
            epoch: epoch(7),
            until: sent_renewal + MS(994)
        }]
    );
}

#[test]
fn rule_1_an_answer_after_the_end_never_extends() {
    let mut bench = Bench::leading(7);
    let sent = bench.now + MS(100);
    bench.at(MS(100), Input::Tick);
    // The answer arrives after the local end, in the very turn in which it is noticed.
    bench.now = bench.now + MS(894);
    let result = Ok(RenewOutcome::Renewed);
    let commands = bench.step(Input::RenewAnswered {
        epoch: epoch(7),
        sent,
        result,
    });
    assert_eq!(commands, [shut(7), demote(7, LossReason::LeaseExpired)]);
    // And the epoch is never led in again: the same lock, taken once more, is given back.
    assert_eq!(
        bench.step(Input::Demoted { epoch: epoch(7) }),
        [try_lock(7)]
    );
    let repeated = Acquired {
        epoch: epoch(7),
        previous: None,
        repeated: true,
    };
    let result = Ok(LockOutcome::Acquired(repeated));
    let commands = bench.step(Input::LockAnswered {
        sent: bench.now,
        result,
    });
    assert_eq!(commands, [unlock(7), try_lock(7)]);
}

#[test]
fn rule_3_fault_a_lost_before_the_promotion_started_ends_as_follower() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    assert_eq!(bench.acquired(7, None), [promote(7)]);
    let commands = bench.renew_answered(7, Ok(RenewOutcome::NotHeld));
    assert_eq!(
        commands,
        [shut(7), Command::CancelPromote { epoch: epoch(7) }]
    );
    // However the callback ends, its demotion follows and the gate stays shut.
    assert_eq!(bench.promoted(7), [demote(7, LossReason::NotHeld)]);
    assert_eq!(bench.core.view().role, Role::Demoting);
    bench.step(Input::Demoted { epoch: epoch(7) });
    assert_eq!(bench.core.view().role, Role::Follower);
}

#[test]
fn rule_3_fault_b_lost_regained_lost_while_demoting_ends_as_follower() {
    let mut bench = Bench::leading(7);
    let commands = bench.renew_answered(7, Ok(RenewOutcome::NotHeld));
    assert_eq!(commands, [shut(7), demote(7, LossReason::NotHeld)]);
    // While the demote callback runs the node only watches: it cannot regain the lock.
    assert_eq!(bench.at(MS(100), Input::Tick), [Command::Observe]);
    bench.step(Input::HolderAnswered { result: Ok(None) });
    assert_eq!(bench.at(MS(100), Input::Tick), [Command::Observe]);
    bench.step(Input::HolderAnswered { result: Ok(None) });
    assert_eq!(
        bench.step(Input::Demoted { epoch: epoch(7) }),
        [try_lock(7)]
    );
    assert_eq!(
        bench.acquired(8, previous(ReignEnd::Expired, MS(0)))[..].len(),
        1
    );
    bench.renew_answered(8, Ok(RenewOutcome::NotHeld));
    bench.promoted(8);
    bench.step(Input::Demoted { epoch: epoch(8) });
    assert_eq!(bench.core.view().role, Role::Follower);
    assert_eq!(bench.core.view().epoch, None);
}

#[test]
fn rule_3_fault_3_a_lock_regained_in_a_long_recovery_is_served_or_released() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, None);
    bench.renew_answered(7, Ok(RenewOutcome::NotHeld));
    // The answer to a try that was under way before: the worker is busy, so it is given back.
    let acquired = Acquired {
        epoch: epoch(8),
        previous: released(),
        repeated: false,
    };
    let result = Ok(LockOutcome::Acquired(acquired));
    let commands = bench.step(Input::LockAnswered {
        sent: bench.now,
        result,
    });
    assert!(commands.contains(&unlock(8)), "{commands:?}");
    assert_eq!(bench.core.view().epoch, None);
}

#[test]
fn rule_4_a_failed_promotion_releases_cools_down_and_probes_before_the_next_try() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, released());
    let result = Err(PromoteError::Failed("no disk".to_owned()));
    let commands = bench.step(Input::Promoted {
        epoch: epoch(7),
        result,
    });
    assert_eq!(commands, [shut(7), unlock(7)]);
    let failed = LossReason::PromotionFailed("no disk".to_owned());
    assert_eq!(bench.unlocked(7), [demote(7, failed)]);
    assert_eq!(
        bench.step(Input::Demoted { epoch: epoch(7) }),
        [Command::Observe]
    );
    assert_eq!(bench.step(Input::HolderAnswered { result: Ok(None) }), []);
    assert_eq!(bench.at(MS(1000), Input::Tick), [Command::Probe]);
    let result = Err("still no disk".to_owned());
    assert_eq!(bench.step(Input::Probed { result }), [Command::Observe]);
    bench.step(Input::HolderAnswered { result: Ok(None) });
    assert_eq!(bench.at(MS(1000), Input::Tick), [Command::Probe]);
    assert_eq!(bench.step(Input::Probed { result: Ok(()) }), [try_lock(7)]);
}

#[test]
fn rule_4_a_refused_claim_campaigns_again_above_the_fence() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, None);
    let result = Err(PromoteError::Fenced { by: epoch(50) });
    bench.step(Input::Promoted {
        epoch: epoch(7),
        result,
    });
    bench.unlocked(7);
    let commands = bench.step(Input::Demoted { epoch: epoch(7) });
    assert_eq!(commands, [try_lock(50)]);
}

#[test]
fn rule_4_the_gate_opens_only_after_the_lock_was_confirmed_once_more() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, None);
    let early = bench.now;
    bench.at(MS(100), Input::Tick);
    bench.now = bench.now + MS(10);
    assert_eq!(bench.promoted(7), [renew(7, Phase::Serving)]);
    // The answer to a renewal from before the recovery ended proves nothing about now.
    let result = Ok(RenewOutcome::Renewed);
    assert_eq!(
        bench.step(Input::RenewAnswered {
            epoch: epoch(7),
            sent: early,
            result
        }),
        []
    );
    let commands = bench.renewed(7);
    assert_eq!(
        commands,
        [Command::OpenGate {
            epoch: epoch(7),
            until: bench.now + MS(994)
        }]
    );
}

#[test]
fn rule_5_a_step_down_drains_before_it_releases() {
    let mut bench = Bench::leading(7);
    let commands = bench.step(Input::Demote {
        id: 1,
        expected: Some(epoch(7)),
    });
    assert_eq!(
        commands,
        [
            Command::ShutAdmit { epoch: epoch(7) },
            Command::Drain {
                epoch: epoch(7),
                bound: MS(500)
            }
        ]
    );
    assert_eq!(bench.core.view().role, Role::Demoting);
    // Renewal goes on while requests finish.
    assert_eq!(bench.at(MS(100), Input::Tick), [renew(7, Phase::Draining)]);
    assert!(matches!(bench.renewed(7)[..], [Command::ExtendGate { .. }]));
    assert_eq!(
        bench.step(Input::Drained { epoch: epoch(7) }),
        [shut(7), unlock(7)]
    );
    let done = Command::Reply {
        id: 1,
        outcome: DemoteOutcome::Done(epoch(7)),
    };
    assert_eq!(bench.unlocked(7), [done, demote(7, LossReason::Requested)]);
}

#[test]
fn rule_5_a_hung_drain_is_released_by_its_bound_and_a_failed_unlock_is_retried() {
    let mut bench = Bench::leading(7);
    bench.step(Input::Demote {
        id: 1,
        expected: None,
    });
    for _ in 0..5 {
        bench.at(MS(100), Input::Tick);
        bench.renewed(7);
    }
    assert_eq!(bench.at(MS(100), Input::Tick), [shut(7), unlock(7)]);
    let failed = Input::UnlockAnswered {
        epoch: epoch(7),
        result: Err(down()),
    };
    assert_eq!(bench.step(failed.clone()), []);
    assert_eq!(bench.at(MS(20), Input::Tick), [unlock(7)]);
    bench.step(failed);
    // The lease ends by itself; the request is answered then.
    let commands = bench.at(MS(1000), Input::Tick);
    let done = Command::Reply {
        id: 1,
        outcome: DemoteOutcome::Done(epoch(7)),
    };
    assert_eq!(commands, [shut(7), done, demote(7, LossReason::Requested)]);
}

#[test]
fn rule_5_a_repeated_demand_does_not_hit_the_next_reign() {
    let mut bench = Bench::leading(8);
    let commands = bench.step(Input::Demote {
        id: 1,
        expected: Some(epoch(7)),
    });
    assert_eq!(
        commands,
        [Command::Reply {
            id: 1,
            outcome: DemoteOutcome::OtherEpoch(epoch(8))
        }]
    );
    assert_eq!(bench.core.view().role, Role::Leader);
}

#[test]
fn rule_6_failed_renewals_change_nothing_while_the_lease_lives() {
    let mut bench = Bench::leading(7);
    for _ in 0..9 {
        assert_eq!(bench.at(MS(100), Input::Tick), [renew(7, Phase::Serving)]);
        assert_eq!(bench.renew_answered(7, Err(down())), []);
    }
    assert_eq!(bench.core.view().role, Role::Leader);
    let commands = bench.at(MS(94), Input::Tick);
    assert_eq!(commands, [shut(7), demote(7, LossReason::LeaseExpired)]);
}

#[test]
fn rule_6_a_hung_renewal_does_not_delay_the_next() {
    let mut bench = Bench::leading(7);
    for _ in 0..4 {
        assert_eq!(bench.at(MS(100), Input::Tick), [renew(7, Phase::Serving)]);
    }
    assert_eq!(bench.at(MS(100), Input::Tick), []);
    // One of them answers, the next one goes out in the same turn.
    let commands = bench.renewed(7);
    assert!(matches!(
        commands[..],
        [Command::ExtendGate { .. }, Command::Renew { .. }]
    ));
}

#[test]
fn rule_7_a_demoted_node_stays_out_but_still_learns_who_leads() {
    let mut bench = Bench::leading(7);
    bench.step(Input::SetForbid(MS(10_000)));
    bench.step(Input::Demote {
        id: 1,
        expected: None,
    });
    bench.step(Input::Drained { epoch: epoch(7) });
    bench.unlocked(7);
    assert_eq!(
        bench.step(Input::Demoted { epoch: epoch(7) }),
        [Command::Observe]
    );
    let holder = Holder {
        owner: owner("other"),
        epoch: epoch(8),
        info: "there".to_owned(),
        remaining: MS(900),
    };
    bench.step(Input::HolderAnswered {
        result: Ok(Some(holder)),
    });
    assert_eq!(bench.core.view().leader.unwrap().epoch, epoch(8));
    assert_eq!(bench.at(MS(100), Input::Tick), [Command::Observe]);
    bench.step(Input::HolderAnswered { result: Ok(None) });
    assert_eq!(bench.at(MS(9_900), Input::Tick), [try_lock(8)]);
}

#[test]
fn rule_7_a_shorter_delay_ends_a_wait_that_has_begun() {
    let mut bench = Bench::leading(7);
    bench.step(Input::SetForbid(MS(100_000)));
    bench.step(Input::Demote {
        id: 1,
        expected: None,
    });
    bench.step(Input::Drained { epoch: epoch(7) });
    bench.unlocked(7);
    bench.step(Input::Demoted { epoch: epoch(7) });
    bench.step(Input::HolderAnswered { result: Ok(None) });
    bench.step(Input::SetForbid(MS(50)));
    assert_eq!(bench.at(MS(100), Input::Tick), [try_lock(7)]);
}

#[test]
fn rule_7_without_a_delay_it_yields_until_another_leads() {
    let mut bench = Bench::leading(7);
    bench.step(Input::Demote {
        id: 1,
        expected: None,
    });
    bench.step(Input::Drained { epoch: epoch(7) });
    bench.unlocked(7);
    assert_eq!(
        bench.step(Input::Demoted { epoch: epoch(7) }),
        [Command::Observe]
    );
    bench.step(Input::HolderAnswered { result: Ok(None) });
    // Nobody else came: two loop intervals are the most it waits.
    assert_eq!(bench.wake, bench.now + MS(100));
    assert_eq!(bench.at(MS(200), Input::Tick), [try_lock(7)]);
}

#[test]
fn rule_8_a_follower_wakes_at_the_end_of_the_lease_and_on_hints() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.held_by("other", 7, MS(40));
    assert_eq!(bench.wake, bench.now + MS(41));
    assert_eq!(bench.at(MS(41), Input::Tick), [try_lock(7)]);
    bench.held_by("other", 7, MS(900));
    assert_eq!(bench.wake, bench.now + MS(100));
    assert_eq!(bench.step(Input::Hint(Hint::Changed)), [try_lock(7)]);
    // A hint during a try may be newer than its answer.
    bench.step(Input::Hint(Hint::Changed));
    assert_eq!(bench.held_by("other", 7, MS(900)), [try_lock(7)]);
}

#[test]
fn rule_8_a_proven_death_is_passed_on_once_it_is_needed() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.held_by("other", 7, MS(900));
    let proof = (Incarnation::from_bits(5), epoch(7));
    let hint = Hint::HolderDied {
        incarnation: proof.0,
        epoch: proof.1,
    };
    let commands = bench.step(Input::Hint(hint));
    assert_eq!(
        commands,
        [Command::TryLock {
            floor: epoch(7),
            presumed_dead: Some(proof)
        }]
    );
    // No answer: the proof is still good.
    bench.step(Input::LockAnswered {
        sent: bench.now,
        result: Err(down()),
    });
    let commands = bench.at(MS(100), Input::Tick);
    assert_eq!(
        commands,
        [Command::TryLock {
            floor: epoch(7),
            presumed_dead: Some(proof)
        }]
    );
    // The backend saw the holder alive: the proof was wrong.
    bench.held_by("other", 7, MS(900));
    assert_eq!(bench.at(MS(100), Input::Tick), [try_lock(7)]);
}

#[test]
fn rule_9_an_unproven_end_keeps_the_gate_shut_for_the_predecessors_lease() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, previous(ReignEnd::Unknown, MS(600)));
    assert_eq!(bench.promoted(7), []);
    for _ in 0..5 {
        assert_eq!(
            bench.at(MS(100), Input::Tick),
            [renew(7, Phase::Recovering)]
        );
        assert_eq!(bench.renewed(7), []);
        assert_eq!(bench.core.view().role, Role::Promoting);
    }
    assert_eq!(bench.at(MS(100), Input::Tick), [renew(7, Phase::Serving)]);
    assert!(matches!(bench.renewed(7)[..], [Command::OpenGate { .. }]));
    assert_eq!(bench.core.view().totals.unproven, 1);
}

#[test]
fn rule_9_a_record_that_vanished_under_a_known_holder_is_unproven() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.held_by("other", 6, MS(900));
    bench.at(MS(100), Input::Tick);
    bench.acquired(7, None);
    assert_eq!(bench.promoted(7), []);
    assert_eq!(bench.core.guard.until, bench.now + MS(1000));
}

#[test]
fn rule_9_without_shared_stores_an_empty_backend_proves_nothing() {
    let mut bench = Bench::new();
    bench.core.settings.absence_is_proof = false;
    bench.step(Input::Tick);
    bench.acquired(7, None);
    assert_eq!(bench.promoted(7), []);
    assert_eq!(bench.core.guard.until, bench.now + MS(1000));
    assert_eq!(bench.core.view().totals.unproven, 1);
}

#[test]
fn rule_11_a_backend_that_comes_back_is_used_at_once() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    for _ in 0..100 {
        let result = Err(down());
        assert_eq!(
            bench.step(Input::LockAnswered {
                sent: bench.now,
                result
            }),
            []
        );
        assert!(bench.core.view().backend_error.is_some());
        assert_eq!(bench.at(MS(100), Input::Tick), [try_lock(0)]);
    }
    assert_eq!(bench.acquired(7, None), [promote(7)]);
    assert_eq!(bench.core.view().backend_error, None);
}

#[test]
fn rule_13_stop_demotes_once_and_then_ends() {
    let mut bench = Bench::leading(7);
    let commands = bench.step(Input::Stop);
    assert_eq!(
        commands,
        [
            Command::ShutAdmit { epoch: epoch(7) },
            Command::Drain {
                epoch: epoch(7),
                bound: MS(500)
            }
        ]
    );
    bench.step(Input::Drained { epoch: epoch(7) });
    assert_eq!(bench.unlocked(7), [demote(7, LossReason::Stopping)]);
    let commands = bench.step(Input::Demoted { epoch: epoch(7) });
    assert_eq!(commands, [Command::Stopped]);
    assert!(bench.core.view().stopped);
}

#[test]
fn rule_13_stop_waits_for_a_try_that_may_still_take_the_lock() {
    let mut bench = Bench::new();
    assert_eq!(bench.step(Input::Tick), [try_lock(0)]);
    assert_eq!(bench.step(Input::Stop), []);
    assert_eq!(bench.acquired(7, released()), [unlock(7)]);
    assert_eq!(bench.unlocked(7), [Command::Stopped]);
}

#[test]
fn rule_13_a_stop_that_waits_for_an_answer_does_not_spin() {
    let mut bench = Bench::new();
    assert_eq!(bench.step(Input::Tick), [try_lock(0)]);
    assert_eq!(bench.step(Input::Stop), []);
    // The try had taken the lock: it is given back, and until that is answered nothing is due.
    assert_eq!(bench.acquired(7, released()), [unlock(7)]);
    assert_eq!(bench.wake, Moment::NEVER);
    assert_eq!(bench.unlocked(7), [Command::Stopped]);
}

#[test]
fn a_gate_that_was_found_shut_ends_the_reign() {
    let mut bench = Bench::leading(7);
    let shut_of = |value| Input::GateShut {
        epoch: epoch(value),
    };
    assert_eq!(bench.step(shut_of(6)), []);
    let commands = bench.step(shut_of(7));
    assert_eq!(commands, [shut(7), demote(7, LossReason::LeaseExpired)]);
    assert_eq!(bench.step(shut_of(7)), []);
}

#[test]
fn rule_9_a_lock_is_not_released_while_the_predecessor_may_believe_that_it_leads() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, previous(ReignEnd::Unknown, MS(800)));
    let end = bench.now + MS(800);
    let result = Err(PromoteError::Failed("no disk".to_owned()));
    let commands = bench.step(Input::Promoted {
        epoch: epoch(7),
        result,
    });
    // "Released" would be a proof for the next one that nobody leads.
    assert_eq!(commands, [shut(7)]);
    assert_eq!(bench.wake, end);
    assert_eq!(bench.at(MS(799), Input::Tick), []);
    assert_eq!(bench.at(MS(1), Input::Tick), [unlock(7)]);
    let failed = LossReason::PromotionFailed("no disk".to_owned());
    assert_eq!(bench.unlocked(7), [demote(7, failed)]);
}

#[test]
fn rule_9_a_lock_that_comes_too_late_is_not_released_during_the_guard() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    let sent = bench.now;
    // The answer takes longer than the lease; the lock is still held by the backend's record.
    bench.now = bench.now + MS(1000);
    let acquired = Acquired {
        epoch: epoch(7),
        previous: previous(ReignEnd::Unknown, MS(800)),
        repeated: false,
    };
    let result = Ok(LockOutcome::Acquired(acquired.clone()));
    let commands = bench.step(Input::LockAnswered { sent, result });
    assert_eq!(commands, []);
    assert_eq!(bench.wake, bench.now + MS(800));
    assert_eq!(bench.at(MS(800), Input::Tick), [try_lock(7)]);
    // What is told again does not start the guard again.
    let result = Ok(LockOutcome::Acquired(Acquired {
        repeated: true,
        ..acquired
    }));
    let sent = bench.now;
    let commands = bench.step(Input::LockAnswered { sent, result });
    assert_eq!(commands, [unlock(7), try_lock(7)]);
}

#[test]
fn rule_9_a_lock_whose_answer_was_lost_is_asked_what_came_before_it() {
    let mut bench = Bench::leading(7);
    bench.renew_answered(7, Ok(RenewOutcome::NotHeld));
    assert_eq!(bench.at(MS(100), Input::Tick), [Command::Observe]);
    let holder = Holder {
        owner: owner("me"),
        epoch: epoch(8),
        info: String::new(),
        remaining: MS(500),
    };
    let result = Ok(Some(holder));
    let commands = bench.step(Input::HolderAnswered { result });
    assert_eq!(commands, [try_lock(8)]);
    // The demote callback still runs, so the lock is not wanted, but it may not be released either.
    let commands = bench.acquired(8, previous(ReignEnd::Unknown, MS(600)));
    assert_eq!(commands, []);
}

#[test]
fn rule_9_a_first_reign_is_guarded_when_somebody_tells_of_an_earlier_one() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    assert_eq!(bench.acquired(7, None), [promote(7)]);
    assert_eq!(bench.step(Input::EpochSeen(epoch(7))), []);
    assert_eq!(bench.core.guard.until, Moment::ZERO);
    // The claim on a store has found one.
    bench.step(Input::EpochSeen(epoch(3)));
    let end = bench.now + MS(1000);
    assert_eq!(bench.promoted(7), []);
    bench.now = bench.now + MS(500);
    assert_eq!(bench.step(Input::Tick), [renew(7, Phase::Recovering)]);
    assert_eq!(bench.renewed(7), []);
    bench.now = end;
    assert_eq!(bench.step(Input::Tick), [renew(7, Phase::Serving)]);
    assert!(matches!(bench.renewed(7)[..], [Command::OpenGate { .. }]));
}

#[test]
fn rule_9_a_first_reign_is_not_released_before_the_stores_were_claimed() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, None);
    let demand = Input::Demote {
        id: 1,
        expected: None,
    };
    let cancel = Command::CancelPromote { epoch: epoch(7) };
    assert_eq!(bench.step(demand.clone()), [shut(7), cancel]);
    // Afterwards it may.
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, None);
    bench.promoted(7);
    assert_eq!(bench.step(demand), [shut(7), unlock(7)]);
}

#[test]
fn rule_9_a_stop_waits_for_the_end_of_the_guard() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.step(Input::Stop);
    let end = bench.now + MS(600);
    assert_eq!(bench.acquired(7, previous(ReignEnd::Unknown, MS(600))), []);
    assert_eq!(bench.wake, end);
    assert_eq!(bench.at(MS(600), Input::Tick), [Command::Stopped]);
}

#[test]
fn rule_9_a_refused_claim_proves_a_leader_that_the_backend_does_not_know() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, released());
    let result = Err(PromoteError::Fenced { by: epoch(50) });
    let promoted = Input::Promoted {
        epoch: epoch(7),
        result,
    };
    // Not released, or the next one would take it for proven that nobody leads.
    assert_eq!(bench.step(promoted), [shut(7)]);
    assert_eq!(bench.core.guard.until, bench.now + MS(1000));
}

#[test]
fn a_fenced_write_shuts_the_gate_at_once() {
    let mut bench = Bench::leading(7);
    let commands = bench.step(Input::StoreRefused {
        epoch: epoch(7),
        by: epoch(9),
    });
    assert_eq!(commands, [shut(7), unlock(7)]);
    assert_eq!(bench.unlocked(7), [demote(7, LossReason::Fenced)]);
    assert_eq!(
        bench.step(Input::Demoted { epoch: epoch(7) }),
        [try_lock(9)]
    );
    // The verdict on an older reign does not touch this one.
    let mut bench = Bench::leading(10);
    assert_eq!(
        bench.step(Input::StoreRefused {
            epoch: epoch(7),
            by: epoch(9)
        }),
        []
    );
}

#[test]
fn a_demotion_during_recovery_cancels_it() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, released());
    let commands = bench.step(Input::Demote {
        id: 1,
        expected: None,
    });
    assert_eq!(
        commands,
        [
            shut(7),
            unlock(7),
            Command::CancelPromote { epoch: epoch(7) }
        ]
    );
    bench.unlocked(7);
    assert_eq!(bench.promoted(7)[..1], [demote(7, LossReason::Requested)]);
}

mod random {
    //! Any order of events keeps the invariants that callbacks and gate depend on.

    use proptest::prelude::*;

    use super::*;

    /// What the world answers; drawn at random and applied to whatever is under way.
    #[derive(Clone, Debug)]
    enum Event {
        Pass(u64),
        Lock(u8),
        Renew(u8),
        Unlock(bool),
        Promoted(bool),
        Demoted,
        Drained,
        Demote,
        Hint,
        Refused,
        Probed(bool),
        GateShut,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            (0u64..300).prop_map(Event::Pass),
            (0u8..4).prop_map(Event::Lock),
            (0u8..4).prop_map(Event::Renew),
            any::<bool>().prop_map(Event::Unlock),
            any::<bool>().prop_map(Event::Promoted),
            Just(Event::Demoted),
            Just(Event::Drained),
            Just(Event::Demote),
            Just(Event::Hint),
            Just(Event::Refused),
            any::<bool>().prop_map(Event::Probed),
            Just(Event::GateShut),
        ];
        prop::collection::vec(event, 0..120)
    }

    /// What has been commanded and not answered.
    #[derive(Default, Debug)]
    struct World {
        lock: bool,
        observe: bool,
        probe: bool,
        renewals: Vec<(Epoch, Moment)>,
        unlocks: Vec<Epoch>,
        /// The epoch of the running promote callback, of the finished one, of the running demote.
        promoting: Option<Epoch>,
        promoted: Option<Epoch>,
        demoting: Option<Epoch>,
        draining: Option<Epoch>,
        gate: Option<(Epoch, Moment)>,
        last_opened: Epoch,
        minted: u64,
    }

    impl World {
        fn take(&mut self, bench: &Bench, commands: Vec<Command>) -> Result<(), TestCaseError> {
            for command in commands {
                match command {
                    Command::TryLock { .. } => {
                        prop_assert!(!self.lock && !self.observe && !self.probe);
                        self.lock = true;
                    }
                    Command::Observe => self.observe = true,
                    Command::Probe => self.probe = true,
                    Command::Renew { epoch, .. } => self.renewals.push((epoch, bench.now)),
                    Command::Unlock { epoch } => self.unlocks.push(epoch),
                    Command::Promote { epoch, .. } => {
                        // I5: alternating, never overlapping.
                        prop_assert_eq!((self.promoting, self.promoted), (None, None));
                        prop_assert_eq!(self.demoting, None);
                        self.promoting = Some(epoch);
                    }
                    Command::Demote { epoch, .. } => {
                        prop_assert_eq!(self.promoted.take(), Some(epoch));
                        prop_assert!(self.gate.is_none(), "the gate is open in a demotion");
                        self.demoting = Some(epoch);
                    }
                    Command::OpenGate { epoch, until } => {
                        prop_assert_eq!(self.promoted, Some(epoch));
                        prop_assert!(epoch > self.last_opened, "an epoch is led in twice");
                        prop_assert!(until > bench.now);
                        self.last_opened = epoch;
                        self.gate = Some((epoch, until));
                    }
                    Command::ExtendGate { epoch, until } => {
                        prop_assert_eq!(self.gate.map(|gate| gate.0), Some(epoch));
                        self.gate = Some((epoch, until));
                    }
                    Command::ShutGate { epoch } => {
                        self.gate = self.gate.filter(|gate| gate.0 != epoch);
                    }
                    Command::Drain { epoch, .. } => self.draining = Some(epoch),
                    _ => {}
                }
            }
            Ok(())
        }

        fn input(&mut self, bench: &mut Bench, event: Event) -> Option<Input> {
            Some(match event {
                Event::Pass(ms) => {
                    bench.now = bench.now + MS(ms);
                    Input::Tick
                }
                Event::Lock(kind) if self.lock => {
                    self.lock = false;
                    self.minted += 1;
                    let holder = Holder {
                        owner: owner("other"),
                        epoch: epoch(self.minted),
                        info: String::new(),
                        remaining: MS(500),
                    };
                    let end = ReignEnd::Expired;
                    let acquired = Acquired {
                        epoch: epoch(self.minted),
                        previous: previous(end, MS(0)),
                        repeated: false,
                    };
                    let result = match kind {
                        0 => Ok(LockOutcome::Held(holder)),
                        1 => Err(down()),
                        _ => Ok(LockOutcome::Acquired(acquired)),
                    };
                    Input::LockAnswered {
                        sent: bench.now - MS(1),
                        result,
                    }
                }
                Event::Lock(_) if self.observe => {
                    self.observe = false;
                    Input::HolderAnswered { result: Ok(None) }
                }
                Event::Renew(kind) => {
                    let (epoch, sent) = self.renewals.pop()?;
                    let result = match kind {
                        0 => Ok(RenewOutcome::NotHeld),
                        1 => Err(down()),
                        _ => Ok(RenewOutcome::Renewed),
                    };
                    Input::RenewAnswered {
                        epoch,
                        sent,
                        result,
                    }
                }
                Event::Unlock(ok) => {
                    let epoch = self.unlocks.pop()?;
                    let result = if ok {
                        Ok(UnlockOutcome::Unlocked)
                    } else {
                        Err(down())
                    };
                    Input::UnlockAnswered { epoch, result }
                }
                Event::Promoted(ok) => {
                    let epoch = self.promoting.take()?;
                    self.promoted = Some(epoch);
                    let failed = || Err(PromoteError::Failed("no".to_owned()));
                    Input::Promoted {
                        epoch,
                        result: if ok { Ok(()) } else { failed() },
                    }
                }
                Event::Demoted => Input::Demoted {
                    epoch: self.demoting.take()?,
                },
                Event::Drained => Input::Drained {
                    epoch: self.draining.take()?,
                },
                Event::Demote => Input::Demote {
                    id: 1,
                    expected: None,
                },
                Event::Hint => Input::Hint(Hint::Changed),
                Event::Refused => {
                    let epoch = self.gate?.0;
                    Input::StoreRefused { epoch, by: epoch }
                }
                Event::GateShut => Input::GateShut {
                    epoch: self.gate.take()?.0,
                },
                Event::Probed(ok) if self.probe => {
                    self.probe = false;
                    Input::Probed {
                        result: if ok { Ok(()) } else { Err("no".to_owned()) },
                    }
                }
                _ => return None,
            })
        }
    }

    proptest! {
        #[test]
        fn callbacks_alternate_and_no_epoch_is_led_in_twice(events in events()) {
            let mut bench = Bench::new();
            let mut world = World::default();
            let first = bench.step(Input::Tick);
            world.take(&bench, first)?;
            for event in events {
                let Some(input) = world.input(&mut bench, event) else { continue };
                let commands = bench.step(input);
                world.take(&bench, commands)?;
                // What is due is done at once, or the driver would spin.
                if bench.wake <= bench.now {
                    let commands = bench.step(Input::Tick);
                    world.take(&bench, commands)?;
                    prop_assert!(bench.wake > bench.now);
                }
                // A gate that is open has its lock.
                if let Some((epoch, _)) = world.gate {
                    prop_assert_eq!(bench.core.view().epoch, Some(epoch));
                }
            }
            // I6: when the world behaves, a leader serves.
            for _ in 0..200 {
                for event in [
                    Event::Pass(50), Event::Unlock(true), Event::Promoted(true), Event::Demoted,
                    Event::Drained, Event::Probed(true), Event::Lock(2), Event::Renew(2),
                    Event::Renew(2),
                ] {
                    let Some(input) = world.input(&mut bench, event) else { continue };
                    let commands = bench.step(input);
                    world.take(&bench, commands)?;
                }
            }
            prop_assert_eq!(bench.core.view().role, Role::Leader);
        }
    }
}
