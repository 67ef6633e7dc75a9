//! What a server's clock shows.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kvcm_clock::Moment;

/// No answer takes so long to somebody who still waits for it: the clock was set back.
const SET_BACK_US: i64 = 5_000_000;

/// The clock of one server as seen from here: when we say that it shows a time, it shows that or a
/// later one.
///
/// So a moment of ours can be sent along with a command as a time of the server, and a command
/// that was held up on its way, or in a stopped server, can be refused when it comes after it.
/// That is early at most by the time that the server's last answer took to us, when our moment
/// could not have been met anyway. A server's clock that is set back by less than five seconds lets
/// commands in that are late by as much; one that is set forward refuses all until it has been
/// asked again.
#[derive(Debug)]
pub(crate) struct ServerTime {
    known: Mutex<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    latest: Sample,
    /// When the clock was seen last, whether or not that counted.
    seen_at: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// What the server's clock shows beyond ours, in microseconds.
    ahead: i64,
    at: Moment,
}

impl ServerTime {
    /// The server showed `server_us`, microseconds since the epoch, before `received`.
    pub(crate) fn new(server_us: i64, received: Moment) -> Self {
        let latest = sample(server_us, received);
        let known = Mutex::new(Known {
            latest,
            seen_at: received,
        });
        Self { known }
    }

    /// The same again, later. The sample that came fastest counts longest: each is a lower bound,
    /// and clocks drift.
    pub(crate) fn update(&self, server_us: i64, received: Moment) {
        let new = sample(server_us, received);
        let mut known = self.known();
        known.seen_at = known.seen_at.max(received);
        let latest = &mut known.latest;
        // No two clocks that tick at all drift apart by more than a thousandth.
        let drift = micros(received.since(latest.at).as_micros()) / 1000;
        let behind = latest.ahead.saturating_sub(new.ahead);
        if behind <= drift || behind > SET_BACK_US {
            *latest = new;
        }
    }

    /// When the server's clock was seen last.
    pub(crate) fn seen_at(&self) -> Moment {
        self.known().seen_at
    }

    /// The last millisecond that the server shows before `moment`.
    pub(crate) fn millis_at(&self, moment: Moment) -> i64 {
        let latest = self.known().latest;
        let here = micros(u128::from(moment.as_nanos() / 1000));
        here.saturating_add(latest.ahead).div_euclid(1000)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sample(server_us: i64, received: Moment) -> Sample {
    let here = micros(u128::from(received.as_nanos() / 1000));
    Sample {
        ahead: server_us.saturating_sub(here),
        at: received,
    }
}

fn micros(micros: u128) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_sample_that_came_fastest_counts() {
        // The server is 1,000 s ahead.
        let time = ServerTime::new(1_000_000_000, at(5));
        assert_eq!(time.millis_at(at(5)), 1_000_000);
        time.update(1_000_100_000, at(101));
        assert_eq!(time.millis_at(at(101)), 1_000_100);
        // This one took 400 ms to us.
        time.update(1_000_200_000, at(600));
        assert_eq!(time.millis_at(at(600)), 1_000_599);
        assert_eq!(time.seen_at(), at(600));
    }

    #[test]
    fn a_slower_clock_is_followed() {
        let time = ServerTime::new(0, at(0));
        // 100 s here are 99.95 s there.
        time.update(99_950_000, at(100_000));
        assert_eq!(time.millis_at(at(100_000)), 99_950);
    }

    #[test]
    fn a_clock_that_was_set_is_followed() {
        let time = ServerTime::new(3_600_000_000, at(0));
        time.update(0, at(0));
        assert_eq!(time.millis_at(at(0)), 0);
        time.update(3_600_000_000, at(0));
        assert_eq!(time.millis_at(at(0)), 3_600_000);
    }

    #[test]
    fn a_far_moment_is_not_an_overflow() {
        let time = ServerTime::new(i64::MAX / 2, at(0));
        assert!(time.millis_at(Moment::NEVER) > 0);
    }
}
