//! An open connection with what is known of the server behind it.

use std::{sync::Arc, time::Duration};

use kvcm_clock::{Clock, Moment};
use redis::aio::MultiplexedConnection;

use crate::{Address, Server, server_time::ServerTime};

/// Where to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) address: Address,
    /// Whether the slot is on its way there: each command must say that we know.
    pub(crate) is_asking: bool,
}

impl From<Address> for Place {
    fn from(address: Address) -> Self {
        let is_asking = false;
        Self { address, is_asking }
    }
}

/// An open connection. Clones share it.
#[derive(Clone, Debug)]
pub struct Link {
    /// To call with.
    pub connection: MultiplexedConnection,
    /// What is behind it.
    pub server: Arc<Server>,
    pub(crate) place: Place,
    pub(crate) time: Arc<ServerTime>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Link {
    /// Where it leads to.
    pub const fn address(&self) -> &Address {
        &self.place.address
    }

    /// The last millisecond of the server's clock before `moment`: a script that gets it as a
    /// deadline can refuse to run too late.
    pub fn server_millis_at(&self, moment: Moment) -> i64 {
        self.time.millis_at(moment)
    }

    /// How long ago it showed its time last, which it does with each script.
    pub(crate) fn idle(&self) -> Duration {
        self.clock.now().since(self.time.seen_at())
    }

    /// The server has shown this time just now: seconds and microseconds.
    pub(crate) fn saw_time(&self, (seconds, micros): (i64, i64)) {
        let time = server_micros((seconds, micros));
        self.time.update(time, self.clock.now());
    }
}

pub(crate) const fn server_micros((seconds, micros): (i64, i64)) -> i64 {
    seconds.saturating_mul(1_000_000).saturating_add(micros)
}
