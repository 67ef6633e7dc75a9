//! The rules of the election, each on the full list of commands.

mod accounts;
mod candidacy;
mod random;
mod restless;
mod stepping_down;
mod transfer;
mod unproven;

use std::time::Duration;

use coordination_core::{
    Acquired, Hint, Holder, LockOutcome, Previous, ReignEnd, RenewOutcome, UnlockOutcome,
};
use kvcm_fence::Incarnation;

use super::*;
use crate::{Change, PromoteError, Standby};

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
    /// What was recorded so far.
    records: Vec<Change>,
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
            records: Vec::new(),
        }
    }

    /// All commands but the wake-up and the records.
    fn step(&mut self, input: Input) -> Vec<Command> {
        let mut commands = self.core.step(self.now, input);
        match commands.pop() {
            Some(Command::Wake(at)) => self.wake = at,
            other => panic!("{other:?}"),
        }
        let mut rest = Vec::new();
        for command in commands {
            match command {
                Command::Record(change) => self.records.push(change),
                other => rest.push(other),
            }
        }
        rest
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
        reserve: None,
    }
}

fn drained(value: u64) -> Input {
    Input::Drained {
        epoch: epoch(value),
        end: DrainEnd::Empty,
    }
}

fn demand(expected: Option<Epoch>) -> Input {
    Input::Demote {
        id: 1,
        expected,
        pause: false,
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
    assert_eq!(commands, [unlock(7)]);
    assert_eq!(bench.unlocked(7), [try_lock(7)]);
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
    bench.now = bench.now + bench.core.settings.cooldown;
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
    bench.step(demand(None));
    bench.step(drained(7));
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
    bench.step(demand(None));
    bench.step(drained(7));
    bench.unlocked(7);
    bench.step(Input::Demoted { epoch: epoch(7) });
    bench.step(Input::HolderAnswered { result: Ok(None) });
    bench.step(Input::SetForbid(MS(50)));
    assert_eq!(bench.at(MS(100), Input::Tick), [try_lock(7)]);
}

#[test]
fn rule_7_without_a_delay_it_yields_until_another_leads() {
    let mut bench = Bench::leading(7);
    bench.step(demand(None));
    bench.step(drained(7));
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
    let commands = bench.step(demand(None));
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
