//! The client itself.

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt, stream};
use tokio::time::Instant;

use crate::{
    address::Address,
    admin::{Admin, Demotion},
    attempt::{Attempt, Story},
    builder::ClientBuilder,
    cluster_info::{self, ClusterInfo},
    core::Core,
    error::{Error, ErrorKind, Outcome},
    instance::Instance,
    leader::{Leader, LeaderTable},
    node::Node,
    operator::Operator,
    policy::Failure,
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

/// What the client knows of the cluster, without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterState {
    /// There is a leader, and nothing speaks against it.
    Leader(KnownLeader),
    /// Nodes answer, and none knows a leader: an election is on, or cannot end.
    Leaderless,
    /// Nodes answer and name a leader that does not answer at the address it advertises: only
    /// followers can be reached from here.
    FollowersOnly {
        /// `host:port` that cannot be reached.
        leader: String,
    },
    /// No node answers.
    Unreachable,
    /// Nothing was asked yet, or the leader failed and the search for the next one is on.
    Unknown,
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
        let search = self.core.search_now(false);
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
        self.core.route().map(|leader| KnownLeader::of(&leader))
    }

    /// What is known of the cluster, without asking.
    pub fn cluster_state(&self) -> ClusterState {
        if let Some(leader) = self.leader() {
            return ClusterState::Leader(leader);
        }
        match self.core.searches.last() {
            Some(round) => round.state(),
            None => ClusterState::Unknown,
        }
    }

    /// Every leader from now on, each once, the present one first if there is one. A slow reader
    /// misses leaders of the past, never the last one. Ends when the client is closed or all its clones
    /// are gone.
    ///
    /// Nodes push changes of leader, so news is milliseconds old; with servers that cannot, it is
    /// as old as the refresh interval of a client whose calls do not fail.
    pub fn leader_changes(&self) -> impl Stream<Item = KnownLeader> + Send + Unpin + use<> {
        self.core.touch();
        let mut changes = self.core.table.subscribe();
        changes.mark_changed();
        let next = |(mut changes, last): (
            tokio::sync::watch::Receiver<LeaderTable>,
            Option<KnownLeader>,
        )| async move {
            loop {
                changes.changed().await.ok()?;
                let table = changes.borrow_and_update();
                if table.is_closed() {
                    return None;
                }
                let known = table.route().map(|leader| KnownLeader::of(leader));
                drop(table);
                let Some(leader) = known else { continue };
                if !last.as_ref().is_some_and(|last| leader.continues(last)) {
                    return Some((leader.clone(), (changes, Some(leader))));
                }
            }
        };
        stream::unfold((changes, None), next).boxed()
    }

    /// Ends the client and all its clones: calls that are under way are waited for until the
    /// deadline, new ones fail with [`ErrorKind::Closed`], then every connection is closed.
    ///
    /// False when calls were still under way at the deadline; they fail.
    pub async fn close(&self) -> bool {
        self.core
            .is_closing
            .store(true, std::sync::atomic::Ordering::Relaxed);
        let all = u32::try_from(self.core.settings.in_flight_max).unwrap_or(u32::MAX);
        let last = self.core.in_flight.acquire_many(all);
        let is_idle = match tokio::time::timeout(self.deadline, last).await {
            Ok(permits) => {
                // Kept for good: nobody is to come in between.
                permits.is_ok_and(|permits| {
                    permits.forget();
                    true
                }) || self.core.in_flight.is_closed()
            }
            Err(_) => false,
        };
        self.core.end();
        self.core.table.send_modify(LeaderTable::close);
        is_idle
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
        admin
            .demote(&Demotion::of(expected_epoch.or(known)))
            .await?;
        Ok(KnownLeader::of(&leader))
    }

    /// The calls of an operator that only the leader serves.
    pub fn operator(&self) -> Operator {
        Operator::new(Arc::clone(&self.core), self.deadline)
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
        let core = &self.core;
        let free = core.in_flight.available_permits();
        Stats {
            in_flight: core.settings.in_flight_max.saturating_sub(free) as u64,
            connections: core.transport.connections() as u64,
            evictions: core.transport.evictions(),
            breakers_open: core.breakers.lock().open() as u64,
            budget: core.budget.balance(Instant::now()),
            ..core.counters.snapshot()
        }
    }

    /// Searches until there is a leader, or the deadline passes.
    pub(crate) async fn find_leader(&self) -> Result<Arc<Leader>, Error> {
        self.core.touch();
        let started = Instant::now();
        let deadline = started + self.deadline;
        let mut story = Story::default();
        let mut failure = Failure::NoNode;
        loop {
            if let Some(leader) = self.core.route() {
                if self.is_there(&leader, deadline).await {
                    return Ok(leader);
                }
                self.core.table.send_modify(|table| table.suspect(&leader));
            }
            let begun = Instant::now();
            let search = self.core.search(begun, false, Some(deadline));
            let said = match tokio::time::timeout_at(deadline, search).await {
                Ok(Some(round)) => {
                    failure = round.failure();
                    round.to_string()
                }
                Ok(None) => "a leader came and went".to_owned(),
                Err(_) => "no node answered in time".to_owned(),
            };
            if self.core.route().is_some() && Instant::now() < deadline {
                continue;
            }
            story.push(Attempt {
                node: None,
                epoch: 0,
                code: None,
                result: said,
                elapsed: begun.elapsed(),
                wait: Duration::ZERO,
            });
            if Instant::now() >= deadline {
                break;
            }
        }
        let kind = match failure {
            Failure::LeaderUnreachable => ErrorKind::LeaderUnreachable,
            Failure::NoNode => ErrorKind::Transport,
            _ => ErrorKind::NoLeader,
        };
        let after = started.elapsed().as_millis();
        // The last search may have been cut short; the one before it tells what the nodes said.
        let told = self.core.searches.last();
        let told = told.map_or_else(|| story.last_result().to_owned(), |round| round.to_string());
        let message = format!("gave up after {after} ms, last: {told}");
        let (attempts, total) = story.into_parts();
        let error = Error::new(kind, Outcome::NotDone, "connect", message);
        Err(error.with_attempts(attempts, total))
    }
}

