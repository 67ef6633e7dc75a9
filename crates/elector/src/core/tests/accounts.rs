//! Each change of leadership leaves an account.

use super::*;
use crate::{Took, Turn};

#[test]
fn a_failover_is_accounted_for_with_its_parts() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.held_by("other", 6, MS(300));
    let seen = bench.records.pop().unwrap();
    assert_eq!((seen.owner, seen.epoch), (owner("other"), epoch(6)));
    assert_eq!(seen.turn, Turn::Seen);
    // The same reign again is no change.
    bench.at(MS(100), Input::Tick);
    bench.held_by("other", 6, MS(200));
    assert_eq!(bench.records, []);
    // Its lease ends, the try takes 3 ms, recovery 20 ms, the confirmation 2 ms.
    bench.at(MS(100), Input::Tick);
    bench.held_by("other", 6, MS(100));
    assert_eq!(bench.at(MS(101), Input::Tick), [try_lock(6)]);
    let sent = bench.now;
    bench.now = bench.now + MS(3);
    let acquired = Acquired {
        epoch: epoch(7),
        previous: previous(ReignEnd::Expired, MS(0)),
        repeated: false,
    };
    let result = Ok(LockOutcome::Acquired(acquired));
    bench.step(Input::LockAnswered { sent, result });
    bench.now = bench.now + MS(20);
    bench.promoted(7);
    assert_eq!(bench.records, []);
    bench.now = bench.now + MS(2);
    bench.renewed(7);
    let won = bench.records.pop().unwrap();
    let after = Some(ReignEnd::Expired);
    assert_eq!((won.owner, won.epoch), (owner("me"), epoch(7)));
    assert_eq!(won.turn, Turn::Won { after });
    assert!(won.evidence.contains("lease of other"), "{}", won.evidence);
    let took = Took {
        // 300 ms were left of a lease of a second.
        detect: Some(MS(700 + 301)),
        win: Some(MS(3)),
        recover: Some(MS(20)),
        open: Some(MS(2)),
        ..Took::default()
    };
    assert_eq!(won.took, took);
    assert_eq!(won.turn.result(), "won");
}

#[test]
fn a_step_down_is_accounted_for_with_its_parts() {
    let mut bench = Bench::leading(7);
    let expected = None;
    bench.records.clear();
    bench.step(demand(expected));
    bench.at(MS(40), drained(7));
    bench.now = bench.now + MS(3);
    bench.unlocked(7);
    let ended = bench.records.pop().unwrap();
    assert_eq!(ended.turn, Turn::Ended(LossReason::Requested));
    let took = Took {
        drain: Some(MS(40)),
        release: Some(MS(3)),
        ..Took::default()
    };
    assert_eq!(ended.took, took);
    assert_eq!(
        (ended.turn.result(), ended.turn.reason()),
        ("released", "requested")
    );
}

#[test]
fn a_loss_tells_what_shows_it() {
    let mut bench = Bench::leading(7);
    bench.step(Input::StoreRefused {
        epoch: epoch(7),
        by: epoch(9),
    });
    bench.unlocked(7);
    let ended = bench.records.pop().unwrap();
    assert_eq!(ended.evidence, "a store was claimed in epoch 9");

    let mut bench = Bench::leading(7);
    bench.at(MS(100), Input::Tick);
    bench.renew_answered(7, Err(down()));
    bench.at(MS(900), Input::Tick);
    let ended = bench.records.pop().unwrap();
    assert_eq!(ended.turn, Turn::Ended(LossReason::LeaseExpired));
    assert!(ended.evidence.contains("connection refused"));
    assert_eq!(ended.turn.result(), "lost");

    let mut bench = Bench::leading(7);
    let holder = Holder {
        owner: owner("other"),
        epoch: epoch(8),
        info: String::new(),
        remaining: MS(900),
    };
    bench.renew_answered(7, Ok(RenewOutcome::HeldByOther(holder)));
    let [.., ended, seen] = &bench.records[..] else {
        panic!("{:?}", bench.records)
    };
    assert_eq!(ended.turn, Turn::Ended(LossReason::HeldByOther));
    assert!(ended.evidence.starts_with("other"), "{}", ended.evidence);
    assert_eq!((&seen.turn, seen.epoch), (&Turn::Seen, epoch(8)));
}

#[test]
fn a_failed_recovery_tells_its_parts_although_the_gate_never_opened() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, released());
    bench.now = bench.now + MS(30);
    let result = Err(PromoteError::Failed("no disk".to_owned()));
    let epoch = epoch(7);
    bench.step(Input::Promoted { epoch, result });
    bench.unlocked(7);
    let [ended] = &bench.records[..] else {
        panic!("{:?}", bench.records)
    };
    assert_eq!(ended.turn.reason(), "promotion_failed");
    assert_eq!(ended.took.recover, Some(MS(30)));
    assert!(ended.evidence.contains("no disk"), "{}", ended.evidence);
}

#[test]
fn a_guard_is_told_apart_from_the_confirmation() {
    let mut bench = Bench::new();
    bench.step(Input::Tick);
    bench.acquired(7, previous(ReignEnd::Unknown, MS(400)));
    bench.promoted(7);
    for _ in 0..4 {
        bench.at(MS(100), Input::Tick);
        bench.renewed(7);
    }
    let won = bench.records.pop().unwrap();
    let after = Some(ReignEnd::Unknown);
    assert_eq!(won.turn, Turn::Won { after });
    assert_eq!(won.took.guard, Some(MS(400)));
    assert_eq!(won.took.open, Some(MS(400)));
}
