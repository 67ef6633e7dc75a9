//! Durations, and what is said of many.

use std::time::Duration;

use kvcm_clock::{BootClock, Clock};

/// All samples of one measure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    sorted: Vec<Duration>,
}

impl Samples {
    /// The `percent`-th percentile by nearest rank: at least so many of a hundred are not longer.
    /// Zero without samples.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.sorted.len() * percent).div_ceil(100);
        let found = self.sorted.get(rank.saturating_sub(1));
        found.copied().unwrap_or_default()
    }

    pub(crate) fn max(&self) -> Duration {
        self.sorted.last().copied().unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }
}

impl FromIterator<Duration> for Samples {
    fn from_iter<I: IntoIterator<Item = Duration>>(samples: I) -> Self {
        let mut sorted: Vec<_> = samples.into_iter().collect();
        sorted.sort_unstable();
        Self { sorted }
    }
}

/// Measures one operation again and again, for a bounded time.
pub(crate) struct Stopwatch {
    taken: Vec<Duration>,
}

impl Stopwatch {
    pub(crate) fn new() -> Self {
        Self { taken: Vec::new() }
    }

    /// How long `work` takes becomes a sample.
    pub(crate) async fn time<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let start = BootClock.now();
        let result = work.await?;
        self.taken.push(BootClock.now().since(start));
        Ok(result)
    }

    pub(crate) fn samples(self) -> Samples {
        self.taken.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_of_the_nearest_rank() {
        let samples: Samples = (1..=200).rev().map(Duration::from_millis).collect();
        let ms = |percent| samples.percentile(percent).as_millis();
        assert_eq!((ms(50), ms(99), ms(100)), (100, 198, 200));
        assert_eq!(samples.max(), Duration::from_millis(200));
        let one: Samples = [Duration::from_millis(7)].into_iter().collect();
        assert_eq!(
            (one.percentile(1), one.percentile(99)),
            (one.max(), one.max())
        );
        assert_eq!(Samples::default().percentile(99), Duration::ZERO);
    }
}
