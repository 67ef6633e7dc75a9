//! Handing the lock to a named successor: when it is refused, taken back, done, and what other
//! demands make of it.

use coordination_core::{Reservation, Reserved};

use super::*;
use crate::{AbortReason, Peer, TransferOutcome, TransferRefused, Unfit};

pub(super) fn peer(name: &str) -> Peer {
    Peer {
        owner: owner(name),
        alive: true,
        ready: true,
        eligible: true,
        priority: 0,
    }
}

fn peers() -> Input {
    Input::Peers(vec![peer("me"), peer("next"), peer("third")])
}

fn transfer(to: &str) -> Input {
    Input::Transfer {
        id: 9,
        to: to.parse().unwrap(),
        expected: None,
    }
}

fn answer(outcome: TransferOutcome) -> Command {
    let result = Ok(outcome);
    Command::ReplyTransfer { id: 9, result }
}

fn refused(why: TransferRefused) -> [Command; 1] {
    let result = Err(why);
    [Command::ReplyTransfer { id: 9, result }]
}

fn kept(value: u64) -> Command {
    Command::Unlock {
        epoch: epoch(value),
        reserve: Some(Reservation {
            node: "next".parse().unwrap(),
            // Two loop intervals and the stagger.
            duration: MS(210),
        }),
    }
}

fn drained_with(end: DrainEnd) -> Input {
    let epoch = epoch(7);
    Input::Drained { epoch, end }
}

fn in_epoch(command: fn(Epoch) -> Command) -> Command {
    command(epoch(7))
}

fn reopen() -> Command {
    in_epoch(|epoch| Command::ReopenGate { epoch })
}

fn stop_drain() -> Command {
    in_epoch(|epoch| Command::StopDrain { epoch })
}

/// A leader that drains for `next`.
fn transferring() -> Bench {
    let mut bench = Bench::leading(7);
    bench.step(peers());
    let commands = bench.step(transfer("next"));
    assert_eq!(
        commands,
        [
            in_epoch(|epoch| Command::ShutAdmit { epoch }),
            in_epoch(|epoch| Command::Drain {
                epoch,
                bound: MS(500)
            }),
        ]
    );
    bench
}

fn seen(bench: &mut Bench, name: &str, value: u64) -> Vec<Command> {
    let holder = Holder {
        owner: owner(name),
        epoch: epoch(value),
        info: String::new(),
        remaining: MS(900),
    };
    bench.step(Input::HolderAnswered {
        result: Ok(Some(holder)),
    })
}

#[test]
fn the_lock_is_released_for_the_successor_and_the_answer_tells_that_it_took_it() {
    let mut bench = transferring();
    assert_eq!(bench.step(drained(7)), [shut(7), kept(7)]);
    let to = LossReason::Transferred("next".parse().unwrap());
    assert_eq!(bench.unlocked(7), [demote(7, to)]);
    // It keeps itself out of the race meanwhile, and looks who leads.
    assert_eq!(
        bench.step(Input::Demoted { epoch: epoch(7) }),
        [Command::Observe]
    );
    let done = TransferOutcome::Transferred { epoch: epoch(8) };
    assert_eq!(seen(&mut bench, "next", 8), [answer(done)]);
    assert_eq!(bench.core.view().totals.transferred, 1);
    assert_eq!(
        bench.records.last().unwrap().turn.reason(),
        "other",
        "the successor was recorded"
    );
}

#[test]
fn a_release_without_an_answer_is_repeated_for_the_successor() {
    let mut bench = transferring();
    bench.step(drained(7));
    let result = Err(down());
    let epoch = epoch(7);
    bench.step(Input::UnlockAnswered { epoch, result });
    assert_eq!(bench.at(MS(20), Input::Tick), [kept(7)]);
}

#[test]
fn a_successor_that_does_not_come_leaves_the_election_free_after_the_reservation() {
    let mut bench = transferring();
    bench.step(drained(7));
    bench.unlocked(7);
    bench.step(Input::Demoted { epoch: epoch(7) });
    bench.step(Input::HolderAnswered { result: Ok(None) });
    // It looks on, and yields to others for a while after the reservation.
    for _ in 0..3 {
        assert_eq!(bench.at(MS(100), Input::Tick), [Command::Observe]);
        bench.step(Input::HolderAnswered { result: Ok(None) });
    }
    let nobody = TransferOutcome::NotTaken { by: None };
    assert_eq!(bench.at(MS(10), Input::Tick), [answer(nobody)]);
    assert_eq!(bench.at(MS(100), Input::Tick), [try_lock(7)]);
    assert_eq!(bench.acquired(8, released()), [promote_after(8)]);
}

#[test]
fn a_lock_that_is_kept_for_another_is_looked_at_again_when_it_is_free() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    let reserved = Reserved {
        node: "next".parse().unwrap(),
        remaining: MS(5),
        epoch: epoch(7),
    };
    let sent = bench.now;
    let result = Ok(LockOutcome::Reserved(reserved));
    assert_eq!(bench.step(Input::LockAnswered { sent, result }), []);
    assert_eq!(bench.at(MS(6), Input::Tick), [try_lock(7)]);
}

