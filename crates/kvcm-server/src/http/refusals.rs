//! What the edge refuses, counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a connection or a request was refused or cut before it reached a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The port has as many connections as it may have.
    Connections,
    /// One address has as many connections as it may have.
    PeerConnections,
    /// No TLS handshake, or one that failed.
    Tls,
    /// The head of a request did not come in time.
    Head,
    /// The body of a request did not come in time.
    Body,
    /// A request is too large.
    Size,
    /// The credentials are missing or wrong.
    Unauthenticated,
    /// The credentials are right, and their owner may not do this.
    Forbidden,
    /// The connection was still open at the end of the drain.
    Drain,
}

/// How often each [`Cause`] has struck since the process began.
#[derive(Debug, Default)]
pub struct Refusals([AtomicU64; Cause::ALL.len()]);

// === impl Cause ===

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 9] = [
        Self::Connections,
        Self::PeerConnections,
        Self::Tls,
        Self::Head,
        Self::Body,
        Self::Size,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::Drain,
    ];

    /// Its name, for the label of a metric.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::PeerConnections => "peer_connections",
            Self::Tls => "tls",
            Self::Head => "head_timeout",
            Self::Body => "body_timeout",
            Self::Size => "size",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::Drain => "drain",
        }
    }
}

// === impl Refusals ===

impl Refusals {
    /// One more.
    pub fn count(&self, cause: Cause) {
        self.0[cause as usize].fetch_add(1, Relaxed);
    }

    /// How often so far.
    pub fn get(&self, cause: Cause) -> u64 {
        self.0[cause as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_counted_by_itself() {
        let refusals = Refusals::default();
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, index, "{}", cause.as_str());
            for _ in 0..index {
                refusals.count(cause);
            }
        }
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(refusals.get(cause), index as u64, "{}", cause.as_str());
        }
    }
}
