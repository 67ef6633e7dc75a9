//! What the builder sets and the rest reads.

use std::time::Duration;

use kvcm_clock::BackoffPolicy;

/// Waits while a leader is expected to appear: uniform in 12.5–37.5 ms. Short, because the first
/// call after a failover follows the new leader's readiness by half of this on average; not
/// growing, because a series that has reached its cap no longer spreads the clients.
pub(crate) const POLL: BackoffPolicy = BackoffPolicy {
    first: Duration::from_millis(25),
    cap: Duration::from_millis(50),
    factor: 1.0,
    jitter: 0.5,
};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Time of a call, all tries and waits included.
    pub(crate) deadline: Duration,
    /// Time of one try, so that a silent node does not eat the deadline.
    pub(crate) attempt_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// How long a leader may be silent before the client asks around whether it still leads.
    pub(crate) silence_delay: Duration,
    /// How long a node may be silent before a search asks the next one too.
    pub(crate) hedge_delay: Duration,
    /// Time of one node's answer in a search.
    pub(crate) ask_timeout: Duration,
    pub(crate) keep_alive_interval: Duration,
    pub(crate) keep_alive_timeout: Duration,
    /// How often a client in use asks who leads although nothing failed.
    pub(crate) refresh_interval: Duration,
    /// Longest reply, bytes.
    pub(crate) reply_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(5),
            attempt_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_millis(500),
            silence_delay: Duration::from_millis(100),
            hedge_delay: Duration::from_millis(50),
            ask_timeout: Duration::from_millis(500),
            keep_alive_interval: Duration::from_secs(2),
            keep_alive_timeout: Duration::from_secs(1),
            refresh_interval: Duration::from_secs(30),
            reply_bytes_max: 64 * 1024 * 1024,
        }
    }
}