fn promote_after(value: u64) -> Command {
    Command::Promote {
        epoch: epoch(value),
        previous: released(),
    }
}

#[test]
fn another_node_that_takes_the_lock_is_named() {
    let mut bench = transferring();
    bench.step(drained(7));
    bench.unlocked(7);
    bench.step(Input::Demoted { epoch: epoch(7) });
    let by = Some(owner("third"));
    let other = TransferOutcome::NotTaken { by };
    assert_eq!(seen(&mut bench, "third", 8), [answer(other)]);
}

#[test]
fn what_is_not_possible_is_refused_and_changes_nothing() {
    use TransferRefused as Refused;
    let mut bench = Bench::new();
    assert_eq!(
        bench.step(transfer("next"))[..1],
        refused(Refused::NotLeader)
    );
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, None);
    assert_eq!(bench.step(transfer("next")), refused(Refused::NotServing));

    let mut bench = Bench::leading(7);
    let unfit = |why| refused(Refused::Successor(why));
    assert_eq!(bench.step(transfer("next")), unfit(Unfit::PeersUnknown));
    let change = |change: fn(&mut Peer)| {
        let mut next = peer("next");
        change(&mut next);
        Input::Peers(vec![next])
    };
    for (input, to, expected) in [
        (peers(), "me", refused(Refused::ToSelf)),
        (peers(), "nobody", unfit(Unfit::Unknown)),
        (
            change(|peer| peer.alive = false),
            "next",
            unfit(Unfit::Dead),
        ),
        (
            change(|peer| peer.ready = false),
            "next",
            unfit(Unfit::NotReady),
        ),
        (
            change(|peer| peer.eligible = false),
            "next",
            unfit(Unfit::NotEligible),
        ),
    ] {
        bench.step(input);
        assert_eq!(bench.step(transfer(to)), expected);
    }
    bench.step(peers());
    let other_epoch = Input::Transfer {
        id: 9,
        to: "next".parse().unwrap(),
        expected: Some(epoch(6)),
    };
    assert_eq!(
        bench.step(other_epoch),
        refused(Refused::OtherEpoch(epoch(7)))
    );
    assert_eq!(bench.core.view().role, Role::Leader);
    // What was told of the others five seconds ago counts for nothing.
    for _ in 0..50 {
        bench.at(MS(100), Input::Tick);
        bench.renewed(7);
    }
    assert_eq!(bench.step(transfer("next")), unfit(Unfit::PeersUnknown));
    bench.step(demand(None));
    assert_eq!(bench.step(transfer("next")), refused(Refused::SteppingDown));
}

#[test]
fn a_transfer_that_is_taken_back_goes_on_in_the_same_epoch_without_callbacks() {
    let gone = |alive, incarnation| {
        let mut next = peer("next");
        next.alive = alive;
        next.owner.incarnation = Incarnation::from_bits(incarnation);
        Input::Peers(vec![next])
    };
    let unfit = AbortReason::Successor;
    for (input, why) in [
        (Input::CancelTransfer, AbortReason::Cancelled),
        (gone(false, 4), unfit(Unfit::Dead)),
        (gone(true, 5), unfit(Unfit::Restarted)),
        (Input::Peers(Vec::new()), unfit(Unfit::Unknown)),
    ] {
        let mut bench = transferring();
        assert_eq!(bench.step(input), [stop_drain()]);
        assert_eq!(bench.core.view().role, Role::Demoting);
        let commands = bench.step(drained_with(DrainEnd::InFlight(3)));
        let aborted = TransferOutcome::Aborted(why);
        // Others are told at once that it serves.
        let expected = [reopen(), answer(aborted), renew(7, Phase::Serving)];
        assert_eq!(commands, expected);
        assert_eq!(bench.core.view().role, Role::Leader);
        assert!(matches!(bench.renewed(7)[..], [Command::ExtendGate { .. }]));
        // And another one can be begun.
        bench.step(peers());
        assert_eq!(bench.step(transfer("third")).len(), 2);
    }
}

#[test]
fn requests_that_outlast_the_drain_bound_keep_their_leader() {
    let mut bench = transferring();
    let commands = bench.step(drained_with(DrainEnd::InFlight(2)));
    let aborted = TransferOutcome::Aborted(AbortReason::InFlight(2));
    assert_eq!(commands[..2], [reopen(), answer(aborted)]);
}

#[test]
fn a_successor_that_is_unknown_at_the_end_of_the_drain_is_not_waited_for() {
    let mut bench = transferring();
    for _ in 0..4 {
        bench.at(MS(100), Input::Tick);
        bench.renewed(7);
    }
    // A wake-up that comes after the peers' view has run out.
    bench.core.settings.peers_max_age = MS(1);
    bench.step(peers());
    let commands = bench.at(MS(1), drained(7));
    let aborted = TransferOutcome::Aborted(AbortReason::Successor(Unfit::PeersUnknown));
    assert_eq!(commands[..2], [reopen(), answer(aborted)]);
}

