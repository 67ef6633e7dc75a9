//! How many connections each address has.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;

/// The open connections of each address, up to a limit.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    limit: usize,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One connection of an address; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    peers: Peers,
    address: IpAddr,
}

impl Peers {
    /// At most `limit` connections of each.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            open: Arc::default(),
        }
    }

    /// A place for one more connection, if the address has one left.
    pub(super) fn admit(&self, address: IpAddr) -> Option<Place> {
        // One host is one peer, whichever family its packets came in.
        let address = address.to_canonical();
        let mut open = self.open.lock();
        let count = open.entry(address).or_default();
        // An entry of zero is never left behind: the limit is at least one.
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Place {
            peers: self.clone(),
            address,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.peers.open.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_places_and_gets_them_back() {
        let peers = Peers::new(2);
        let address = |text: &str| text.parse().unwrap();
        let first = peers.admit(address("10.0.0.1")).unwrap();
        let _mapped = peers.admit(address("::ffff:10.0.0.1")).unwrap();
        assert!(peers.admit(address("10.0.0.1")).is_none());
        let other = peers.admit(address("10.0.0.2")).unwrap();
        drop((first, other));
        assert!(peers.admit(address("10.0.0.1")).is_some());
        assert_eq!(
            peers.open.lock().len(),
            1,
            "nothing is kept of who has gone"
        );
    }
}
