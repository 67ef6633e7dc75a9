//! Clocks and timers of processes.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use async_trait::async_trait;
use kvcm_clock::{Clock, Moment, Timer};
use parking_lot::Mutex;

use crate::world::World;

/// The clock of one host: it began at another moment than the others and runs a little slower or
/// faster.
#[derive(Clone)]
pub(crate) struct HostClock {
    world: World,
    offset: u64,
    /// How many parts in a million it is too fast.
    drift: i64,
}

/// Timers on that clock; late as those of a real machine.
pub(crate) struct HostTimer {
    clock: HostClock,
    random: Mutex<fastrand::Rng>,
    /// Nanoseconds that they are late at most.
    late: Arc<AtomicU64>,
}

impl HostClock {
    /// A clock of `world`.
    pub(crate) fn new(world: World, offset: u64, drift: i64) -> Self {
        Self {
            world,
            offset,
            drift,
        }
    }

    fn scaled(&self, time: u64, numerator: i64, denominator: i64) -> u64 {
        let scaled = i128::from(time) * i128::from(numerator) / i128::from(denominator);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// The moment of the world at which this clock shows `moment`, or one just after it.
    fn in_world(&self, moment: Moment) -> u64 {
        let own = moment.as_nanos().saturating_sub(self.offset);
        self.scaled(own, 1_000_000, 1_000_000 + self.drift)
            .saturating_add(2)
    }
}

impl Clock for HostClock {
    fn now(&self) -> Moment {
        let time = self.scaled(self.world.now(), 1_000_000 + self.drift, 1_000_000);
        Moment::from_nanos(self.offset + time)
    }
}

impl HostTimer {
    /// Timers on `clock` that are late by `late` nanoseconds at most.
    pub(crate) fn new(clock: HostClock, random: fastrand::Rng, late: Arc<AtomicU64>) -> Self {
        Self {
            clock,
            random: Mutex::new(random),
            late,
        }
    }
}

#[async_trait]
impl Timer for HostTimer {
    async fn sleep_until(&self, moment: Moment) {
        if moment == Moment::NEVER {
            return std::future::pending().await;
        }
        while self.clock.now() < moment {
            let late = self.random.lock().u64(..=self.late.load(Relaxed));
            let at = self.clock.in_world(moment).saturating_add(late);
            self.clock.world.sleep_until(at).await;
        }
    }
}

impl fmt::Debug for HostClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostClock({:+} ppm)", self.drift)
    }
}

impl fmt::Debug for HostTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostTimer")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::world::Executor;

    #[test]
    fn a_fast_clock_and_a_slow_one_wait_for_their_own_time() {
        for drift in [-400, 0, 400] {
            let world = World::new();
            let mut executor = Executor::new(world.clone(), fastrand::Rng::with_seed(1));
            let clock = HostClock::new(world.clone(), 7_000_000_000, drift);
            let timer = HostTimer::new(clock.clone(), fastrand::Rng::new(), Arc::default());
            let target = clock.now() + Duration::from_secs(1000);
            let woke = Arc::new(Mutex::new(None));
            let woke_at = woke.clone();
            let woken = clock.clone();
            let task = async move {
                timer.sleep_until(target).await;
                *woke_at.lock() = Some(woken.now());
            };
            world.spawn(world.process(), Box::pin(task));
            executor.run_until(1_001_000_000_000);
            let woke = woke.lock().unwrap();
            assert!(woke >= target, "{drift}: {woke} before {target}");
            assert!(woke.since(target) < Duration::from_micros(1), "{drift}");
        }
    }
}
