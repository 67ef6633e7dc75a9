//! The gate under every order of events.
//!
//! The files of `src/gate` are compiled here once more, with atomics that hand each step of each
//! thread to a scheduler. Small scenarios are searched completely, larger ones at random. All
//! orderings in the gate are `SeqCst`, so orders of events are all that there is to search; what
//! tokio's `Notify` does is one step each time.
//!
//! Each scenario also runs on gates that are broken on purpose (`broken.rs`), and must notice.
#![expect(clippy::unwrap_used, reason = "a test that panics fails")]

use shuttle::{
    Config, Runner,
    scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler},
};

mod broken;
mod clock;
mod door;
mod drain;
mod epochs;
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the library has other callers and exports it"
)]
mod gate;
mod lease;
mod reigns;

/// Scenarios that are too large to be searched completely are tried this often in two ways each.
const TRIES: usize = 10_000;

/// How many delays of a thread are put into a try of the second way.
const DEPTH: usize = 4;

/// The same orders are tried each time.
const SEED: u64 = 4;

/// More orders than a scenario that is searched completely may have.
const MANY: usize = 2_000_000;

/// Searches every order of events.
fn every_order(scenario: impl Fn() + Send + Sync + 'static) {
    let orders = run(DfsScheduler::new(Some(MANY), false), scenario);
    assert!(orders < MANY, "too large to be searched completely");
}

/// Tries many orders of events: any, and those in which some threads are held up for long.
fn many_orders(scenario: fn()) {
    run(RandomScheduler::new_from_seed(SEED, TRIES), scenario);
    run(PctScheduler::new_from_seed(SEED, DEPTH, TRIES), scenario);
}

fn run(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) -> usize {
    Runner::new(scheduler, Config::new()).run(scenario)
}
