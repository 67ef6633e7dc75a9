//! How many retries a client may spend.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A token bucket: every call that succeeds earns a tenth of a retry. In a storm the retries of
/// all calls together then stay near a tenth of the calls, whatever each call would like.
///
/// A floor of tokens per second keeps a lone client, which earns next to nothing, able to ride
/// out a failover.
#[derive(Debug)]
pub(crate) struct RetryBudget(Mutex<State>);

#[derive(Debug)]
struct State {
    /// In thousandths, so that sums are exact.
    millitokens: u64,
    filled: Instant,
}

impl RetryBudget {
    const TOKEN: u64 = 1000;
    const CAPACITY: u64 = 100 * Self::TOKEN;
    const EARNED_PER_CALL: u64 = Self::TOKEN / 10;
    /// Ten tokens per second.
    const FLOOR_PER_MS: u64 = 10;

    /// A full bucket.
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(State {
            millitokens: Self::CAPACITY,
            filled: now,
        }))
    }

    /// A call succeeded at its first try.
    pub(crate) fn earn(&self) {
        let mut state = self.0.lock();
        state.millitokens = (state.millitokens + Self::EARNED_PER_CALL).min(Self::CAPACITY);
    }

    /// Takes a token for a retry; false when there is none.
    pub(crate) fn spend(&self, now: Instant) -> bool {
        let mut state = self.0.lock();
        // Whole milliseconds only; the rest counts next time.
        let passed = now.saturating_duration_since(state.filled).as_millis();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        state.filled += Duration::from_millis(passed);
        let filled = passed.saturating_mul(Self::FLOOR_PER_MS);
        state.millitokens = state.millitokens.saturating_add(filled).min(Self::CAPACITY);
        let has_one = state.millitokens >= Self::TOKEN;
        if has_one {
            state.millitokens -= Self::TOKEN;
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_empty_bucket_refills_by_time_and_by_success() {
        let now = Instant::now();
        let budget = RetryBudget::new(now);
        let spent = (0..1000).filter(|_| budget.spend(now)).count();
        assert_eq!(spent, 100);
        for _ in 0..10 {
            budget.earn();
        }
        assert!(
            budget.spend(now) && !budget.spend(now),
            "ten calls earn one retry"
        );
        let later = now + Duration::from_secs(2);
        let spent = (0..1000).filter(|_| budget.spend(later)).count();
        assert_eq!(spent, 20, "the floor");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lone_client_can_try_every_fifty_ms_through_a_two_second_failover() {
        let start = Instant::now();
        let budget = RetryBudget::new(start);
        for tick in 0..40 {
            assert!(budget.spend(start + Duration::from_millis(50) * tick));
        }
    }
}
