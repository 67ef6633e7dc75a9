//! Random lengths and waits of the generator.

use std::f64::consts::TAU;

use fastrand::Rng;

/// A length with a long tail: log-normal, cut at both ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LongTail {
    /// Half of all draws are below.
    pub(crate) median: f64,
    /// Standard deviation of the logarithm: 0 is no spread, 1 a tail of ten medians.
    pub(crate) spread: f64,
    /// No draw is below.
    pub(crate) min: u64,
    /// No draw is above.
    pub(crate) max: u64,
}

impl LongTail {
    /// Draws one.
    pub(crate) fn draw(self, rng: &mut Rng) -> u64 {
        let length = self.median * (self.spread * normal(rng)).exp();
        (length as u64).clamp(self.min, self.max)
    }
}

/// Waiting time between two arrivals of a Poisson process.
pub(crate) fn wait(rng: &mut Rng, mean: f64) -> f64 {
    -mean * positive(rng).ln()
}

/// Standard normal (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * positive(rng).ln()).sqrt() * (TAU * rng.f64()).cos()
}

/// Uniform in `(0, 1]`: its logarithm is finite.
fn positive(rng: &mut Rng) -> f64 {
    1.0 - rng.f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_lengths_are_below_the_median_and_some_far_above() {
        let tail = LongTail {
            median: 500.0,
            spread: 1.0,
            min: 10,
            max: 20_000,
        };
        let mut rng = Rng::with_seed(1);
        let mut drawn: Vec<_> = (0..4000).map(|_| tail.draw(&mut rng)).collect();
        drawn.sort_unstable();
        assert!((450..550).contains(&drawn[2000]), "{}", drawn[2000]);
        assert!(drawn[3960] > 2500, "{}", drawn[3960]);
        assert!(drawn[0] >= 10 && drawn[3999] <= 20_000);
    }

    #[test]
    fn waits_have_their_mean() {
        let mut rng = Rng::with_seed(1);
        let mean = (0..10_000).map(|_| wait(&mut rng, 300.0)).sum::<f64>() / 10_000.0;
        assert!((280.0..320.0).contains(&mean), "{mean}");
    }
}
