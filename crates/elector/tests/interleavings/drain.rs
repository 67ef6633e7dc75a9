//! Shutting `admit` and waiting for what is in.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering::SeqCst},
    },
};

use kvcm_clock::ManualClock;
use shuttle::{future::block_on, thread};

use crate::{
    broken::{
        Broken, LOOKS_THEN_COUNTS, NONE, READS_THEN_WAITS, REOPENS_BY_OPENING, WAKES_BEFORE_LEAVING,
    },
    door::{Door, FOREVER, Inside},
    every_order,
    gate::Gate,
    many_orders,
};

/// A gate that is open for reign 1, and what is known of it without asking it. Looking at that is
/// no step of its own.
struct Opened<D> {
    door: D,
    inside: AtomicI64,
    over: AtomicBool,
}

impl<D: Door> Opened<D> {
    fn new() -> Self {
        let door = D::new(Arc::new(ManualClock::default()));
        door.open(1, FOREVER);
        Self {
            door,
            inside: AtomicI64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Goes in, stays for a while, and leaves.
    fn visit(&self) {
        if let Some(inside) = self.door.admit() {
            assert!(!self.over.load(SeqCst), "let in after the drain");
            self.inside.fetch_add(1, SeqCst);
            thread::yield_now();
            assert!(inside.confirm(), "not confirmed while it drains");
            self.inside.fetch_sub(1, SeqCst);
        }
    }

    /// Returns when nobody is inside; if it is never woken, the scheduler says so.
    fn drain(&self) {
        self.door.shut_admit(1);
        block_on(self.door.drained());
        self.over.store(true, SeqCst);
        assert_eq!(
            self.inside.load(SeqCst),
            0,
            "somebody is inside after the drain"
        );
    }
}

fn drain<D: Door>(visitors: usize) {
    let opened = Opened::<D>::new();
    thread::scope(|scope| {
        for _ in 0..visitors {
            scope.spawn(|| opened.visit());
        }
        opened.drain();
    });
}

#[test]
fn a_drain_ends_with_nobody_inside_and_is_never_left_asleep() {
    every_order(|| drain::<Gate>(1));
    every_order(|| drain::<Broken<NONE>>(1));
}

#[test]
fn with_many_inside_the_last_one_wakes_the_drain() {
    many_orders(|| drain::<Gate>(3));
}

#[test]
#[should_panic(expected = "after the drain")]
fn looking_before_counting_is_caught() {
    every_order(|| drain::<Broken<LOOKS_THEN_COUNTS>>(1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn waking_before_leaving_is_caught() {
    every_order(|| drain::<Broken<WAKES_BEFORE_LEAVING>>(1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn reading_before_waiting_is_caught() {
    every_order(|| drain::<Broken<READS_THEN_WAITS>>(1));
}

/// A step-down is given up half-way, and the next one is not.
fn give_up<D: Door>() {
    let opened = Opened::<D>::new();
    thread::scope(|scope| {
        scope.spawn(|| opened.visit());
        opened.door.shut_admit(1);
        {
            let drained = pin!(opened.door.drained());
            let _ = futures_util::FutureExt::now_or_never(drained);
        }
        assert!(opened.door.reopen(1), "shut by nobody");
        assert!(opened.door.admit().is_some(), "not let in again");
        opened.drain();
    });
}

#[test]
fn a_drain_that_is_given_up_disturbs_neither_what_is_in_nor_the_next_drain() {
    many_orders(give_up::<Gate>);
    many_orders(give_up::<Broken<NONE>>);
}

#[test]
#[should_panic(expected = "not confirmed while it drains")]
fn reopening_by_opening_anew_is_caught() {
    many_orders(give_up::<Broken<REOPENS_BY_OPENING>>);
}
