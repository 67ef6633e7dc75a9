//! The wall clock, for people and for the start of an epoch counter.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 by the wall clock: for log lines and fields that people read.
/// It jumps, so no decision may depend on it; the one exception is the first value of an epoch
/// counter that was lost (see `coordination-core`).
pub fn wall_clock_ms() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}

/// Microseconds since 1970 by the wall clock, for people as [`wall_clock_ms`].
pub fn wall_clock_us() -> u64 {
    u64::try_from(since_1970().as_micros()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
