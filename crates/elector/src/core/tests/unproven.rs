//! Rule 9: a leader whose end nobody can vouch for is waited out.

use super::*;

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
    assert_eq!(commands, [unlock(7)]);
    assert_eq!(bench.unlocked(7), [try_lock(7)]);
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
    let demand = demand(None);
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
