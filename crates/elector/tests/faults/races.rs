//! Losses, wins and callbacks that cross each other.
//!
//! Each scenario of the first five faults is played by the real core, which must come through, and
//! by the predecessor, which must be caught at what it is known for.

use coordination_core::{RenewOutcome, UnlockOutcome};
use elector::{Core, DrainEnd, Input, Role, Totals};

use crate::{
    predecessor::Predecessor,
    stage::{Election, LEASE, MS, Stage, Worker, Wrong, down, epoch, renews, tries},
};

/// The lock is won, and lost before the promotion has begun.
fn lost_before_the_promotion<E: Election>() -> Result<(), Wrong> {
    let mut stage = Stage::<E>::new();
    stage.pass(MS(0))?;
    stage.answer(tries)?;
    stage.lose();
    stage.renewal_finds_nothing(epoch(7))?;
    stage.other_takes();
    stage.play(3 * LEASE)
}

/// Fault 1 of the predecessor, case E3.
#[test]
fn a_lock_lost_before_the_promotion_began_is_not_served() {
    assert_eq!(lost_before_the_promotion::<Core>(), Ok(()));
    let caught = lost_before_the_promotion::<Predecessor>();
    assert_eq!(caught, Err(Wrong::ServesWithoutLock));
}

/// The demote callback takes three leases; meanwhile the lock could be won, and is lost again.
fn lost_again_while_demoting<E: Election>() -> Result<(), Wrong> {
    let mut stage = Stage::<E>::leading();
    stage.lose();
    stage.renewal_finds_nothing(epoch(7))?;
    stage.pass(MS(100))?;
    assert_eq!(stage.worker, Worker::Demoting(epoch(7)));
    stage.answer(tries)?;
    stage.pass(LEASE)?;
    stage.answer(tries)?;
    stage.lose();
    stage.renewal_finds_nothing(epoch(8))?;
    stage.other_takes();
    stage.pass(2 * LEASE)?;
    stage.callback_returns()?;
    stage.play(3 * LEASE)
}

/// Fault 2 of the predecessor, case E1.
#[test]
fn a_lock_won_and_lost_during_a_demotion_is_not_served() {
    assert_eq!(lost_again_while_demoting::<Core>(), Ok(()));
    let caught = lost_again_while_demoting::<Predecessor>();
    assert_eq!(caught, Err(Wrong::ServesWithoutLock));
}

/// Case E1: while its demote callback runs, however long, a node does not take the lock.
#[test]
fn a_node_that_cleans_up_leaves_the_lock_to_others() {
    let mut stage = Stage::<Core>::leading();
    stage.lose();
    stage.renewal_finds_nothing(epoch(7)).unwrap();
    for _ in 0..30 {
        stage.pass(MS(100)).unwrap();
        stage.answer(tries).unwrap();
        stage.answer(renews).unwrap();
        assert_eq!(stage.worker, Worker::Demoting(epoch(7)));
        assert_eq!(stage.acquisitions, 1);
    }
    stage.callback_returns().unwrap();
    stage.play(LEASE).unwrap();
    assert_eq!(stage.acquisitions, 2);
}

/// Fault 27 of the predecessor: the answer to a renewal that was sent before the recovery had ended
/// says nothing about the lock afterwards.
#[test]
fn an_answer_from_before_the_end_of_the_recovery_does_not_open_the_gate() {
    let mut stage = Stage::<Core>::new();
    stage.pass(MS(0)).unwrap();
    stage.answer(tries).unwrap();
    stage.pass(MS(100)).unwrap();
    let (sent, _) = stage.take(renews).unwrap();
    stage.pass(MS(50)).unwrap();
    stage.callback_returns().unwrap();
    let answer = Input::RenewAnswered {
        epoch: epoch(7),
        sent,
        result: Ok(RenewOutcome::Renewed),
    };
    stage.hear(answer).unwrap();
    assert_eq!(stage.gate, None);
    stage.answer(renews).unwrap();
    assert_eq!(stage.gate.unwrap().0, epoch(7));
}

/// A long recovery, in which the lock is lost for one turn and won again.
fn regained_while_promoting<E: Election>() -> Result<(), Wrong> {
    let mut stage = Stage::<E>::new();
    stage.pass(MS(0))?;
    stage.answer(tries)?;
    stage.pass(MS(100))?;
    assert_eq!(stage.worker, Worker::Promoting(epoch(7)));
    stage.lose();
    stage.renewal_finds_nothing(epoch(7))?;
    stage.pass(MS(100))?;
    stage.answer(tries)?;
    stage.callback_returns()?;
    stage.play(5 * LEASE)
}

/// Fault 3 of the predecessor, case E2.
#[test]
fn a_lock_regained_during_a_recovery_is_served_or_released() {
    assert_eq!(regained_while_promoting::<Core>(), Ok(()));
    let caught = regained_while_promoting::<Predecessor>();
    assert_eq!(caught, Err(Wrong::HoldsAndRefuses));
}

/// Recovery fails, each time. The lock must be free for others now and then.
fn recovery_fails<E: Election>() -> bool {
    let mut stage = Stage::<E>::new();
    stage.fails_to_promote = true;
    stage.play(MS(200)).unwrap();
    assert_eq!(stage.acquisitions, 1);
    stage.was_free = false;
    stage.play(LEASE).unwrap();
    stage.was_free
}

