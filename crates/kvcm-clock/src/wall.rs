//! The wall clock, for people and for the start of an epoch counter.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 by the wall clock: for log lines and fields that people read.
/// It jumps, so no decision may depend on it; the one exception is the first value of an epoch
/// counter that was lost (see `coordination-core`).
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
pub fn wall_clock_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