#[test]
fn a_callback_that_hangs_does_not_hold_up_the_transfer() {
    let mut bench = transferring();
    let commands = bench.step(drained_with(DrainEnd::Stuck));
    assert_eq!(commands, [shut(7), kept(7)]);
    // Nor the bound of the core, when even the driver does not answer.
    let mut bench = transferring();
    for _ in 0..5 {
        bench.at(MS(100), Input::Tick);
        bench.renewed(7);
    }
    assert_eq!(bench.at(MS(100), Input::Tick), [shut(7), kept(7)]);
    // What was quiesced cannot be resumed while it hangs: the reign ends.
    let mut bench = transferring();
    bench.step(Input::CancelTransfer);
    let commands = bench.step(drained_with(DrainEnd::Stuck));
    let ended = TransferOutcome::Ended(LossReason::Requested);
    assert_eq!(commands, [answer(ended), shut(7), unlock(7)]);
}

#[test]
fn after_the_release_nothing_is_taken_back() {
    let mut bench = transferring();
    bench.step(drained(7));
    for input in [
        Input::CancelTransfer,
        Input::Peers(Vec::new()),
        drained_with(DrainEnd::InFlight(1)),
    ] {
        assert_eq!(bench.step(input), []);
    }
    assert_eq!(bench.core.view().role, Role::Demoting);
}

#[test]
fn a_demand_to_step_down_makes_a_transfer_firm_and_the_lock_free_for_all() {
    let mut bench = transferring();
    let ended = TransferOutcome::Ended(LossReason::Requested);
    assert_eq!(bench.step(demand(None)), [answer(ended)]);
    // The successor does not matter any more.
    assert_eq!(bench.step(Input::Peers(Vec::new())), []);
    assert_eq!(bench.step(drained(7)), [shut(7), unlock(7)]);
    let done = Command::Reply {
        id: 1,
        outcome: DemoteOutcome::Done(epoch(7)),
    };
    assert_eq!(bench.unlocked(7), [done, demote(7, LossReason::Requested)]);
}

#[test]
fn a_stop_makes_a_transfer_firm() {
    let mut bench = transferring();
    let ended = TransferOutcome::Ended(LossReason::Stopping);
    assert_eq!(bench.step(Input::Stop), [answer(ended)]);
    assert_eq!(bench.step(drained(7)), [shut(7), unlock(7)]);
    assert_eq!(bench.unlocked(7), [demote(7, LossReason::Stopping)]);
}

#[test]
fn a_demand_or_a_stop_while_it_is_taken_back_drains_again() {
    for (input, reason) in [
        (demand(None), LossReason::Requested),
        (Input::Stop, LossReason::Stopping),
    ] {
        let mut bench = transferring();
        bench.step(Input::CancelTransfer);
        assert_eq!(bench.step(input), []);
        let commands = bench.step(drained_with(DrainEnd::InFlight(1)));
        let aborted = TransferOutcome::Aborted(AbortReason::Cancelled);
        assert_eq!(commands[..2], [reopen(), answer(aborted)]);
        assert!(matches!(commands[3], Command::Drain { .. }));
        assert_eq!(bench.step(drained(7)), [shut(7), unlock(7)]);
        let commands = bench.unlocked(7);
        assert_eq!(*commands.last().unwrap(), demote(7, reason));
    }
}

#[test]
fn a_loss_during_the_drain_is_a_loss() {
    let mut bench = transferring();
    let commands = bench.renew_answered(7, Ok(RenewOutcome::NotHeld));
    let ended = TransferOutcome::Ended(LossReason::NotHeld);
    let demoted = demote(7, LossReason::NotHeld);
    assert_eq!(commands, [shut(7), answer(ended), demoted]);
    assert_eq!(bench.core.view().totals.lost, 1);

    let mut bench = transferring();
    let commands = bench.step(Input::StoreRefused {
        epoch: epoch(7),
        by: epoch(9),
    });
    let ended = TransferOutcome::Ended(LossReason::Fenced);
    assert_eq!(commands, [answer(ended), shut(7), unlock(7)]);

    // Also while it is being taken back: the gate stays shut.
    let mut bench = transferring();
    bench.step(Input::CancelTransfer);
    bench.renew_answered(7, Ok(RenewOutcome::NotHeld));
    assert_eq!(bench.step(drained_with(DrainEnd::InFlight(1))), []);
}

#[test]
fn a_lease_that_ends_while_it_is_released_leaves_the_answer_open_until_somebody_leads() {
    let mut bench = transferring();
    bench.step(drained(7));
    let to = LossReason::Transferred("next".parse().unwrap());
    assert_eq!(bench.at(MS(994), Input::Tick), [shut(7), demote(7, to)]);
    bench.step(Input::Demoted { epoch: epoch(7) });
    let done = TransferOutcome::Transferred { epoch: epoch(8) };
    assert_eq!(seen(&mut bench, "next", 8), [answer(done)]);
}

#[test]
fn a_stop_after_the_release_answers_at_once() {
    let mut bench = transferring();
    bench.step(drained(7));
    bench.unlocked(7);
    let nobody = TransferOutcome::NotTaken { by: None };
    assert_eq!(bench.step(Input::Stop)[..1], [answer(nobody)]);
}