impl Client {
    /// Whether the leader can be reached from here: others may only have named it.
    async fn is_there(&self, leader: &Leader, deadline: Instant) -> bool {
        let last = self.core.searches.last();
        let own =
            |info: &ClusterInfo| info.is_own_claim() && info.answered_by == leader.address.as_str();
        if last.is_some_and(|round| round.best.as_ref().is_some_and(own)) {
            return true;
        }
        let remaining = deadline.saturating_duration_since(Instant::now());
        let timeout = self.core.settings.ask_timeout.min(remaining);
        self.core.ask_node(&leader.address, timeout).await.is_ok()
    }
}

impl KnownLeader {
    fn of(leader: &Leader) -> Self {
        Self {
            node: leader.node.clone(),
            epoch: leader.epoch,
            cluster_id: leader.cluster.to_string(),
        }
    }

    /// Whether this is the reign that `last` told of, of which more may be known now: the first
    /// node that names a leader need not know the cluster's id or the leader's.
    fn continues(&self, last: &Self) -> bool {
        let same = |now: &str, then: &str| now == then || now.is_empty() || then.is_empty();
        self.epoch == last.epoch
            && self.node.endpoint == last.node.endpoint
            && same(&self.node.id, &last.node.id)
            && same(&self.cluster_id, &last.cluster_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(cluster: &str, epoch: u64, id: &str, endpoint: &str) -> KnownLeader {
        KnownLeader {
            node: Node {
                id: id.to_owned(),
                endpoint: endpoint.to_owned(),
                admin_endpoint: endpoint.to_owned(),
            },
            epoch,
            cluster_id: cluster.to_owned(),
        }
    }

    #[test]
    fn a_leader_of_which_more_is_learned_is_no_change() {
        let first = known("", 7, "", "a:1");
        assert!(known("c", 7, "n1", "a:1").continues(&first));
        let full = known("c", 7, "n1", "a:1");
        assert!(first.continues(&full));
        for other in [
            known("c", 8, "n1", "a:1"),
            known("c", 7, "n1", "a:2"),
            known("c", 7, "n2", "a:1"),
            known("d", 7, "n1", "a:1"),
        ] {
            assert!(!other.continues(&full), "{other:?}");
        }
    }
}
