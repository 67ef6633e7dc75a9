//! Time, timers, randomness and back-off, injected wherever a decision depends on them.
//!
//! A lease must not outlive the backend's idea of it, so every decision reads
//! [`Clock`], which counts suspend (`CLOCK_BOOTTIME`), and never the wall clock.

mod backoff;
mod clock;
mod manual;
mod moment;
mod random;
mod timer;
mod virtual_clock;
mod wall;

pub use backoff::{Backoff, BackoffPolicy};
pub use clock::{BootClock, Clock};
pub use manual::ManualClock;
pub use moment::Moment;
pub use random::Random;
pub use timer::{Timer, TokioTimer};
pub use virtual_clock::VirtualClock;
pub use wall::{wall_clock_ms, wall_clock_us};