/// Fault 4 of the predecessor, case E5.
#[test]
fn a_failed_recovery_releases_the_lock() {
    assert!(recovery_fails::<Core>());
    assert!(!recovery_fails::<Predecessor>());
}

/// A renewal is answered after the lease has ended and the demotion is over.
fn answered_too_late<E: Election>() -> Result<(), Wrong> {
    let mut stage = Stage::<E>::leading();
    stage.pass(MS(100))?;
    let (sent, _) = stage.take(renews).unwrap();
    stage.pass(LEASE)?;
    stage.lose();
    stage.pass(MS(100))?;
    stage.callback_returns()?;
    stage.pending.clear();
    stage.hear(Input::RenewAnswered {
        epoch: epoch(7),
        sent,
        result: Ok(RenewOutcome::Renewed),
    })?;
    stage.play(3 * LEASE)
}

/// Fault 5 of the predecessor, case E18.
#[test]
fn a_late_answer_does_not_bring_a_reign_back() {
    assert_eq!(answered_too_late::<Core>(), Ok(()));
    let caught = answered_too_late::<Predecessor>();
    assert_eq!(caught, Err(Wrong::Resurrected));
}

/// Fault 7 of the predecessor: a renewal that was under way when the lock was released is answered
/// afterwards, and the node that was asked to step down does not win again at once.
#[test]
fn a_renewal_under_way_does_not_undo_a_step_down() {
    let mut stage = Stage::<Core>::leading();
    stage.pass(MS(100)).unwrap();
    let (sent, _) = stage.take(renews).unwrap();
    let demand = Input::Demote {
        id: 1,
        expected: None,
        pause: false,
    };
    stage.hear(demand).unwrap();
    stage.play(MS(10)).unwrap();
    assert!(stage.was_free && stage.gate.is_none());
    stage
        .hear(Input::RenewAnswered {
            epoch: epoch(7),
            sent,
            result: Ok(RenewOutcome::Renewed),
        })
        .unwrap();
    assert_eq!(stage.election.view().role, Role::Follower);
    stage.play(MS(150)).unwrap();
    assert_eq!(stage.acquisitions, 1, "it yields to others first");
}

/// Case E42: whatever was under way in an earlier reign arrives in the next one, in any order.
#[test]
fn what_is_late_from_an_earlier_reign_does_not_disturb_the_next() {
    let late = || {
        let epoch = epoch(7);
        let renewed = |result| Input::RenewAnswered {
            epoch,
            sent: Stage::<Core>::new().now,
            result,
        };
        vec![
            renewed(Ok(RenewOutcome::Renewed)),
            renewed(Ok(RenewOutcome::NotHeld)),
            renewed(Err(down())),
            Input::UnlockAnswered {
                epoch,
                result: Ok(UnlockOutcome::NotHeld),
            },
            Input::Promoted {
                epoch,
                result: Ok(()),
            },
            Input::Demoted { epoch },
            Input::Drained {
                epoch,
                end: DrainEnd::Empty,
            },
            Input::GateShut { epoch },
            Input::StoreRefused { epoch, by: epoch },
        ]
    };
    let mut random = fastrand::Rng::with_seed(42);
    for _ in 0..1000 {
        let mut stage = Stage::<Core>::leading();
        stage.lose();
        stage.renewal_finds_nothing(epoch(7)).unwrap();
        // Its cool-down first.
        stage.play(LEASE + MS(200)).unwrap();
        assert_eq!(stage.gate.unwrap().0, epoch(8));
        let mut inputs = late();
        random.shuffle(&mut inputs);
        for input in inputs {
            stage.hear(input.clone()).unwrap();
            assert_eq!(stage.gate.unwrap().0, epoch(8), "{input:?}");
        }
        stage.play(LEASE).unwrap();
        assert_eq!(stage.election.view().epoch, Some(epoch(8)));
    }
}

/// Case E22: whatever is acquired, released and lost in whatever order, an election that has ended
/// holds nothing, and the lock is free at the latest after a lease.
#[test]
fn no_renewal_survives_the_end() {
    let mut random = fastrand::Rng::with_seed(22);
    let mut led = Totals::default();
    for _ in 0..10_000 {
        let mut stage = Stage::<Core>::new();
        for _ in 0..random.usize(1..12) {
            match random.u8(0..7) {
                0 => stage.lose(),
                1 => stage.pass(MS(random.u64(0..400))).unwrap(),
                2 => stage.answer(renews).unwrap(),
                3 => stage
                    .hear(Input::Demote {
                        id: 1,
                        expected: None,
                        pause: false,
                    })
                    .unwrap(),
                4 => stage.callback_returns().unwrap(),
                _ => stage.play(MS(random.u64(10..100))).unwrap(),
            }
            if let Some((epoch, _)) = stage.gate
                && stage.record == crate::stage::Record::Free
            {
                // The stage has no clock of its own for the record: what was lost is told.
                stage.renewal_finds_nothing(epoch).unwrap();
            }
        }
        stage.hear(Input::Stop).unwrap();
        stage.play(2 * LEASE).unwrap();
        assert!(stage.stopped);
        assert_eq!(stage.record, crate::stage::Record::Free);
        let commands = stage.log.len();
        stage.play(2 * LEASE).unwrap();
        assert_eq!(stage.log.len(), commands, "something goes on after the end");
        led.acquired += stage.election.view().totals.acquired;
        led.lost += stage.election.view().totals.lost;
    }
    assert!(led.acquired > 5_000 && led.lost > 1_000, "{led:?}");
}
