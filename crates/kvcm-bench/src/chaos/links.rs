//! Everything that goes over a network goes through a proxy.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use kvcm_testkit::{Direction, Ports, Proxy, Rule};

/// Who talks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Clients to a node's gRPC port.
    Rpc,
    /// Clients to a node's HTTP port.
    Http,
    /// A node to the server of its coordination.
    Coordination,
    /// A node to the server of its store.
    Store,
}

/// A proxy between one node and others.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) node: usize,
    pub(super) end: End,
    proxy: Proxy,
}

/// What becomes of what goes over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Both ways are lost.
    Cut,
    /// What goes to the node or server is lost.
    Deaf,
    /// What comes back is lost.
    Mute,
    /// It is late, more or less.
    Slow,
    /// It stands still, and goes on afterwards.
    Stalled,
}

/// All links of a run.
#[derive(Debug, Default)]
pub(super) struct Links(pub(super) Vec<Link>);

impl Links {
    /// The host that node `node` advertises: that of its proxies.
    pub(super) fn host(node: usize) -> Ipv4Addr {
        let last = u8::try_from(node + 11).unwrap_or(u8::MAX);
        Ipv4Addr::new(127, 0, 0, last)
    }

    /// A proxy from a node to a server; gives its address.
    pub(super) fn add_server(
        &mut self,
        node: usize,
        end: End,
        server: SocketAddr,
    ) -> anyhow::Result<SocketAddr> {
        let proxy = Proxy::start(server)?;
        let address = proxy.address();
        self.0.push(Link { node, end, proxy });
        Ok(address)
    }

    /// Proxies for those who ask a node, at its own ports of the host that it advertises.
    pub(super) fn add_node(&mut self, node: usize, ports: &Ports) -> anyhow::Result<()> {
        for (end, target) in [(End::Rpc, ports.rpc()), (End::Http, ports.http())] {
            let address = (Self::host(node), target.port()).into();
            let proxy = Proxy::start_at(address, target)?;
            self.0.push(Link { node, end, proxy });
        }
        Ok(())
    }

    /// Where a node is reached.
    pub(super) fn address(&self, node: usize, end: End) -> Option<SocketAddr> {
        let found = self
            .0
            .iter()
            .find(|link| link.node == node && link.end == end);
        found.map(|link| link.proxy.address())
    }

    /// The servers are at another address now, and the old one answers nobody.
    pub(super) fn move_servers(&self, to: SocketAddr) {
        for link in &self.0 {
            if matches!(link.end, End::Coordination | End::Store) {
                link.proxy.aim(to);
                link.proxy.cut_all();
            }
        }
    }

    /// All is well again. What was lost stays lost: connections are half-open.
    pub(super) fn heal(&self) {
        self.0.iter().for_each(Link::heal);
    }
}

impl Link {
    pub(super) fn trouble(&self, trouble: Trouble, seed: u64) {
        match trouble {
            Trouble::Cut => self.proxy.set_both(Rule::BlackHole),
            Trouble::Deaf => self.proxy.set(Direction::ToServer, Rule::BlackHole),
            Trouble::Mute => self.proxy.set(Direction::ToClient, Rule::BlackHole),
            Trouble::Stalled => self.proxy.set_both(Rule::Stall),
            Trouble::Slow => self.proxy.set_both(Rule::Delay {
                least: Duration::from_millis(5),
                jitter: Duration::from_millis(120),
                seed,
            }),
        }
    }

    pub(super) fn reset(&self) {
        self.proxy.cut_all();
    }

    pub(super) fn heal(&self) {
        self.proxy.set_both(Rule::Pass);
    }
}
