//! What this node can tell about the cluster, from memory alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use elector::{Elector, LockInfo, Phase, Role, View};
use kvcm_clock::{Clock, Moment, wall_clock_ms};
use kvcm_fence::{ClusterId, Epoch};
use parking_lot::RwLock;

use crate::{
    members::{Condition, Members},
    node::{Endpoint, Node},
};

/// When a client should ask again while nobody leads.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// The words of [`Hint::reason`].
const REASONS: [&str; 8] = [
    "recovering",
    "demoting",
    "epoch_below_minimum",
    "lease_ended",
    "stopping",
    "follower",
    "backend_unavailable",
    "electing",
];

/// What this node can tell about the cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    node: Arc<Node>,
    elector: Elector,
    members: Arc<Members>,
    clock: Arc<dyn Clock>,
    /// A leader always knows it.
    id: RwLock<Option<ClusterId>>,
    campaigns: AtomicBool,
    /// An election that has not turned for so long hangs.
    turn_limit: Duration,
    /// How often callers were refused, for each of [`REASONS`].
    refusals: [AtomicU64; REASONS.len()],
    /// Why a store was of no use when it was last asked.
    store_error: RwLock<Option<String>>,
}

/// Who leads, as this node knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaderInfo {
    /// The node, or empty.
    pub(crate) node_id: String,
    /// How to reach it, when it serves.
    pub(crate) endpoint: Option<Endpoint>,
    /// Its epoch.
    pub(crate) epoch: Epoch,
    /// How far it is: `serving`, `recovering`, `draining`, or empty.
    pub(crate) phase: &'static str,
    /// Age of this knowledge.
    pub(crate) age: Duration,
}

/// Why this node does not serve, and where to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// Who leads.
    pub(crate) leader: LeaderInfo,
    /// When to ask again; zero: go to the leader at once.
    pub(crate) retry_after: Duration,
    /// One word.
    pub(crate) reason: &'static str,
}

impl Cluster {
    /// Puts the sources of knowledge together.
    pub(crate) fn new(
        node: Arc<Node>,
        elector: Elector,
        members: Arc<Members>,
        clock: Arc<dyn Clock>,
        turn_limit: Duration,
    ) -> Self {
        Self {
            node,
            elector,
            members,
            clock,
            id: RwLock::default(),
            campaigns: AtomicBool::new(false),
            turn_limit,
            refusals: Default::default(),
            store_error: RwLock::default(),
        }
    }

    /// This node.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// The election.
    pub(crate) fn elector(&self) -> &Elector {
        &self.elector
    }

    /// The nodes that are alive.
    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// The cluster's id, once this node has learned it.
    pub(crate) fn id(&self) -> Option<ClusterId> {
        self.id.read().clone()
    }

    /// Remembers the cluster's id.
    pub(crate) fn set_id(&self, id: ClusterId) {
        *self.id.write() = Some(id);
    }

    /// The election has begun: from now on it has to turn.
    pub(crate) fn campaigns(&self) {
        self.campaigns.store(true, Relaxed);
    }

    /// What a store said when it was last asked.
    pub(crate) fn store_answered(&self, answer: Result<(), String>) {
        *self.store_error.write() = answer.err();
    }

    /// Whether the election turns, or has not begun (the backend was never reachable, say).
    pub(crate) fn is_alive(&self) -> bool {
        let last_turn = self.elector.view().last_turn;
        !self.campaigns.load(Relaxed) || self.age(last_turn) < self.turn_limit
    }

    /// Whether this node can answer discovery and could campaign; if not, why.
    pub(crate) fn ready(&self) -> Result<(), String> {
        if !self.campaigns.load(Relaxed) {
            let why = "the coordination backend was not reached yet, or another life of this node \
                       may be alive";
            return Err(why.to_owned());
        }
        if !self.is_alive() {
            return Err("the election does not turn".to_owned());
        }
        let seen = self.elector.view().backend_seen_at;
        if seen.is_none_or(|seen| self.age(seen) >= self.turn_limit) {
            return Err("the coordination backend does not answer".to_owned());
        }
        match &*self.store_error.read() {
            Some(error) => Err(format!("a store cannot be used: {error}")),
            None => Ok(()),
        }
    }

