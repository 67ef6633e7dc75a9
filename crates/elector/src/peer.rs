//! The other nodes, as the owner of an election knows them.

use coordination_core::Owner;
use thiserror::Error;

/// Another node, as its record in the cluster describes it. The view that is made of them may be
/// late or wrong: it decides who is given the first chance, never who may lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// The node and the life of its process.
    pub owner: Owner,
    /// Whether its record is kept alive.
    pub alive: bool,
    /// Whether it would be able to serve.
    pub ready: bool,
    /// Whether it may campaign: it is not paused and not told to stay out.
    pub eligible: bool,
    /// Nodes of a higher priority are given the first chance.
    pub priority: u8,
}

impl Peer {
    /// Whether it can be expected to take a lock that is free.
    pub const fn is_candidate(&self) -> bool {
        self.alive && self.ready && self.eligible
    }
}

/// Why a node cannot be handed the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Unfit {
    /// Nothing was heard of the other nodes for long.
    #[error("nothing was heard of the other nodes for a while")]
    PeersUnknown,
    /// No node of this name is in the cluster.
    #[error("no node of this name is in the cluster")]
    Unknown,
    /// Its record has run out.
    #[error("it is not alive")]
    Dead,
    /// It is another life of its process than the one that was chosen.
    #[error("its process was restarted")]
    Restarted,
    /// It was told to stay out of the race.
    #[error("it was told to stay out of the race")]
    NotEligible,
    /// It would not be able to serve.
    #[error("it is not ready to serve")]
    NotReady,
}
