//! What happens to bytes on their way.

use std::time::Duration;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a client to the server.
    ToServer,
    /// From the server to a client.
    ToClient,
}

/// What happens to the bytes of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// They go on at once.
    #[default]
    Pass,
    /// Each chunk goes on `least` to `least + jitter` after it came, in order.
    Delay {
        /// The shortest delay.
        least: Duration,
        /// How much longer it is at most.
        jitter: Duration,
        /// Decides the jitter: the same for the same chunks of the same connection.
        seed: u64,
    },
    /// Nothing is read; all goes on when the rule ends. So looks a network that comes back.
    Stall,
    /// They are read and lost, the end of the stream too. A connection that has lost some loses all
    /// that come later as well, also when the rule ends: it is half-open, and neither side knows.
    BlackHole,
    /// The receiver sees the end of the stream, now or when it connects; what comes is lost.
    HalfClose,
    /// The next bytes are lost, and both sides of their connection are reset.
    Reset,
    /// The next chunk with `containing` in it (empty: any) is held until
    /// [`release`](super::Proxy::release), with all that follow it on its connection; then the
    /// rule is [`Pass`](Rule::Pass) again. When its sender goes away it is delivered all the same,
    /// and the end of the stream after it.
    Hold {
        /// A part of the chunk.
        containing: String,
    },
    /// So many bytes a second on each connection.
    Throttle {
        /// More than 0.
        bytes_per_second: u32,
    },
    /// On each connection so many bytes more go on, and what follows is lost as in a black hole.
    DropAfter {
        /// Counted from when the rule was set, or the connection was opened.
        bytes: u64,
    },
}

impl Direction {
    pub(super) const fn index(self) -> usize {
        match self {
            Self::ToServer => 0,
            Self::ToClient => 1,
        }
    }
}

impl Rule {
    /// Any chunk, see [`Hold`](Rule::Hold).
    pub fn hold() -> Self {
        let containing = String::new();
        Self::Hold { containing }
    }

    /// A chunk with `containing` in it, see [`Hold`](Rule::Hold).
    pub fn hold_containing(containing: &str) -> Self {
        let containing = containing.to_owned();
        Self::Hold { containing }
    }

    /// A fixed delay.
    pub const fn delay(least: Duration) -> Self {
        let jitter = Duration::ZERO;
        Self::Delay {
            least,
            jitter,
            seed: 0,
        }
    }
}
