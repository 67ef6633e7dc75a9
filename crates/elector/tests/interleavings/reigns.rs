//! I2 with two nodes: an OK of epoch e was evaluated before any admission under e' > e.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use shuttle::{
    future::block_on,
    sync::{Condvar, Mutex},
    thread,
};

use crate::{
    broken::{Broken, TRUSTS_THE_FLAG},
    clock::StepClock,
    door::{Door, Inside},
    gate::Gate,
    many_orders,
};

/// By the backend's record the first lease ends here; the holder's own end is one earlier.
const LEASE_END: u64 = 10;

/// What the first leader does at the end.
#[derive(Clone, Copy)]
enum End {
    /// Nothing: it is paused at any moment, and its lease ends.
    Lease,
    /// It steps down, and its lock is free at once.
    StepDown,
    /// The same in the wrong order.
    ReleaseFirst,
}

/// The two nodes, the lock, and the order in which things happened, which costs no step.
struct World<D> {
    clock: StepClock,
    first: D,
    second: D,
    /// By the backend's record, and the news of it.
    is_free: Mutex<bool>,
    freed: Condvar,
    now: AtomicU64,
    /// When the last answer of epoch 1 that was OK was evaluated, and when epoch 2 first let
    /// somebody in.
    evaluated: AtomicU64,
    admitted: AtomicU64,
}

impl<D: Door> World<D> {
    fn new() -> Self {
        let clock = StepClock::new(0);
        let gate = || D::new(Arc::new(clock.clone()));
        let world = Self {
            first: gate(),
            second: gate(),
            clock,
            is_free: Mutex::new(false),
            freed: Condvar::new(),
            now: AtomicU64::new(1),
            evaluated: AtomicU64::new(0),
            admitted: AtomicU64::new(u64::MAX),
        };
        world.first.open(1, LEASE_END - 1);
        world
    }

    /// A request to the first node.
    fn ask(&self) {
        let Some(inside) = self.first.admit() else {
            return;
        };
        thread::yield_now();
        let evaluated = self.now.fetch_add(1, SeqCst);
        thread::yield_now();
        if inside.confirm() {
            self.evaluated.fetch_max(evaluated, SeqCst);
        }
    }

    /// The second node gets the lock when it is free, and serves.
    fn campaign(&self) {
        let mut is_free = self.is_free.lock().unwrap();
        while !*is_free {
            is_free = self.freed.wait(is_free).unwrap();
        }
        drop(is_free);
        self.second.open(2, u64::MAX);
        let _inside = self.second.admit().unwrap();
        let admitted = self.now.fetch_add(1, SeqCst);
        self.admitted.fetch_min(admitted, SeqCst);
    }

    fn release(&self) {
        *self.is_free.lock().unwrap() = true;
        self.freed.notify_one();
    }

    fn step_down(&self, end: End) {
        match end {
            End::Lease => {}
            End::StepDown => {
                self.first.shut_admit(1);
                block_on(self.first.drained());
                self.first.shut(1);
                self.release();
            }
            End::ReleaseFirst => {
                self.first.shut_admit(1);
                self.release();
                block_on(self.first.drained());
                self.first.shut(1);
            }
        }
    }
}

fn succeed<D: Door>(end: End) {
    let world = World::<D>::new();
    thread::scope(|scope| {
        scope.spawn(|| world.ask());
        scope.spawn(|| world.ask());
        scope.spawn(|| world.campaign());
        scope.spawn(|| world.step_down(end));
        for now in [LEASE_END / 2, LEASE_END - 1, LEASE_END] {
            world.clock.set(now);
        }
        world.release();
    });
    let (evaluated, admitted) = (world.evaluated.into_inner(), world.admitted.into_inner());
    assert!(
        evaluated < admitted,
        "an OK of epoch 1 was evaluated after an admission under epoch 2"
    );
}

#[test]
fn an_ok_was_evaluated_before_any_admission_under_a_later_epoch() {
    many_orders(|| succeed::<Gate>(End::Lease));
    many_orders(|| succeed::<Gate>(End::StepDown));
}

#[test]
#[should_panic(expected = "evaluated after an admission under epoch 2")]
fn a_leader_that_does_not_look_at_the_clock_is_caught() {
    many_orders(|| succeed::<Broken<TRUSTS_THE_FLAG>>(End::Lease));
}

#[test]
#[should_panic(expected = "evaluated after an admission under epoch 2")]
fn a_leader_that_releases_before_it_has_drained_is_caught() {
    many_orders(|| succeed::<Gate>(End::ReleaseFirst));
}
