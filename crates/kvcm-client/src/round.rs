//! What one search for the leader came to.

use std::fmt;

use tokio::time::Instant;

use crate::{
    address::Address, asking::Heard, client::ClusterState, cluster_info::ClusterInfo,
    policy::Failure,
};

/// One finished search.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) started: Instant,
    /// The best answer of those that came in time.
    pub(crate) best: Option<ClusterInfo>,
    /// Whether the best answer named a leader that the client accepted.
    pub(crate) found: bool,
    /// Only the known leader was asked, whether it still leads.
    pub(crate) only_leader: bool,
    /// The leader that others name does not answer at the address it advertises.
    pub(crate) unreachable: Option<Address>,
    /// What each node said, for people.
    pub(crate) told: Vec<(Address, String)>,
    /// Nodes that did not answer, in time or at all.
    pub(crate) mute: Vec<Address>,
}

impl Round {
    /// What a call that wanted a leader is to make of it.
    pub(crate) fn failure(&self) -> Failure {
        if self.unreachable.is_some() {
            Failure::LeaderUnreachable
        } else if self.best.is_some() || self.only_leader {
            Failure::NoLeader
        } else {
            Failure::NoNode
        }
    }

    /// The same for the application.
    pub(crate) fn state(&self) -> ClusterState {
        match self.failure() {
            _ if self.found || self.only_leader => ClusterState::Unknown,
            Failure::LeaderUnreachable => ClusterState::FollowersOnly {
                leader: self
                    .unreachable
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            },
            Failure::NoNode => ClusterState::Unreachable,
            _ => ClusterState::Leaderless,
        }
    }

    /// Takes note of what a node said, or that it did not.
    pub(crate) fn hear(&mut self, heard: &Heard) {
        let what = match &heard.answer {
            Ok(info) => describe(info),
            Err(failed) => {
                self.mute.push(heard.address.clone());
                failed.text.clone()
            }
        };
        self.told.push((heard.address.clone(), what));
    }
}

fn describe(info: &ClusterInfo) -> String {
    match (&info.leader, info.leader_epoch) {
        (Some(node), Some(epoch)) => format!("says {} leads, epoch {epoch}", node.endpoint),
        (Some(node), None) => format!("says {} leads", node.endpoint),
        (None, _) if info.leader_node_id.is_empty() => "knows no leader".to_owned(),
        (None, _) => format!("does not know where leader {} listens", info.leader_node_id),
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.only_leader && self.told.is_empty() {
            return f.write_str("the leader refused, and the node that pushes knows no other");
        }
        let mut separator = "";
        for (address, what) in &self.told {
            write!(f, "{separator}{address} {what}")?;
            separator = "; ";
        }
        let was_told = |address: &Address| self.told.iter().any(|(told, _)| told == address);
        for address in self.mute.iter().filter(|address| !was_told(address)) {
            write!(f, "{separator}{address} is silent")?;
            separator = "; ";
        }
        if let Some(address) = &self.unreachable {
            write!(
                f,
                "{separator}the leader's advertised address {address} cannot be reached from here"
            )?;
        }
        Ok(())
    }
}
