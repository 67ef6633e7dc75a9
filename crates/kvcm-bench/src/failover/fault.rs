//! What is done to the leader, or to the server that it leans on.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// SIGKILL of the leader
    Kill,
    /// The leader is asked to hand over: SIGTERM; for Sentinel `SENTINEL FAILOVER`
    HandOver,
    /// SIGSTOP of the leader; SIGCONT once another leads
    Stop,
    /// SIGSTOP of the backend for 0.7 leases, then SIGCONT; for Sentinel of the master
    ShortOutage,
    /// The same for 1.5 leases
    LongOutage,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Kill,
        Self::HandOver,
        Self::Stop,
        Self::ShortOutage,
        Self::LongOutage,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Kill => "kill -9 of the leader",
            Self::HandOver => "graceful hand-over",
            Self::Stop => "SIGSTOP of the leader",
            Self::ShortOutage => "backend away for 0.7 leases",
            Self::LongOutage => "backend away for 1.5 leases",
        }
    }

    /// For how long the backend is away; `None` where it is not.
    pub(super) fn outage(self, lease: Duration) -> Option<Duration> {
        match self {
            Self::ShortOutage => Some(lease * 7 / 10),
            Self::LongOutage => Some(lease * 3 / 2),
            Self::Kill | Self::HandOver | Self::Stop => None,
        }
    }

    pub(super) fn is_outage(self) -> bool {
        self.outage(Duration::ZERO).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_are_shorter_and_longer_than_the_lease() {
        let lease = Duration::from_secs(2);
        let away = Fault::ALL.map(|fault| fault.outage(lease).map(|time| time.as_millis()));
        assert_eq!(away, [None, None, None, Some(1400), Some(3000)]);
        let are = Fault::ALL.map(Fault::is_outage);
        assert_eq!(are, [false, false, false, true, true]);
    }
}
