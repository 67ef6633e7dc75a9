//! I2 with two nodes: an OK of epoch e was evaluated before any admission under e' > e.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use kvcm_clock::Clock as _;
use shuttle::{future::block_on, thread};

use crate::{
    DEPTH, TRIES,
    broken::{Broken, TRUSTS_THE_FLAG},
    clock::StepClock,
    door::{Door, Inside},
    gate::Gate,
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
    released: AtomicBool,
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
            released: AtomicBool::new(false),
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

    /// The second node tries a few times to get the lock, and then serves.
    fn campaign(&self) {
        for _ in 0..4 {
            if self.released.load(SeqCst) || self.clock.now().as_nanos() >= LEASE_END {
                self.second.open(2, u64::MAX);
                let _inside = self.second.admit().unwrap();
                let admitted = self.now.fetch_add(1, SeqCst);
                self.admitted.fetch_min(admitted, SeqCst);
                return;
            }
        }
    }

    fn step_down(&self, end: End) {
        match end {
            End::Lease => {}
            End::StepDown => {
                self.first.shut_admit(1);
                block_on(self.first.drained());
                self.first.shut(1);
                self.released.store(true, SeqCst);
            }
            End::ReleaseFirst => {
                self.first.shut_admit(1);
                self.released.store(true, SeqCst);
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
    });
    let (evaluated, admitted) = (world.evaluated.into_inner(), world.admitted.into_inner());
    assert!(
        evaluated < admitted,
        "an OK of epoch 1 was evaluated after an admission under epoch 2"
    );
}

#[test]
fn an_ok_was_evaluated_before_any_admission_under_a_later_epoch() {
    for end in [End::Lease, End::StepDown] {
        shuttle::check_random(move || succeed::<Gate>(end), 2 * TRIES);
        shuttle::check_pct(move || succeed::<Gate>(end), 2 * TRIES, DEPTH);
    }
}

#[test]
#[should_panic(expected = "evaluated after an admission under epoch 2")]
fn a_leader_that_does_not_look_at_the_clock_is_caught() {
    shuttle::check_random(|| succeed::<Broken<TRUSTS_THE_FLAG>>(End::Lease), TRIES);
}

#[test]
#[should_panic(expected = "evaluated after an admission under epoch 2")]
fn a_leader_that_releases_before_it_has_drained_is_caught() {
    shuttle::check_random(|| succeed::<Gate>(End::ReleaseFirst), 10 * TRIES);
}
