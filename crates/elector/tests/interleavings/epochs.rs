//! The next reign begins while work of the one before is still inside.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use kvcm_clock::ManualClock;
use shuttle::{future::block_on, thread};

use crate::{
    broken::{Broken, COUNTS_ANEW, MIXES_REIGNS, NONE},
    door::{Door, FOREVER, Inside},
    every_order,
    gate::Gate,
    many_orders,
};

/// Reign 5 ends, by its lease or by an order, and reign 6 begins.
fn succeed<D: Door>(by_lease: bool) {
    let clock = ManualClock::default();
    let door = D::new(Arc::new(clock.clone()));
    door.open(5, 2_000_000_000);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let Some(inside) = door.admit() else { return };
            thread::yield_now();
            let late = ended.load(SeqCst);
            let confirmed = inside.confirm();
            assert!(
                !(confirmed && late && inside.epoch() == 5),
                "reign 5 is confirmed after its end"
            );
            assert!(confirmed || inside.epoch() == 5, "reign 6 is not confirmed");
        });
        thread::yield_now();
        if by_lease {
            clock.advance(Duration::from_secs(1));
        } else {
            door.shut(5);
        }
        ended.store(true, SeqCst);
        door.open(6, FOREVER);
    });
}

#[test]
fn work_of_an_old_reign_is_never_confirmed_under_the_next() {
    every_order(|| succeed::<Gate>(true));
    every_order(|| succeed::<Gate>(false));
    every_order(|| succeed::<Broken<NONE>>(true));
}

#[test]
#[should_panic(expected = "confirmed after its end")]
fn mixing_the_epoch_of_one_reign_with_the_deadline_of_the_next_is_caught() {
    every_order(|| succeed::<Broken<MIXES_REIGNS>>(true));
}

/// Whoever stays from reign 5 leaves in reign 6, which then drains.
fn leave_late<D: Door>() {
    let door = D::new(Arc::new(ManualClock::default()));
    door.open(5, FOREVER);
    let inside = AtomicI64::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                if let Some(_inside) = door.admit() {
                    inside.fetch_add(1, SeqCst);
                    thread::yield_now();
                    thread::yield_now();
                    inside.fetch_sub(1, SeqCst);
                }
            });
        }
        door.shut(5);
        door.open(6, FOREVER);
        door.shut_admit(6);
        block_on(door.drained());
        assert_eq!(inside.load(SeqCst), 0, "drained with somebody inside");
    });
}

#[test]
fn leaving_late_does_not_disturb_the_count_of_the_next_reign() {
    many_orders(leave_late::<Gate>);
    many_orders(leave_late::<Broken<NONE>>);
}

#[test]
#[should_panic(expected = "drained with somebody inside")]
fn counting_anew_in_each_reign_is_caught() {
    many_orders(leave_late::<Broken<COUNTS_ANEW>>);
}
