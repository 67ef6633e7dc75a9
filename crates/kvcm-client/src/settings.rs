//! What the builder sets and the rest reads.

use std::time::Duration;

use kvcm_clock::BackoffPolicy;

use crate::{credentials::Credentials, tls::ReadyTls};

/// Waits between searches in vain, of all calls of a client together, where no node pushes. Uniform
/// from nothing on: all clients of a cluster lose their leader at the same moment.
pub(crate) const SEARCHES: BackoffPolicy = BackoffPolicy {
    first: Duration::from_millis(300),
    cap: Duration::from_secs(1),
    factor: 2.0,
    jitter: 1.0,
};

/// The same while a node pushes what it knows: searching only guards against a node that knows
/// less than others.
pub(crate) const SEARCHES_WHILE_PUSHED: BackoffPolicy = BackoffPolicy {
    first: Duration::from_millis(800),
    cap: Duration::from_secs(2),
    factor: 2.0,
    jitter: 1.0,
};

/// Waits before a node is asked for pushes again, or another one. Uniform from nothing on: all
/// clients of a node that dies come at the same moment.
pub(crate) const PUSHES: BackoffPolicy = BackoffPolicy {
    first: Duration::from_millis(500),
    cap: Duration::from_secs(30),
    factor: 2.0,
    jitter: 1.0,
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
    /// Calls at a time.
    pub(crate) in_flight_max: usize,
    /// Whether nodes are asked to push changes of leader.
    pub(crate) pushes: bool,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) tls: Option<ReadyTls>,
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
            in_flight_max: 4096,
            pushes: true,
            credentials: None,
            tls: None,
        }
    }
}
