//! Limits on connections and bodies.

use std::time::Duration;

use crate::config::ServiceSettings;

/// Limits on the connections of one listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Most open connections; more are closed at once.
    pub connections: usize,
    /// Most open connections of one address, at least 1; more are closed at once.
    pub peer_connections: usize,
    /// Most requests at a time on one HTTP/2 connection.
    pub streams: u32,
    /// Most bytes in the head of a request.
    pub head_bytes: u32,
    /// Longest time from the start of a connection to the whole head of its first request, the
    /// TLS handshake included, and from the first byte of a later head to its end.
    pub head_timeout: Duration,
    /// Longest idle time between two requests of an HTTP/1.1 connection, and longest wait for a
    /// peer that takes no bytes.
    pub read_timeout: Duration,
    /// How long connections may go on once they shall end.
    pub drain: Duration,
}

/// Limits on the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Its bytes.
    pub bytes: usize,
    /// Longest wait for all of it.
    pub read_timeout: Duration,
}

impl From<&ServiceSettings> for ConnectionLimits {
    fn from(settings: &ServiceSettings) -> Self {
        Self {
            connections: settings.limits.connections,
            peer_connections: settings.limits.peer_connections,
            streams: settings.limits.streams,
            head_bytes: settings.limits.head_bytes,
            head_timeout: settings.limits.head_timeout,
            read_timeout: settings.limits.read_timeout,
            drain: settings.drain,
        }
    }
}

impl From<&ServiceSettings> for BodyLimits {
    fn from(settings: &ServiceSettings) -> Self {
        Self {
            bytes: settings.limits.request_bytes,
            read_timeout: settings.limits.read_timeout,
        }
    }
}
