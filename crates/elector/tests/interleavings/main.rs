//! The gate under every order of events.
//!
//! The files of `src/gate` are compiled here once more, with atomics that hand each step of each
//! thread to a scheduler. Small scenarios are searched completely, larger ones at random. All
//! orderings in the gate are `SeqCst`, so orders of events are all that there is to search; what
//! tokio's `Notify` does is one step each time.
//!
//! Each scenario also runs on gates that are broken on purpose (`broken.rs`), and must notice.
#![expect(clippy::unwrap_used, reason = "a test that panics fails")]

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

/// Scenarios that are too large to be searched completely are tried this often.
const TRIES: usize = 20_000;

/// How many delays of a thread are put into one such try.
const DEPTH: usize = 4;

/// More orders than a scenario that is searched completely may have.
const MANY: usize = 2_000_000;

/// Searches every order of events.
fn every_order(scenario: impl Fn() + Send + Sync + 'static) {
    let runner = shuttle::Runner::new(
        shuttle::scheduler::DfsScheduler::new(Some(MANY), false),
        shuttle::Config::new(),
    );
    let orders = runner.run(scenario);
    assert!(orders < MANY, "too large to be searched completely");
}
