//! How many calls a client may repeat at a node that failed them.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A token bucket: every call earns a tenth of a repeat, so that in a storm the repeats of all
/// calls stay near a tenth of the calls, whatever each call would like. What is earned is lost
/// within about a second: a long quiet time is no licence for a burst.
///
/// A small reserve that refills slowly keeps a lone client, which earns next to nothing, able to
/// repeat; not at once, because all lone clients of a node that fails have it. Moves to a newer
/// leader are not repeats: they cost nothing.
///
/// Whoever finds the bucket empty gets the next free slot and waits for it: that spreads the
/// repeats, where refusing them would only turn load into errors.
#[derive(Debug)]
pub(crate) struct RetryBudget(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Earned by calls; at least 0.
    earned: f64,
    /// The reserve; below 0 when slots of the future are taken.
    reserve: f64,
    at: Instant,
}

/// When a repeat may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// At once: it was earned.
    Now,
    /// After a time that is drawn from this long.
    Within(Duration),
    /// After so long, times 1 to 2: slots are a second apart, and clients that failed together have
    /// them together.
    After(Duration),
}

/// Of a repeat, per call.
const EARNED_PER_CALL: f64 = 0.1;
/// The time in which earnings fall to about a third.
const EARNINGS_LAST: Duration = Duration::from_secs(1);
/// Repeats without a wait for the next slot of a client that was quiet.
const RESERVE: f64 = 2.0;
/// The first is spread over this long, the second over twice as much.
const RESERVE_SPREAD: Duration = Duration::from_millis(800);
/// Repeats per second of a client that earns nothing.
const REFILL_PER_SECOND: f64 = 1.0;

impl RetryBudget {
    /// A full reserve.
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(State {
            earned: 0.0,
            reserve: RESERVE,
            at: now,
        }))
    }

    /// A bucket that is never empty, to see what a storm looks like.
    #[cfg(test)]
    pub(crate) fn unlimited() -> Self {
        let budget = Self::new(Instant::now());
        budget.0.lock().earned = f64::INFINITY;
        budget
    }

    /// A call was begun.
    pub(crate) fn earn(&self, now: Instant) {
        let mut state = self.0.lock();
        state.advance(now);
        state.earned += EARNED_PER_CALL;
    }

    /// Takes a repeat. It may be made in the slot that is returned; `None`, and nothing is taken, when
    /// that begins after `patience`.
    pub(crate) fn spend(&self, now: Instant, patience: Duration) -> Option<Slot> {
        let mut state = self.0.lock();
        state.advance(now);
        if state.reserve < 0.0 {
            // What is earned pays debts first: those who wait have their slots already.
        } else if state.earned >= 1.0 {
            state.earned -= 1.0;
            return Some(Slot::Now);
        }
        let missing = (1.0 - state.reserve).max(0.0);
        let wait = Duration::from_secs_f64(missing / REFILL_PER_SECOND);
        if wait > patience {
            return None;
        }
        state.reserve -= 1.0;
        Some(match wait {
            Duration::ZERO => Slot::Within(RESERVE_SPREAD.mul_f64(RESERVE - state.reserve)),
            wait => Slot::After(wait),
        })
    }

    /// How many repeats could be made now, 0 or more.
    pub(crate) fn balance(&self, now: Instant) -> u64 {
        let mut state = self.0.lock();
        state.advance(now);
        (state.reserve.max(0.0) + state.earned) as u64
    }
}

impl State {
    fn advance(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.reserve = (self.reserve + passed * REFILL_PER_SECOND).min(self.reserve.max(RESERVE));
        if self.reserve < 0.0 {
            let paid = self.earned.min(-self.reserve);
            self.reserve += paid;
            self.earned -= paid;
        }
        self.earned *= (-passed / EARNINGS_LAST.as_secs_f64()).exp();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn a_lone_client_has_its_reserve_and_then_one_repeat_a_second() {
        let start = Instant::now();
        let budget = RetryBudget::new(start);
        let waits: Vec<_> = (0..5)
            .filter_map(|_| budget.spend(start, MS * 5000))
            .collect();
        let after = |ms| Slot::After(MS * ms);
        let within = |ms| Slot::Within(MS * ms);
        let expected = [
            within(800),
            within(1600),
            after(1000),
            after(2000),
            after(3000),
        ];
        assert_eq!(waits, expected, "each gets a slot of its own");
        assert_eq!(budget.spend(start, MS * 3999), None, "not in time");
        assert_eq!(budget.spend(start, MS * 4000), Some(after(4000)));
        let later = start + Duration::from_secs(60);
        assert_eq!(budget.balance(later), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_client_repeats_a_tenth_of_its_calls_and_no_more() {
        let start = Instant::now();
        let budget = RetryBudget::new(start);
        let (mut calls, mut repeats) = (0, 0);
        for ms in 0..10_000 {
            let now = start + MS * ms;
            budget.earn(now);
            calls += 1;
            // Every call fails and would like to be repeated at once.
            if budget.spend(now, Duration::ZERO).is_some() {
                repeats += 1;
            }
        }
        let share = f64::from(repeats) / f64::from(calls);
        assert!((0.05..0.11).contains(&share), "{share}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_earned_long_ago_is_no_licence_for_a_burst() {
        let start = Instant::now();
        let budget = RetryBudget::new(start);
        for _ in 0..10_000 {
            budget.earn(start);
        }
        let later = start + Duration::from_secs(20);
        assert_eq!(budget.balance(later), 2, "only the reserve");
    }
}