    /// Whether this node does what its role asks for; if not, why. It is stricter than
    /// [`ready`](Self::ready): a node that holds the lock and does not serve is of no use to anybody
    /// for the time being.
    pub(crate) fn healthy(&self) -> Result<(), String> {
        self.ready()?;
        let role = self.elector.view().role;
        match role {
            Role::Follower => Ok(()),
            Role::Leader if self.leads() => Ok(()),
            Role::Leader => Err("its lease has ended".to_owned()),
            Role::Promoting => Err("it has been elected and does not serve yet".to_owned()),
            Role::Demoting => Err("it steps down".to_owned()),
        }
    }

    /// What this node tells the others about itself.
    pub(crate) fn condition(&self) -> Condition {
        let standby = self.elector.view().standby;
        Condition {
            role: self.role(),
            ready: self.ready().is_ok(),
            eligible: standby.is_none_or(|standby| !standby.forbids()),
        }
    }

    /// Whether this node serves: its gate is open and its lease lives.
    pub(crate) fn leads(&self) -> bool {
        self.elector.gate().open_epoch().is_some()
    }

    /// What this node is, for people.
    pub(crate) fn role(&self) -> Role {
        match self.elector.view().role {
            // The lease may have ended without the election having noticed.
            Role::Leader if !self.leads() => Role::Demoting,
            role => role,
        }
    }

    /// Who leads.
    pub(crate) fn leader(&self) -> LeaderInfo {
        let now = self.clock.now();
        leader_info(&self.elector.view(), &self.node, self.leads(), now)
    }

    /// How often callers were refused, by the reason that they were told.
    pub(crate) fn refusals(&self) -> [(&'static str, u64); REASONS.len()] {
        std::array::from_fn(|at| (REASONS[at], self.refusals[at].load(Relaxed)))
    }

    /// Where a refused caller should go; counts the refusal.
    pub(crate) fn hint(&self) -> Hint {
        let now = self.clock.now();
        let view = self.elector.view().clone();
        let leader = leader_info(&view, &self.node, self.leads(), now);
        let reachable = leader.endpoint.is_some() && leader.node_id != self.node.endpoint.node_id;
        let reason = match view.role {
            Role::Promoting => "recovering",
            Role::Demoting => "demoting",
            // It serves, but not a caller that has seen a later epoch.
            Role::Leader if self.leads() => "epoch_below_minimum",
            Role::Leader => "lease_ended",
            Role::Follower if view.stopped => "stopping",
            Role::Follower if reachable => "follower",
            Role::Follower if view.backend_error.is_some() => "backend_unavailable",
            Role::Follower => "electing",
        };
        if let Some(at) = REASONS.iter().position(|word| *word == reason) {
            self.refusals[at].fetch_add(1, Relaxed);
        }
        let retry_after = if reachable {
            Duration::ZERO
        } else {
            RETRY_AFTER
        };
        Hint {
            leader,
            retry_after,
            reason,
        }
    }

    /// The wall-clock time of a moment, for fields that people read.
    pub(crate) fn wall_ms(&self, moment: Moment) -> u64 {
        let now = self.clock.now();
        let wall = wall_clock_ms();
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        if moment > now {
            wall.saturating_add(millis(now.until(moment)))
        } else {
            wall.saturating_sub(millis(now.since(moment)))
        }
    }

    /// Now, on the clock of everything here.
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// How long ago a moment was.
    pub(crate) fn age(&self, moment: Moment) -> Duration {
        self.clock.now().since(moment)
    }
}

fn leader_info(view: &View, node: &Node, leads: bool, now: Moment) -> LeaderInfo {
    let Some(leader) = &view.leader else {
        return LeaderInfo::default();
    };
    if leader.owner == node.owner {
        return LeaderInfo {
            node_id: node.endpoint.node_id.clone(),
            endpoint: leads.then(|| node.endpoint.clone()),
            epoch: leader.epoch,
            phase: match view.role {
                _ if leads => Phase::Serving.as_str(),
                Role::Promoting => Phase::Recovering.as_str(),
                _ => Phase::Draining.as_str(),
            },
            age: Duration::ZERO,
        };
    }
    if now >= leader.lease_end {
        // It has not renewed in time: naming it would send clients into the void.
        return LeaderInfo::default();
    }
    let info = LockInfo::decode(&leader.info);
    let serves = info
        .as_ref()
        .is_some_and(|info| info.phase == Phase::Serving);
    LeaderInfo {
        node_id: leader.owner.node.to_string(),
        phase: info.as_ref().map_or("", |info| info.phase.as_str()),
        endpoint: info
            .filter(|_| serves)
            .and_then(|info| serde_json::from_value(info.endpoint).ok()),
        epoch: leader.epoch,
        age: now.since(leader.seen_at),
    }
}
