//! The numbers of an election.

use std::time::Duration;

use thiserror::Error;

/// The safety margin of a lease is at least this.
pub(crate) const MIN_MARGIN: Duration = Duration::from_millis(5);

/// The numbers of an election. All nodes of a cluster use the same `lease`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// How long a lock lives without renewal.
    pub lease: Duration,
    /// Between two renewals, and between two looks at a lock that another holds.
    pub loop_interval: Duration,
    /// How long one call to the backend may take.
    pub call_timeout: Duration,
    /// How long a step-down waits for requests in flight.
    pub drain: Duration,
    /// How long a node stays out of the race after it was asked to step down.
    pub forbid: Duration,
    /// What `forbid` is at least, unless another node leads earlier: without it the node that was
    /// asked to step down would win again. Zero where no other node exists.
    pub yield_after_demote: Duration,
    /// How long a node whose promotion failed stays out of the race. Also, from the beginning of a
    /// reign, of one whose lock was taken away: it begins at most one reign in that time.
    pub cooldown: Duration,
    /// A promotion that reports no progress for so long is cancelled.
    pub promote_stall: Duration,
    /// A callback that ignores its cancellation for so long ends the process.
    pub cancel_grace: Duration,
    /// Whether a backend without any record, asked by a process that has never known a holder, is
    /// taken for a new cluster, unless the stores tell otherwise when they are claimed. False where
    /// the backend can lose its data under living nodes *and* no shared store remembers a claim:
    /// then the first reign waits for a lease before it serves.
    pub absence_is_proof: bool,
    /// How much later than the end of the lease this node tries, so that not all try at once.
    /// Used while nothing is known of the other nodes: else their priorities and names decide.
    pub stagger: Duration,
    /// Nodes of a higher priority are given the first chance, by 5 ms for each, 10 ms at most.
    pub priority: u8,
    /// How long a released lock is kept for the successor of a transfer: two looks at the lock,
    /// for one that hears of the release by polling only, and the stagger. Its end makes the
    /// election free.
    pub reservation: Duration,
    /// How long a node that is not ready leaves a free lock to one that is.
    pub deference: Duration,
    /// A node that loses the lock by its own fault more often than this in five minutes leaves it to
    /// another one that is ready, for a lease at most. None: it never does.
    pub damp_after: Option<u8>,
    /// How long what was told of the other nodes counts.
    pub peers_max_age: Duration,
}

/// Settings that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// Renewals would come too late to survive one that fails.
    #[error("{name} is {value:?}, more than a quarter of the lease of {lease:?}")]
    AboveQuarter {
        /// Which setting.
        name: &'static str,
        /// Its value.
        value: Duration,
        /// The lease.
        lease: Duration,
    },
    /// Shorter than scheduling delays of an ordinary machine.
    #[error("a lease of {0:?} is below 100 ms, which ordinary scheduling delays can exceed")]
    LeaseTooShort(Duration),
    /// Zero.
    #[error("{0} is zero")]
    Zero(&'static str),
}

impl Settings {
    /// Sensible numbers for a lease and a loop interval.
    pub fn new(lease: Duration, loop_interval: Duration) -> Self {
        Self {
            lease,
            loop_interval,
            call_timeout: lease / 4,
            drain: Duration::from_secs(2),
            forbid: Duration::ZERO,
            yield_after_demote: lease.min(2 * loop_interval),
            cooldown: lease.clamp(Duration::from_millis(200), Duration::from_secs(2)),
            promote_stall: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(10),
            absence_is_proof: true,
            stagger: Duration::ZERO,
            priority: 0,
            reservation: lease.min(2 * loop_interval) + Duration::from_millis(10),
            deference: lease.min(2 * loop_interval) + Duration::from_millis(10),
            damp_after: Some(3),
            peers_max_age: Duration::from_secs(5),
        }
    }

    /// Checks what would make an election unsafe or restless.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.lease < Duration::from_millis(100) {
            return Err(SettingsError::LeaseTooShort(self.lease));
        }
        for (name, value) in [
            ("loop_interval", self.loop_interval),
            ("call_timeout", self.call_timeout),
        ] {
            if value.is_zero() {
                return Err(SettingsError::Zero(name));
            }
            if value > self.lease / 4 {
                return Err(SettingsError::AboveQuarter {
                    name,
                    value,
                    lease: self.lease,
                });
            }
        }
        Ok(())
    }

    /// What the local lease lasts from the moment a request was sent: the lease less one part in
    /// a thousand, for clocks that run at different rates, less `margin`.
    pub fn local_lease(&self, margin: Duration) -> Duration {
        (self.lease - self.lease / 1000).saturating_sub(margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_renewals_and_short_leases_are_refused() {
        let ms = Duration::from_millis;
        Settings::new(ms(1000), ms(250)).check().unwrap();
        let slow = Settings::new(ms(1000), ms(251)).check().unwrap_err();
        assert_eq!(
            slow.to_string(),
            "loop_interval is 251ms, more than a quarter of the lease of 1s"
        );
        assert!(Settings::new(ms(99), ms(10)).check().is_err());
        assert!(Settings::new(ms(1000), ms(0)).check().is_err());
    }
}
