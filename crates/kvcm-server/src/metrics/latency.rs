//! A histogram of durations without a lock.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric},
};

/// Upper bounds of the buckets, in microseconds: from a lookup in memory to a store that hangs.
const BOUNDS_US: [u64; 15] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    2_500_000, 10_000_000,
];

/// How long something took, over the life of the process. Clones share their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Latency(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// One for each bound and one beyond; not cumulative.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Latency {
    /// Adds one.
    pub(super) fn observe(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.0.buckets[bucket].fetch_add(1, Relaxed);
        self.0.sum_us.fetch_add(us, Relaxed);
    }

    /// How many there were, and their sum in microseconds.
    pub(super) fn total(&self) -> (u64, u64) {
        let count = self.0.buckets.iter().map(|bucket| bucket.load(Relaxed));
        (count.sum(), self.0.sum_us.load(Relaxed))
    }
}

impl EncodeMetric for Latency {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let bounds = BOUNDS_US.iter().map(|bound| *bound as f64 / 1e6);
        let bounds = bounds.chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds
            .zip(&self.0.buckets)
            .map(|(bound, count)| (bound, count.load(Relaxed)))
            .collect();
        // Counted from the same reading, or the parts could contradict each other.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = self.0.sum_us.load(Relaxed) as f64 / 1e6;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for Latency {
    const TYPE: MetricType = MetricType::Histogram;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_first_bucket_that_is_not_below_it() {
        let latency = Latency::default();
        for us in [0, 50, 51, 10_000_000, 10_000_001] {
            latency.observe(Duration::from_micros(us));
        }
        let buckets = latency
            .0
            .buckets
            .each_ref()
            .map(|count| count.load(Relaxed));
        assert_eq!(
            (buckets[0], buckets[1], buckets[14], buckets[15]),
            (2, 1, 1, 1)
        );
        assert_eq!(latency.0.sum_us.load(Relaxed), 20_000_102);
    }
}
