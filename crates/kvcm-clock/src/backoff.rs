//! Exponential back-off with jitter.

use std::time::Duration;

use crate::Random;

/// How waits grow. The jitter is applied before the cap, so no wait is longer than `cap`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffPolicy {
    /// The first wait, before jitter.
    pub first: Duration,
    /// No wait is longer.
    pub cap: Duration,
    /// Each wait is this many times the one before, before jitter.
    pub factor: f64,
    /// A wait is multiplied by a uniform number in `[1 - jitter, 1 + jitter)`; 0 to 1.
    pub jitter: f64,
}

impl BackoffPolicy {
    /// 10 ms, doubled, times 0.5–1.5, at most 1 s: what a client does between tries.
    pub const CLIENT: Self = Self {
        first: Duration::from_millis(10),
        cap: Duration::from_secs(1),
        factor: 2.0,
        jitter: 0.5,
    };

    /// The same with a cap of 100 ms: on the lease path a second without a try is a second
    /// without a leader.
    pub const LEASE: Self = Self {
        first: Duration::from_millis(5),
        cap: Duration::from_millis(100),
        factor: 2.0,
        jitter: 0.5,
    };
}

/// The waits of one series of tries; an endless iterator.
#[derive(Clone, Debug)]
pub struct Backoff {
    policy: BackoffPolicy,
    next: f64,
}

impl Backoff {
    /// A series that has not waited yet.
    pub fn new(policy: BackoffPolicy) -> Self {
        Self {
            policy,
            next: policy.first.as_secs_f64(),
        }
    }

    /// The next wait.
    pub fn next(&mut self, random: &mut dyn Random) -> Duration {
        let spread = 1.0 + self.policy.jitter * (2.0 * random.next_f64() - 1.0);
        let cap = self.policy.cap.as_secs_f64();
        let wait = (self.next * spread).clamp(0.0, cap);
        // A wait whose jitter is cut off by the cap is the same for all: clients would come in step.
        let most = cap / (1.0 + self.policy.jitter);
        self.next = (self.next * self.policy.factor).min(most.max(self.policy.first.as_secs_f64()));
        Duration::from_secs_f64(wait)
    }

    /// Starts again at the first wait.
    pub fn reset(&mut self) {
        self.next = self.policy.first.as_secs_f64();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_within_jitter_and_never_pass_the_cap() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut backoff = Backoff::new(BackoffPolicy::CLIENT);
        let mut expected = 0.010;
        for _ in 0..50 {
            let wait = backoff.next(&mut random).as_secs_f64();
            assert!(wait >= expected * 0.5 - 1e-9, "{wait} after {expected}");
            assert!(wait <= expected * 1.5 + 1e-9, "{wait} after {expected}");
            assert!(wait <= 1.0);
            expected = f64::min(expected * 2.0, 1.0 / 1.5);
        }
        backoff.reset();
        assert!(backoff.next(&mut random) <= Duration::from_millis(15));
    }

    #[test]
    fn waits_stay_spread_at_the_cap() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut backoff = Backoff::new(BackoffPolicy::CLIENT);
        let waits: Vec<_> = (0..1000).map(|_| backoff.next(&mut random)).collect();
        let at_cap = waits
            .iter()
            .filter(|wait| **wait > Duration::from_millis(990))
            .count();
        assert!(at_cap < 50, "{at_cap} of 1000 waits are the longest");
    }

    #[test]
    fn jitter_spreads_over_the_whole_range() {
        let mut random = fastrand::Rng::with_seed(1);
        let waits: Vec<_> = (0..1000)
            .map(|_| {
                Backoff::new(BackoffPolicy::CLIENT)
                    .next(&mut random)
                    .as_secs_f64()
            })
            .collect();
        assert!(waits.iter().any(|w| *w < 0.0055) && waits.iter().any(|w| *w > 0.0145));
    }
}
