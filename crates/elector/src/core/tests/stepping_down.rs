//! Rules 5 and 13: step-down on request, and the end of the process.

use super::*;

#[test]
fn rule_5_a_step_down_drains_before_it_releases() {
    let mut bench = Bench::leading(7);
    let commands = bench.step(demand(Some(epoch(7))));
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
    assert_eq!(bench.step(drained(7)), [shut(7), unlock(7)]);
    let done = Command::Reply {
        id: 1,
        outcome: DemoteOutcome::Done(epoch(7)),
    };
    assert_eq!(bench.unlocked(7), [done, demote(7, LossReason::Requested)]);
}

#[test]
fn rule_5_a_hung_drain_is_released_by_its_bound_and_a_failed_unlock_is_retried() {
    let mut bench = Bench::leading(7);
    bench.step(demand(None));
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
    let commands = bench.step(demand(Some(epoch(7))));
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
    bench.step(drained(7));
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
