//! Connections to nodes.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tonic::transport::{Channel, Endpoint};

use crate::{address::Address, settings::Settings};

/// One HTTP/2 connection per node, made when first used.
///
/// Keep-alive is always on: without it a channel never notices a partition that drops packets
/// silently, and goes on failing after the network has healed.
#[derive(Debug)]
pub(crate) struct Channels {
    settings: Settings,
    open: Mutex<HashMap<Address, Connection>>,
    made: AtomicU64,
}

/// A channel and which one it is, so that calls that failed on an old one cannot evict the new.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    id: u64,
}

impl Channels {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            open: Mutex::default(),
            made: AtomicU64::new(0),
        }
    }

    /// The connection to `address`; `Err` names what is wrong with the address.
    pub(crate) fn get(&self, address: &Address) -> Result<Connection, String> {
        let mut open = self.open.lock();
        if let Some(connection) = open.get(address) {
            return Ok(connection.clone());
        }
        let connection = Connection {
            channel: self.endpoint(address)?.connect_lazy(),
            id: self.made.fetch_add(1, Ordering::Relaxed),
        };
        open.insert(address.clone(), connection.clone());
        Ok(connection)
    }

    /// Gives `connection` up; false when that was done before. Calls in flight end by themselves.
    pub(crate) fn evict(&self, address: &Address, connection: &Connection) -> bool {
        let mut open = self.open.lock();
        let same = open
            .get(address)
            .is_some_and(|current| current.id == connection.id);
        if same {
            open.remove(address);
        }
        same
    }

    fn endpoint(&self, address: &Address) -> Result<Endpoint, String> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| format!("address {address}: {error}"))?;
        Ok(endpoint
            .connect_timeout(self.settings.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(self.settings.keep_alive_interval)
            .keep_alive_timeout(self.settings.keep_alive_timeout)
            .keep_alive_while_idle(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_connection_that_failed_is_evicted_and_only_once() {
        let channels = Channels::new(Settings::default());
        let address = Address::parse("127.0.0.1:1").unwrap();
        let first = channels.get(&address).unwrap();
        assert_eq!(channels.get(&address).unwrap().id, first.id);
        assert!(channels.evict(&address, &first));
        assert!(!channels.evict(&address, &first));
        let second = channels.get(&address).unwrap();
        assert_ne!(second.id, first.id);
        assert!(
            !channels.evict(&address, &first),
            "late failure of an old call"
        );
        assert_eq!(channels.get(&address).unwrap().id, second.id);
    }
}
