//! The clock of a paused tokio runtime.

use std::time::Duration;

use tokio::time::Instant;

use crate::{Clock, Moment};

/// Follows `tokio::time`, so that a runtime started with paused time replays hours in
/// milliseconds. For tests and simulations: unlike [`BootClock`](crate::BootClock) it does not
/// count suspend.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    origin: Instant,
}

impl VirtualClock {
    /// A clock that shows one hour now: far enough from zero that a test may look back.
    ///
    /// # Panics
    /// Outside a tokio runtime when its time is paused.
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Moment {
        Moment::ZERO + Duration::from_secs(3600) + self.origin.elapsed()
    }
}
