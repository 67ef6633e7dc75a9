//! What the gate lets in and out, one thread after the other; `tests/interleavings` has them all at
//! once.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use kvcm_clock::{Clock, ManualClock, Moment};
use kvcm_fence::Epoch;

use super::*;

fn epoch(value: u64) -> Epoch {
    Epoch::new(value).unwrap()
}

fn gate() -> (ManualClock, Gate) {
    let clock = ManualClock::default();
    (clock.clone(), Gate::new(Arc::new(clock)))
}

#[test]
fn shut_until_opened_and_shut_by_the_deadline_alone() {
    let (clock, gate) = gate();
    assert_eq!(gate.admit().unwrap_err(), Closed);
    gate.open(epoch(5), clock.now() + Duration::from_millis(10));
    let admission = gate.admit().unwrap();
    assert_eq!(admission.epoch(), epoch(5));
    admission.confirm().unwrap();
    clock.advance(Duration::from_millis(10));
    assert_eq!(gate.admit().unwrap_err(), Closed);
    assert_eq!(admission.confirm(), Err(Lost { epoch: epoch(5) }));
    assert!(gate.extend(epoch(5), clock.now() + Duration::from_millis(10)));
    admission.confirm().unwrap();
}

#[test]
fn an_extension_that_comes_after_the_lease_check_says_so() {
    let (clock, gate) = gate();
    gate.open(epoch(5), clock.now() + Duration::from_millis(10));
    clock.advance(Duration::from_millis(10));
    assert_eq!(gate.shut_if_expired(), Some((epoch(5), clock.now())));
    assert!(!gate.extend(epoch(5), clock.now() + Duration::from_millis(10)));
    assert_eq!(gate.admit().unwrap_err(), Closed);
}

#[test]
fn a_drain_answers_what_it_let_in_and_lets_nothing_in() {
    let (clock, gate) = gate();
    gate.open(epoch(5), clock.now() + Duration::from_secs(1));
    let admission = gate.admit().unwrap();
    gate.shut_admit(epoch(5));
    assert_eq!(gate.admit().unwrap_err(), Closed);
    admission.confirm().unwrap();
    let end = clock.now() + Duration::from_secs(1);
    assert_eq!(gate.shut(epoch(5)), Some(end));
    assert_eq!(gate.shut(epoch(5)), None);
    assert!(admission.confirm().is_err());
}

#[test]
fn work_of_an_old_epoch_is_not_confirmed_under_a_new_one() {
    let (clock, gate) = gate();
    gate.open(epoch(5), clock.now() + Duration::from_secs(1));
    let admission = gate.admit().unwrap();
    gate.shut(epoch(5));
    gate.open(epoch(6), clock.now() + Duration::from_secs(1));
    assert_eq!(admission.confirm(), Err(Lost { epoch: epoch(5) }));
    // Late orders for the old epoch do not touch the new one.
    gate.shut(epoch(5));
    gate.shut_admit(epoch(5));
    assert!(!gate.extend(epoch(5), Moment::NEVER));
    gate.admit().unwrap().confirm().unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(gate.shut_if_expired(), Some((epoch(6), clock.now())));
    assert_eq!(gate.shut_if_expired(), None);
}

#[test]
fn a_drain_that_is_given_up_lets_work_in_again() {
    let (clock, gate) = gate();
    gate.open(epoch(5), clock.now() + Duration::from_secs(1));
    let admission = gate.admit().unwrap();
    gate.shut_admit(epoch(5));
    assert!(!gate.reopen(epoch(6)));
    assert!(gate.reopen(epoch(5)));
    admission.confirm().unwrap();
    assert_eq!(gate.admit().unwrap().epoch(), epoch(5));
    // What the lease check has shut stays shut.
    gate.shut_admit(epoch(5));
    clock.advance(Duration::from_secs(1));
    assert_eq!(gate.shut_if_expired(), Some((epoch(5), clock.now())));
    assert!(!gate.reopen(epoch(5)));
    assert_eq!(gate.admit().unwrap_err(), Closed);
}

#[tokio::test]
async fn the_last_one_out_wakes_the_drain() {
    let (clock, gate) = gate();
    let gate = Arc::new(gate);
    gate.open(epoch(1), clock.now() + Duration::from_secs(1));
    let (entered, wait_entered) = tokio::sync::oneshot::channel();
    let (leave, wait_leave) = tokio::sync::oneshot::channel::<()>();
    let worker = {
        let gate = gate.clone();
        tokio::spawn(async move {
            let _admission = gate.admit().unwrap();
            entered.send(()).unwrap();
            let _ = wait_leave.await;
        })
    };
    wait_entered.await.unwrap();
    gate.shut_admit(epoch(1));
    let mut drained = Box::pin(gate.drained());
    assert!(futures_util::poll!(drained.as_mut()).is_pending());
    leave.send(()).unwrap();
    drained.await;
    worker.await.unwrap();
    assert_eq!(gate.in_flight(), 0);
}

/// Many threads go in and out while the gate is shut again and again: whoever sees zero in
/// flight after shutting must not see anybody get in.
#[test]
fn after_shut_and_zero_nobody_is_inside() {
    use std::sync::atomic::{AtomicBool, AtomicI64};
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let gate = Gate::new(clock.clone());
    let inside = AtomicI64::new(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    if let Ok(admission) = gate.admit() {
                        inside.fetch_add(1, SeqCst);
                        std::hint::spin_loop();
                        inside.fetch_sub(1, SeqCst);
                        drop(admission);
                    }
                }
            });
        }
        for round in 1..2000 {
            gate.open(epoch(round), clock.now() + Duration::from_secs(1));
            std::thread::yield_now();
            gate.shut_admit(epoch(round));
            while gate.in_flight() != 0 {
                std::hint::spin_loop();
            }
            assert_eq!(inside.load(SeqCst), 0);
            gate.shut(epoch(round));
        }
        stop.store(true, SeqCst);
    });
}
