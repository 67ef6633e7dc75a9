//! The numbers of an election that change all the time, for metrics.

use std::{collections::BTreeMap, time::Duration};

use crate::record::{Change, PARTS};

/// The upper bounds of the buckets of a [`Distribution`]; one more bucket is above the last.
pub const BOUNDS: [Duration; 13] = {
    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }
    [
        us(100),
        us(300),
        us(1_000),
        us(3_000),
        us(5_000),
        us(10_000),
        us(30_000),
        us(100_000),
        us(300_000),
        us(1_000_000),
        us(3_000_000),
        us(10_000_000),
        us(30_000_000),
    ]
};

/// How durations are distributed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many were at most as long as the [bound](BOUNDS) of the same index and longer than the
    /// one before; the last bucket has no bound.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// All of them added.
    pub sum: Duration,
    /// The longest.
    pub max: Duration,
}

impl Distribution {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub(crate) fn add(&mut self, duration: Duration) {
        self.buckets[BOUNDS.partition_point(|bound| *bound < duration)] += 1;
        self.sum += duration;
        self.max = self.max.max(duration);
    }
}

/// What was measured since the process started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measures {
    /// From sending a renewal to its answer; those without an answer are not in it.
    pub renew: Distribution,
    /// How late the timer of the lock loop fired.
    pub lateness: Distribution,
    /// The safety margin of the lease that follows from it.
    pub margin: Duration,
    /// The parts of changes of leadership, by name.
    pub parts: [(&'static str, Distribution); PARTS.len()],
    /// How many changes of leadership there were, by result and reason (see [`Turn`](crate::Turn)).
    pub changes: BTreeMap<(&'static str, &'static str), u64>,
}

impl Measures {
    pub(crate) fn new() -> Self {
        Self {
            renew: Distribution::default(),
            lateness: Distribution::default(),
            margin: crate::settings::MIN_MARGIN,
            parts: PARTS.map(|name| (name, Distribution::default())),
            changes: BTreeMap::new(),
        }
    }

    pub(crate) fn count(&mut self, change: &Change) {
        let kind = (change.turn.result(), change.turn.reason());
        *self.changes.entry(kind).or_default() += 1;
        for ((_, distribution), (_, part)) in self.parts.iter_mut().zip(change.took.parts()) {
            if let Some(part) = part {
                distribution.add(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_bucket_whose_bound_it_does_not_exceed() {
        let mut distribution = Distribution::default();
        for us in [0, 100, 101, 30_000_000, 30_000_001] {
            distribution.add(Duration::from_micros(us));
        }
        assert_eq!(distribution.buckets[..2], [2, 1]);
        assert_eq!(distribution.buckets[12..], [1, 1]);
        assert_eq!(distribution.count(), 5);
        assert_eq!(distribution.max, Duration::from_micros(30_000_001));
        assert_eq!(distribution.sum, Duration::from_micros(60_000_202));
    }
}
