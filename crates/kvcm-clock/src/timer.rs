//! Waiting for a moment.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{Clock, Moment};

/// Waits on a clock.
#[async_trait]
pub trait Timer: fmt::Debug + Send + Sync + 'static {
    /// Returns at or after `moment`, at once when it has passed. Cancel-safe.
    async fn sleep_until(&self, moment: Moment);
}

#[async_trait]
impl<T: Timer + ?Sized> Timer for Arc<T> {
    async fn sleep_until(&self, moment: Moment) {
        (**self).sleep_until(moment).await;
    }
}

/// Waits with tokio's timer (milliseconds) and re-checks a clock, which may have moved on
/// further (suspend) or less far (virtual time) than the timer.
#[derive(Clone, Debug)]
pub struct TokioTimer<C> {
    clock: C,
}

impl<C: Clock> TokioTimer<C> {
    /// A timer on `clock`.
    pub fn new(clock: C) -> Self {
        Self { clock }
    }
}

#[async_trait]
impl<C: Clock> Timer for TokioTimer<C> {
    async fn sleep_until(&self, moment: Moment) {
        if moment == Moment::NEVER {
            return std::future::pending().await;
        }
        loop {
            let left = self.clock.now().until(moment);
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::VirtualClock;

    #[tokio::test(start_paused = true)]
    async fn sleeps_exactly_until_the_moment() {
        let clock = VirtualClock::new();
        let timer = TokioTimer::new(clock);
        let target = clock.now() + Duration::from_millis(250);
        timer.sleep_until(target).await;
        assert_eq!(clock.now(), target);
        timer.sleep_until(Moment::ZERO).await;
        assert_eq!(clock.now(), target);
    }
}
