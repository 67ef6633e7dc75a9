//! What is known of the other nodes. It orders candidates; it never proves anything.

use std::time::Duration;

use coordination_core::{NodeId, Owner};
use kvcm_clock::Moment;

use crate::{Peer, Unfit};

/// More nodes than a cluster has.
const MANY: usize = 256;

/// One step of the stagger of contenders, of which there are [`STEPS`].
const STEP: Duration = Duration::from_millis(5);
const STEPS: u32 = 2;

/// The other nodes as they were last told of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peers {
    /// Without this node.
    list: Vec<Peer>,
    /// From then on nothing is known of them.
    until: Moment,
}

impl Peers {
    pub(super) const fn new() -> Self {
        Self {
            list: Vec::new(),
            until: Moment::ZERO,
        }
    }

    pub(super) fn told(&mut self, mut list: Vec<Peer>, me: &NodeId, until: Moment) {
        list.retain(|peer| peer.owner.node != *me);
        list.truncate(MANY);
        self.list = list;
        self.until = until;
    }

    fn fresh(&self, now: Moment) -> &[Peer] {
        if now < self.until { &self.list } else { &[] }
    }

    fn candidates(&self, now: Moment) -> impl Iterator<Item = &Peer> {
        self.fresh(now).iter().filter(|peer| peer.is_candidate())
    }

    /// Whether another node can be expected to take a lock that is free.
    pub(super) fn has_candidate(&self, now: Moment) -> bool {
        self.candidates(now).next().is_some()
    }

    /// How much later than its peers a node of this name and priority tries when a lease has
    /// ended; none when nothing is known of them.
    pub(super) fn stagger(&self, now: Moment, me: &NodeId, priority: u8) -> Option<Duration> {
        let known = self.fresh(now);
        let goes_first = |peer: &&Peer| {
            peer.priority > priority || peer.priority == priority && peer.owner.node < *me
        };
        let ahead = self.candidates(now).filter(goes_first).count();
        (!known.is_empty()).then(|| steps(ahead))
    }

    /// The same after a release: only for peers of a higher priority, because nobody else is to
    /// be waited for.
    pub(super) fn precedence(&self, now: Moment, priority: u8) -> Duration {
        let goes_first = |peer: &&Peer| peer.priority > priority;
        steps(self.candidates(now).filter(goes_first).count())
    }

    /// The life of the node of this name that can be handed the lock.
    pub(super) fn successor(&self, now: Moment, name: &NodeId) -> Result<Owner, Unfit> {
        if now >= self.until {
            return Err(Unfit::PeersUnknown);
        }
        // A node that was restarted may stand there with its former life as well.
        let lives = || self.list.iter().filter(|peer| peer.owner.node == *name);
        let peer = lives().find(|peer| peer.alive).or_else(|| lives().next());
        let peer = peer.ok_or(Unfit::Unknown)?;
        if !peer.alive {
            Err(Unfit::Dead)
        } else if !peer.eligible {
            Err(Unfit::NotEligible)
        } else if !peer.ready {
            Err(Unfit::NotReady)
        } else {
            Ok(peer.owner.clone())
        }
    }

    /// Whether the one that was chosen can still be handed the lock.
    pub(super) fn still_fit(&self, now: Moment, chosen: &Owner) -> Result<(), Unfit> {
        let owner = self.successor(now, &chosen.node)?;
        if owner == *chosen {
            Ok(())
        } else {
            Err(Unfit::Restarted)
        }
    }

    /// See [`Core::make_canonical`](super::Core::make_canonical).
    pub(super) fn make_canonical(&mut self, now: Moment, to: Moment) {
        if now >= self.until {
            *self = Self::new();
        } else {
            self.until = to + now.until(self.until);
        }
    }
}

fn steps(ahead: usize) -> Duration {
    STEP * u32::try_from(ahead).unwrap_or(STEPS).min(STEPS)
}
