//! Nothing is repeated at the rate of round trips.

use super::*;

/// What takes a lock away from one that has just won it.
fn losses() -> [(RenewOutcome, LossReason); 2] {
    let holder = Holder {
        owner: owner("other"),
        epoch: epoch(8),
        info: String::new(),
        remaining: MS(0),
    };
    [
        (RenewOutcome::NotHeld, LossReason::NotHeld),
        (RenewOutcome::HeldByOther(holder), LossReason::HeldByOther),
    ]
}

#[test]
fn a_lock_that_is_denied_as_soon_as_it_is_granted_is_tried_once_in_a_cool_down() {
    for (outcome, reason) in losses() {
        let mut bench = Bench::leading(7);
        bench.core.settings.cooldown = MS(350);
        // The cool-down counts from the beginning of the reign.
        bench.step(Input::StoreRefused {
            epoch: epoch(7),
            by: epoch(9),
        });
        bench.unlocked(7);
        bench.step(Input::Demoted { epoch: epoch(7) });
        bench.acquired(10, released());
        bench.promoted(10);
        let began = bench.now;
        assert_eq!(
            bench.at(MS(100), Input::Tick),
            [renew(10, Phase::Serving)],
            "{reason:?}"
        );
        let commands = bench.renew_answered(10, Ok(outcome));
        assert_eq!(commands, [shut(10), demote(10, reason.clone())]);
        assert_eq!(
            bench.step(Input::Demoted { epoch: epoch(10) }),
            [Command::Observe],
            "{reason:?}"
        );
        let until = began + MS(350);
        let standby = Some(Standby::Forbidden { until });
        assert_eq!(bench.core.view().standby, standby);
        // Neither the end of another's lease nor a hint makes it earlier.
        let nobody = || Input::HolderAnswered { result: Ok(None) };
        assert_eq!(bench.step(nobody()), []);
        assert_eq!(
            bench.step(Input::Hint(Hint::Changed)),
            [Command::Observe],
            "{reason:?}"
        );
        bench.step(nobody());
        assert_eq!(bench.at(MS(100), Input::Tick), [Command::Observe]);
        bench.step(nobody());
        assert_eq!(bench.at(MS(100), Input::Tick), [Command::Observe]);
        bench.step(nobody());
        assert_eq!(bench.wake, until);
        assert_eq!(bench.at(MS(50), Input::Tick), [try_lock(10)]);
    }
}

#[test]
fn a_lock_that_was_held_for_a_cool_down_is_tried_again_at_once() {
    for (outcome, reason) in losses() {
        let mut bench = Bench::leading(7);
        for _ in 0..10 {
            assert_eq!(bench.at(MS(100), Input::Tick), [renew(7, Phase::Serving)]);
            bench.renewed(7);
        }
        let commands = bench.renew_answered(7, Ok(outcome));
        assert_eq!(commands, [shut(7), demote(7, reason)]);
        let demoted = bench.step(Input::Demoted { epoch: epoch(7) });
        assert!(matches!(demoted[..], [Command::TryLock { .. }]));
    }
}

#[test]
fn a_failed_renewal_is_tried_again_within_half_of_what_is_left() {
    let mut bench = Bench::leading(7);
    // Of 994 ms, 140 are left.
    bench.now = bench.now + MS(854);
    assert_eq!(bench.step(Input::Tick), [renew(7, Phase::Serving)]);
    // At the end not in ever shorter steps.
    for micros in [70_000, 35_000, 17_500, 10_000] {
        assert_eq!(bench.renew_answered(7, Err(down())), []);
        let next = bench.now + Duration::from_micros(micros);
        assert_eq!(bench.wake, next);
        bench.now = next;
        assert_eq!(bench.step(Input::Tick), [renew(7, Phase::Serving)]);
    }
    assert_eq!(bench.renew_answered(7, Err(down())), []);
    assert_eq!(bench.at(MS(7), Input::Tick), []);
    let commands = bench.at(MS(1), Input::Tick);
    assert_eq!(commands, [shut(7), demote(7, LossReason::LeaseExpired)]);
}

#[test]
fn a_failed_renewal_early_in_the_lease_is_tried_again_after_the_loop_interval() {
    let mut bench = Bench::leading(7);
    assert_eq!(bench.at(MS(100), Input::Tick), [renew(7, Phase::Serving)]);
    assert_eq!(bench.renew_answered(7, Err(down())), []);
    assert_eq!(bench.wake, bench.now + MS(100));
}

/// A lock of its own that it will not use: the reign has ended in the local count of time only.
fn with_an_unwanted_lock(end: ReignEnd, lease_left: Duration) -> (Bench, Vec<Command>) {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    let sent = bench.now;
    bench.now = bench.now + MS(1000);
    let acquired = Acquired {
        epoch: epoch(7),
        previous: previous(end, lease_left),
        repeated: false,
    };
    // The acquisition itself is a change of which it hears.
    assert_eq!(bench.step(Input::Hint(Hint::Changed)), []);
    let result = Ok(LockOutcome::Acquired(acquired));
    let commands = bench.step(Input::LockAnswered { sent, result });
    (bench, commands)
}

#[test]
fn a_lock_that_is_not_wanted_is_not_extended_while_it_is_given_back() {
    let (mut bench, commands) = with_an_unwanted_lock(ReignEnd::Released, MS(0));
    assert_eq!(commands, [unlock(7)]);
    for _ in 0..10 {
        assert_eq!(bench.step(Input::Hint(Hint::Changed)), []);
    }
    // Once it is free it may be had in a new epoch.
    assert_eq!(bench.unlocked(7), [try_lock(7)]);
    assert_eq!(bench.acquired(8, released()).len(), 1);
}

#[test]
fn a_lock_that_is_not_wanted_is_looked_at_again_when_its_release_fails() {
    let (mut bench, _) = with_an_unwanted_lock(ReignEnd::Released, MS(0));
    let failed = Input::UnlockAnswered {
        epoch: epoch(7),
        result: Err(down()),
    };
    assert_eq!(bench.step(failed), []);
    assert_eq!(bench.wake, bench.now + MS(100));
    assert_eq!(bench.at(MS(100), Input::Tick), [try_lock(7)]);
}

#[test]
fn a_lock_that_may_not_be_released_yet_is_left_alone_until_it_may() {
    let (mut bench, commands) = with_an_unwanted_lock(ReignEnd::Unknown, MS(800));
    assert_eq!(commands, []);
    let end = bench.now + MS(800);
    for _ in 0..7 {
        assert_eq!(bench.at(MS(100), Input::Hint(Hint::Changed)), []);
        assert_eq!(bench.wake, end);
    }
    assert_eq!(bench.at(MS(100), Input::Tick), [try_lock(7)]);
}
