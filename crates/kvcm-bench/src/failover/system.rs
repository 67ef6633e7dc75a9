//! What every system has in common.

use std::{net::SocketAddr, time::Duration};

use super::{Kind, group::Group, kvcm::Kvcm, sentinel::SentinelGroup, server, setting::Setting};
use crate::interrupt::Interrupt;

/// Where the prober writes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A node of kvcm, over HTTP.
    Kvcm(SocketAddr),
    /// A contender of ours for the leadership of another system.
    Contender(SocketAddr),
    /// A Redis server, which counts while the sentinel names it as the master.
    Redis {
        /// The server.
        server: SocketAddr,
        /// Who is asked, before each write.
        sentinel: SocketAddr,
    },
}

/// A running system with three nodes, counted from 0, one of which takes writes. Dropping it ends
/// all its processes.
pub(super) trait System {
    /// One for each node.
    fn targets(&self) -> Vec<Target>;

    /// The lease that was granted in the end.
    fn granted(&self) -> Duration;

    /// Whether there is a server beside the nodes that may be away.
    fn has_backend(&self) -> bool;

    /// Whether one that has been broken is not used again.
    fn wants_a_new_one(&self) -> bool {
        false
    }

    /// SIGKILL.
    fn kill(&mut self, node: usize) -> anyhow::Result<()>;

    /// Asks the leader to hand over, and does not wait for that.
    fn hand_over(&mut self, node: usize) -> anyhow::Result<()>;

    /// SIGSTOP.
    fn stop(&mut self, node: usize) -> anyhow::Result<()>;

    /// SIGCONT.
    fn cont(&mut self, node: usize) -> anyhow::Result<()>;

    /// SIGSTOP of the server that the nodes lean on; `leader` leads.
    fn stop_backend(&mut self, leader: usize) -> anyhow::Result<()>;

    /// SIGCONT of it.
    fn cont_backend(&mut self, leader: usize) -> anyhow::Result<()>;

    /// Starts again what has ended, and waits until all nodes take part.
    fn mend(&mut self) -> anyhow::Result<()>;
}

/// Starts a system, and waits until all nodes take part.
pub(super) fn start(setting: &Setting, interrupt: &Interrupt) -> anyhow::Result<Box<dyn System>> {
    Ok(match setting.kind {
        Kind::KvcmFile | Kind::KvcmRedis => Box::new(Kvcm::start(setting, interrupt)?),
        Kind::Etcd | Kind::Zookeeper | Kind::Plain => Box::new(Group::start(setting, interrupt)?),
        Kind::Sentinel => Box::new(SentinelGroup::start(setting, interrupt)?),
    })
}

/// Which version is measured.
///
/// # Errors
/// When it is not installed; the text says how that is done.
pub(super) fn version(kind: Kind) -> anyhow::Result<String> {
    match kind {
        Kind::KvcmFile => {
            let _built = kvcm_testkit::server_binary()?;
            Ok(env!("CARGO_PKG_VERSION").to_owned())
        }
        Kind::KvcmRedis => {
            let _built = kvcm_testkit::server_binary()?;
            let redis = server::redis_version()?;
            Ok(format!("{}, {redis}", env!("CARGO_PKG_VERSION")))
        }
        Kind::Etcd => server::etcd_version(),
        Kind::Zookeeper => server::zookeeper_version(),
        Kind::Sentinel | Kind::Plain => server::redis_version(),
    }
}
