//! Connections to nodes.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;
use tonic::transport::{Channel, Endpoint};

use crate::{address::Address, settings::Settings, tls::TlsConnector};

/// Connections that are kept at most; far more nodes than a cluster has.
const OPEN_MAX: usize = 64;

/// One HTTP/2 connection per node, made when first used.
///
/// Keep-alive is always on: without it a channel never notices a partition that drops packets
/// silently, and goes on failing after the network has healed.
#[derive(Debug)]
pub(crate) struct Channels {
    settings: Settings,
    open: Mutex<HashMap<Address, Connection>>,
    made: AtomicU64,
    evicted: AtomicU64,
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
            evicted: AtomicU64::new(0),
        }
    }

    /// The connection to `address`; `Err` names what is wrong with the address.
    pub(crate) fn get(&self, address: &Address) -> Result<Connection, String> {
        let mut open = self.open.lock();
        if let Some(connection) = open.get(address) {
            return Ok(connection.clone());
        }
        let connection = Connection {
            channel: self.channel(address)?,
            id: self.made.fetch_add(1, Relaxed),
        };
        if open.len() >= OPEN_MAX {
            // The oldest; calls in flight there go on.
            let oldest = open.iter().min_by_key(|(_, connection)| connection.id);
            if let Some(address) = oldest.map(|(address, _)| address.clone()) {
                open.remove(&address);
                self.evicted.fetch_add(1, Relaxed);
            }
        }
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
            self.evicted.fetch_add(1, Relaxed);
        }
        same
    }

    /// Gives the connection to `address` up, whichever it is.
    pub(crate) fn close(&self, address: &Address) {
        if self.open.lock().remove(address).is_some() {
            self.evicted.fetch_add(1, Relaxed);
        }
    }

    /// Gives all connections up.
    pub(crate) fn close_all(&self) {
        self.open.lock().clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.open.lock().len()
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    fn channel(&self, address: &Address) -> Result<Channel, String> {
        // TLS is spoken by the connector, below what gRPC calls the scheme.
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| format!("address {address}: {error}"))?
            .connect_timeout(self.settings.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(self.settings.keep_alive_interval)
            .keep_alive_timeout(self.settings.keep_alive_timeout)
            .keep_alive_while_idle(true);
        Ok(match &self.settings.tls {
            None => endpoint.connect_lazy(),
            Some(tls) => endpoint.connect_with_connector_lazy(TlsConnector::new(tls, address)),
        })
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
        assert_eq!(channels.evictions(), 1);
    }

    #[tokio::test]
    async fn no_more_connections_are_kept_than_the_limit() {
        let channels = Channels::new(Settings::default());
        for port in 1..=100 {
            let address = Address::parse(&format!("127.0.0.1:{port}")).unwrap();
            channels.get(&address).unwrap();
        }
        assert_eq!((channels.len(), channels.evictions()), (64, 36));
    }
}
