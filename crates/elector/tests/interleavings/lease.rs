//! A lease ends, or is renewed just in time, while work is confirmed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use shuttle::thread;

use crate::{
    broken::{Broken, EXTENDS_BLINDLY, NONE, TRUSTS_THE_FLAG},
    clock::StepClock,
    door::{Door, Inside},
    every_order,
    gate::Gate,
};

/// The lease of reign 5 ends at 10; at 15 the lease check looks; a renewal may move the end to 20.
fn expire<D: Door>() {
    let clock = StepClock::new(0);
    let door = D::new(Arc::new(clock.clone()));
    door.open(5, 10);
    let inside = door.admit().unwrap();
    let (past, renewed, found_shut) = (
        AtomicBool::new(false),
        AtomicBool::new(false),
        AtomicBool::new(false),
    );
    let (extended, shut) = thread::scope(|scope| {
        let renewal = scope.spawn(|| {
            let too_late = found_shut.load(SeqCst);
            renewed.store(true, SeqCst);
            let extended = door.extend(5, 20);
            assert!(!(extended && too_late), "extended although it was shut");
            extended
        });
        scope.spawn(|| {
            let late = past.load(SeqCst);
            let confirmed = inside.confirm();
            let excused = renewed.load(SeqCst);
            assert!(!(confirmed && late && !excused), "confirmed after the end");
        });
        clock.set(15);
        past.store(true, SeqCst);
        let shut = door.shut_if_expired();
        found_shut.store(shut.is_some(), SeqCst);
        (renewal.join().unwrap(), shut)
    });
    // A renewal that was refused has a reason, and a gate that was shut stays shut.
    assert!(extended || shut == Some(5), "neither extended nor shut");
    assert_eq!(inside.confirm(), shut.is_none());
    assert_eq!(door.admit().is_some(), shut.is_none());
    clock.set(20);
    assert!(!inside.confirm(), "confirmed after the end");
    assert!(door.admit().is_none());
}

#[test]
fn nothing_is_confirmed_after_the_end_and_a_renewal_comes_in_time_or_is_told() {
    every_order(expire::<Gate>);
    every_order(expire::<Broken<NONE>>);
}

#[test]
#[should_panic(expected = "confirmed after the end")]
fn trusting_the_flag_is_caught() {
    every_order(expire::<Broken<TRUSTS_THE_FLAG>>);
}

#[test]
#[should_panic(expected = "extended although it was shut")]
fn extending_blindly_is_caught() {
    every_order(expire::<Broken<EXTENDS_BLINDLY>>);
}
