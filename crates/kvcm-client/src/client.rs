//! The client itself.

use std::{sync::Arc, time::Duration};

use kvcm_clock::Backoff;
use tokio::time::Instant;

use crate::{
    address::Address,
    admin::Admin,
    attempt::{Attempt, Story},
    builder::ClientBuilder,
    cluster_info::{self, ClusterInfo},
    core::Core,
    error::{Error, ErrorKind, Outcome},
    instance::Instance,
    leader::Leader,
    node::Node,
    settings::POLL,
    spec::InstanceSpec,
    stats::Stats,
};

/// A client of one cluster. Clones are cheap and share connections and what is known of the
/// leader.
#[derive(Clone, Debug)]
pub struct Client {
    core: Arc<Core>,
    deadline: Duration,
}

/// The leader, as the client last knew it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownLeader {
    /// The node.
    pub node: Node,
    /// Its epoch; 0 from a server without epochs.
    pub epoch: u64,
    /// The cluster; empty while unknown.
    pub cluster_id: String,
}

impl Client {
    /// Starts building a client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn new(core: Arc<Core>, deadline: Duration) -> Self {
        Self { core, deadline }
    }

    /// The same client with another deadline per call.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self {
            core: Arc::clone(&self.core),
            deadline,
        }
    }

    /// Registers an instance, or finds it registered with the same values.
    ///
    /// # Errors
    /// [`ErrorKind::Duplicate`] when the id exists with other values, otherwise as any call.
    pub async fn register(&self, spec: InstanceSpec) -> Result<Instance, Error> {
        Instance::register(Arc::clone(&self.core), spec, self.deadline).await
    }

    /// Asks who leads, afresh; the answer of the node that knows best.
    ///
    /// # Errors
    /// When no node answers before the deadline.
    pub async fn cluster_info(&self) -> Result<ClusterInfo, Error> {
        self.core.touch();
        let search = self.core.search(Instant::now(), false);
        let silent = || "no node answered in time".to_owned();
        let why = match tokio::time::timeout(self.deadline, search).await {
            Ok(round) => match round.best.clone() {
                Some(info) => return Ok(info),
                None => round.to_string(),
            },
            Err(_) => silent(),
        };
        Err(Error::local(ErrorKind::Transport, cluster_info::NAME, why))
    }

    /// Asks one node, by `host:port` of its meta service, who leads.
    ///
    /// # Errors
    /// When the node does not answer before the deadline.
    pub async fn cluster_info_of(&self, endpoint: &str) -> Result<ClusterInfo, Error> {
        let name = cluster_info::NAME;
        let address = Address::parse(endpoint)
            .map_err(|why| Error::local(ErrorKind::InvalidArgument, name, why))?;
        let answer = self.core.ask_node(&address, self.deadline).await;
        answer.map_err(|failed| Error::local(ErrorKind::Transport, name, failed.text))
    }

    /// The leader as last known, without asking; `None` when it is unknown or in doubt.
    pub fn leader(&self) -> Option<KnownLeader> {
        self.core.route().map(|leader| KnownLeader {
            node: leader.node.clone(),
            epoch: leader.epoch,
            cluster_id: leader.cluster.to_string(),
        })
    }

    /// Makes the leader step down.
    ///
    /// The call goes to the leader's admin service once and is never redirected: a repeat on
    /// another node would demote its successor too. `expected_epoch`: the epoch to end; `None`:
    /// that of the leader found now.
    ///
    /// # Errors
    /// [`ErrorKind::NotLeader`] when the node does not lead in that epoch any more.
    pub async fn demote_leader(&self, expected_epoch: Option<u64>) -> Result<KnownLeader, Error> {
        let leader = self.find_leader().await?;
        let known = Some(leader.epoch).filter(|epoch| *epoch > 0);
        let admin = self.admin(&leader.node.admin_endpoint)?;
        admin.demote(expected_epoch.or(known)).await?;
        Ok(KnownLeader {
            node: leader.node.clone(),
            epoch: leader.epoch,
            cluster_id: leader.cluster.to_string(),
        })
    }

    /// The admin service at `host:port`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when `endpoint` is not an address.
    pub fn admin(&self, endpoint: &str) -> Result<Admin, Error> {
        let address = Address::parse(endpoint)
            .map_err(|why| Error::local(ErrorKind::InvalidArgument, "admin", why))?;
        Ok(Admin::new(Arc::clone(&self.core), address, self.deadline))
    }

    /// What this client and its clones did so far.
    pub fn stats(&self) -> Stats {
        self.core.counters.snapshot()
    }

    /// Searches until there is a leader, or the deadline passes.
    pub(crate) async fn find_leader(&self) -> Result<Arc<Leader>, Error> {
        self.core.touch();
        let started = Instant::now();
        let deadline = started + self.deadline;
        let mut polls = Backoff::new(POLL);
        let mut story = Story::default();
        loop {
            if let Some(leader) = self.core.route() {
                return Ok(leader);
            }
            let begun = Instant::now();
            let search = self.core.search(begun, false);
            let said = match tokio::time::timeout_at(deadline, search).await {
                Ok(round) => round.to_string(),
                Err(_) => "no node answered in time".to_owned(),
            };
            if let Some(leader) = self.core.route() {
                return Ok(leader);
            }
            let wait = self.core.next_wait(&mut polls);
            let wait = wait.min(deadline.saturating_duration_since(Instant::now()));
            story.push(Attempt {
                node: None,
                epoch: 0,
                code: None,
                result: said,
                elapsed: begun.elapsed(),
                wait,
            });
            if wait.is_zero() {
                break;
            }
            self.core.wait_for_news(wait).await;
        }
        let after = started.elapsed().as_millis();
        let message = format!("gave up after {after} ms, last: {}", story.last_result());
        let (attempts, total) = story.into_parts();
        let error = Error::new(ErrorKind::NoLeader, Outcome::NotDone, "connect", message);
        Err(error.with_attempts(attempts, total))
    }
}
