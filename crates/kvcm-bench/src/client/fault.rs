//! What is done to the leader.

use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use kvcm_testkit::Rule;

use super::site::Site;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// SIGKILL of the leader
    Kill,
    /// SIGTERM of the leader
    Term,
    /// SIGSTOP of the leader, and SIGCONT three leases later
    Stop,
    /// The network loses all that goes to and from the leader, to clients and to Redis
    BlackHole,
    /// No fault of the cluster: the first address of every client is one where nobody listens
    WrongAddress,
    /// No fault of the cluster: the first address takes connections and says nothing
    SilentAddress,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Kill,
        Self::Term,
        Self::Stop,
        Self::BlackHole,
        Self::WrongAddress,
        Self::SilentAddress,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Kill => "kill -9 of the leader",
            Self::Term => "SIGTERM of the leader",
            Self::Stop => "SIGSTOP, 3 leases, SIGCONT",
            Self::BlackHole => "black-holed leader",
            Self::WrongAddress => "first address refuses",
            Self::SilentAddress => "first address is silent",
        }
    }

    /// Does it to the node `leader`, and returns when nothing more is going to be done.
    pub(super) async fn strike(
        self,
        site: &mut Site,
        leader: usize,
        lease: Duration,
    ) -> anyhow::Result<()> {
        match self {
            Self::Kill => {
                site.cluster.node(leader).kill().await?;
            }
            Self::Term => {
                let node = site.cluster.node(leader);
                node.term()?;
                let limit = Duration::from_secs(60);
                let ended = tokio::time::timeout(limit, node.wait()).await;
                ended.context("a node does not end after SIGTERM")??;
            }
            Self::Stop => {
                site.cluster.node(leader).stop()?;
                tokio::time::sleep(lease * 3).await;
                site.cluster.node(leader).cont()?;
            }
            Self::BlackHole => {
                // Coordination first: nobody is to see the node without it while clients still can.
                site.coordination[leader].set_both(Rule::BlackHole);
                site.proxies[leader].set_both(Rule::BlackHole);
            }
            Self::WrongAddress | Self::SilentAddress => {}
        }
        Ok(())
    }
}
