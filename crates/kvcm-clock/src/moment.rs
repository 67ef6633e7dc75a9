//! A point on a [`Clock`](crate::Clock).

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

/// A point in time: nanoseconds on one clock. Points of different clocks do not compare.
///
/// Arithmetic saturates: 2^64 nanoseconds are 584 years, so a saturated point means "never".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// Later than every real point.
    pub const NEVER: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds since the clock's origin, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Time from `self` to `later`; zero when `later` has passed.
    pub const fn until(self, later: Self) -> Duration {
        later.since(self)
    }
}

// === impl operators ===

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:03}s",
            self.0 / 1_000_000_000,
            self.0 / 1_000_000 % 1000
        )
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let second = Duration::from_secs(1);
        assert_eq!(Moment::ZERO - second, Moment::ZERO);
        assert_eq!(Moment::NEVER + second, Moment::NEVER);
        assert_eq!(Moment::ZERO + Duration::MAX, Moment::NEVER);
        assert_eq!(Moment::ZERO.since(Moment::NEVER), Duration::ZERO);
        assert_eq!((Moment::ZERO + second).since(Moment::ZERO), second);
        assert_eq!(Moment::ZERO.until(Moment::ZERO + second), second);
    }
}
