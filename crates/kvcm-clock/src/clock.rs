//! The clock trait and the machine's clock.

use std::{fmt, sync::Arc};

use rustix::time::{ClockId, clock_gettime};

use crate::Moment;

/// Tells the time. Never goes back, and goes on while the machine is suspended.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Moment;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Moment {
        (**self).now()
    }
}

/// `CLOCK_BOOTTIME`: the same for all processes of one boot, suspend included.
///
/// `std::time::Instant` is `CLOCK_MONOTONIC` here, which stops in suspend: a laptop or a
/// virtual machine that sleeps through its lease would wake up believing that it leads.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Moment::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_clock_never_goes_back() {
        let mut last = BootClock.now();
        assert!(last > Moment::ZERO);
        for _ in 0..1000 {
            let now = BootClock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
