//! `cargo xtask model`: the search of the election, longer than a test run may take.

use crate::shell;

/// Searches until about `states` different states were seen, or all that the scenarios have.
///
/// # Errors
/// When an invariant is broken.
pub(crate) fn run(states: u64) -> anyhow::Result<()> {
    let mut search = shell::cargo([
        "test",
        "-p",
        "elector",
        "--test",
        "model",
        "--",
        "--nocapture",
        "--test-threads",
        "1",
    ]);
    search.env("KVCM_MODEL_STATES", states.to_string());
    shell::timed("the search", || shell::run(&mut search))
}
