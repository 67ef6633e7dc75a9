//! Who is in the cluster: node records that each node renews, and that outlive it for a while.

mod record;
mod roster;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use coordination_core::{Backend, Error, Expect, NODE_KEY_PREFIX, Owner, SetOutcome, Value};
use elector::{Elector, Peer, Role};
use kvcm_clock::{Clock, Moment, Timer};
use parking_lot::Mutex;

use crate::node::{Node, VERSION};
use record::{HEARTBEAT, NodeRecord, RECORD_KEPT, RECORD_TTL};
pub(crate) use roster::{Member, Roster};

/// Between two tries to join while the backend is away.
const JOIN_RETRY: Duration = Duration::from_millis(200);

/// Between two heartbeats that a change of role or readiness asks for.
const HURRY: Duration = Duration::from_millis(100);

/// One call to the backend.
const CALL: Duration = Duration::from_millis(500);

/// What changes about a node while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// What it is.
    pub(crate) role: Role,
    /// Whether it can answer discovery and could campaign.
    pub(crate) ready: bool,
    /// Whether it may campaign: nobody has paused it.
    pub(crate) eligible: bool,
}

/// Keeps this node's record alive and the others' in memory, so that no request of a client ever
/// costs a call to the backend.
#[derive(Debug)]
pub(crate) struct Members {
    backend: Arc<dyn Backend>,
    node: Arc<Node>,
    clock: Arc<dyn Clock>,
    timer: Arc<dyn Timer>,
    seen: ArcSwap<Roster>,
    /// Of our record, as far as we know.
    version: Mutex<Option<u64>>,
}

/// Another process has this node's id and is alive.
#[derive(Debug, thiserror::Error)]
#[error(
    "node id `{node}` is in use by another live process (incarnation {other}, at {host}): give \
     each node its own kvcm.leader_elector.node_id"
)]
pub(crate) struct DuplicateNode {
    node: String,
    other: String,
    host: String,
}

impl Members {
    /// Nothing is written yet.
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        node: Arc<Node>,
        clock: Arc<dyn Clock>,
        timer: Arc<dyn Timer>,
    ) -> Self {
        Self {
            backend,
            node,
            clock,
            timer,
            seen: ArcSwap::default(),
            version: Mutex::default(),
        }
    }

    /// The nodes as seen last, this one included.
    pub(crate) fn roster(&self) -> Arc<Roster> {
        self.seen.load_full()
    }

    /// Writes this node's record. When another life of this node has one that may be alive, watches
    /// it for its time to live: if it is renewed, that life is alive, else its record is replaced.
    /// Retries while the backend is away.
    ///
    /// # Errors
    /// [`DuplicateNode`].
    pub(crate) async fn join(&self) -> Result<(), DuplicateNode> {
        let mut foreign: Option<(u64, Moment)> = None;
        let mut told = String::new();
        loop {
            let wait = match self.try_join(&mut foreign).await {
                Ok(None) => return Ok(()),
                Ok(Some(Joining::Wait)) => Duration::from_millis(100),
                Ok(Some(Joining::Refused(duplicate))) => return Err(duplicate),
                Err(error) => {
                    let error = error.to_string();
                    if error != told {
                        tracing::warn!(error, "cannot write the node record yet");
                        told = error;
                    }
                    JOIN_RETRY
                }
            };
            self.timer.sleep_until(self.clock.now() + wait).await;
        }
    }

    async fn try_join(
        &self,
        foreign: &mut Option<(u64, Moment)>,
    ) -> Result<Option<Joining>, Error> {
        let key = self.key();
        let now = self.clock.now();
        let found = self.backend.get_value(&key, now + CALL).await?;
        let expect = match &found {
            None => Expect::Absent,
            Some(value) => {
                let record: NodeRecord = serde_json::from_str(&value.text).unwrap_or_default();
                match foreign {
                    _ if self.is_mine(value) => {}
                    // A record without a time to live is one of the predecessor: nobody beats.
                    _ if value.remaining.is_none() => {}
                    None => {
                        let age = value.remaining.map(|left| RECORD_KEPT.saturating_sub(left));
                        let until = now + RECORD_TTL.saturating_sub(age.unwrap_or_default());
                        tracing::info!(
                            incarnation = record.incarnation,
                            "another life of this node has a record, waiting to see whether it \
                             is alive"
                        );
                        *foreign = Some((value.version, until));
                        return Ok(Some(Joining::Wait));
                    }
                    Some((version, _)) if *version != value.version => {
                        return Ok(Some(Joining::Refused(DuplicateNode {
                            node: self.node.owner.node.to_string(),
                            other: record.incarnation,
                            host: record.endpoint.host,
                        })));
                    }
                    Some((_, until)) if now < *until => return Ok(Some(Joining::Wait)),
                    Some(_) => {}
                }
                Expect::Version(value.version)
            }
        };
        match self.write(Condition::default(), expect).await? {
            SetOutcome::Stored(version) => {
                *self.version.lock() = Some(version);
                Ok(None)
            }
            // Somebody else wrote in between: look again.
            SetOutcome::Conflict(_) => Ok(Some(Joining::Wait)),
        }
    }

    /// Renews this node's record and reads the others', for ever; at once when its condition has
    /// changed.
    pub(crate) async fn run(&self, elector: Elector, condition: impl Fn() -> Condition) {
        let mut view = elector.watch();
        loop {
            let said = condition();
            match self.beat(said).await {
                Ok(()) => elector.set_peers(self.peers()),
                // Nobody is called dead because the backend is away; the election knows how old
                // its view of the others is.
                Err(error) => tracing::debug!(%error, "heartbeat failed"),
            }
            elector.set_ready(said.ready);
            let now = self.clock.now();
            self.timer.sleep_until(now + HURRY).await;
            let changed = async {
                while condition() == said {
                    if view.changed().await.is_err() {
                        // The election has ended.
                        std::future::pending::<()>().await;
                    }
                }
                let is = condition();
                if (is.ready, is.eligible) == (said.ready, said.eligible) {
                    // A node that begins or ceases to lead has something better to do than to write
                    // that down: the lock tells who leads. Mostly the role changes twice in a row.
                    self.timer.sleep_until(self.clock.now() + HURRY).await;
                }
            };
            tokio::select! {
                () = self.timer.sleep_until(now + HEARTBEAT) => {}
                () = changed => {}
            }
        }
    }

    /// Takes the record away: the node leaves in an orderly way. That of another process with the
    /// same id stays.
    pub(crate) async fn leave(&self) {
        if let Err(error) = self.try_leave().await {
            tracing::debug!(%error, "the node record stays until it expires");
        }
    }

    async fn try_leave(&self) -> Result<(), Error> {
        let (key, deadline) = (self.key(), self.clock.now() + CALL);
        let found = self.backend.get_value(&key, deadline).await?;
        if let Some(value) = found.filter(|value| self.is_mine(value)) {
            let expect = Expect::Version(value.version);
            self.backend.delete_value(&key, expect, deadline).await?;
        }
        Ok(())
    }

    /// All nodes, as the election wants to know them.
    pub(crate) fn peers(&self) -> Vec<Peer> {
        let roster = self.seen.load();
        let peers = roster.at(self.clock.now()).filter_map(|(member, alive)| {
            let record = &member.record;
            Some(Peer {
                owner: Owner {
                    node: record.endpoint.node_id.parse().ok()?,
                    incarnation: record.incarnation.parse().ok()?,
                },
                alive,
                ready: record.ready,
                eligible: record.eligible,
                priority: record.priority,
            })
        });
        peers.collect()
    }

    async fn beat(&self, condition: Condition) -> Result<(), Error> {
        self.renew(condition).await?;
        let now = self.clock.now();
        let values = self
            .backend
            .list_values(NODE_KEY_PREFIX, now + CALL)
            .await?;
        let roster = self.seen.load().next(values, now);
        self.seen.store(Arc::new(roster));
        Ok(())
    }

    /// Renews our record, never that of another live process with the same id: such a process joined
    /// while ours was paused or the backend had lost its data. Both are told.
    async fn renew(&self, condition: Condition) -> Result<(), Error> {
        for _ in 0..2 {
            let expect = match *self.version.lock() {
                Some(version) => Expect::Version(version),
                None => Expect::Absent,
            };
            if let SetOutcome::Stored(version) = self.write(condition, expect).await? {
                *self.version.lock() = Some(version);
                return Ok(());
            }
            // It expired, or a write was done whose answer was lost.
            let deadline = self.clock.now() + CALL;
            let found = self.backend.get_value(&self.key(), deadline).await?;
            if found
                .as_ref()
                .is_some_and(|value| self.is_of_another(value))
            {
                tracing::error!(
                    node = %self.node.owner.node,
                    "another live process has this node's id; this one is not listed as a member: \
                     give each node its own kvcm.leader_elector.node_id"
                );
                return Ok(());
            }
            *self.version.lock() = found.map(|value| value.version);
        }
        Ok(())
    }

    /// Whether a record is of another life of this node that may be alive.
    fn is_of_another(&self, value: &Value) -> bool {
        let roster = self.seen.load();
        let node = self.node.owner.node.as_str();
        !self.is_mine(value) && !roster.is_expired(node, value.version, self.clock.now())
    }

    fn is_mine(&self, value: &Value) -> bool {
        serde_json::from_str::<NodeRecord>(&value.text)
            .is_ok_and(|record| record.incarnation == self.node.owner.incarnation.to_string())
    }

    async fn write(&self, condition: Condition, expect: Expect) -> Result<SetOutcome, Error> {
        let record = NodeRecord {
            endpoint: self.node.endpoint.clone(),
            incarnation: self.node.owner.incarnation.to_string(),
            role: condition.role.as_str().to_owned(),
            ready: condition.ready,
            eligible: condition.eligible,
            priority: self.node.priority,
            version: VERSION.to_owned(),
        };
        let text = serde_json::to_string(&record).map_err(Error::not_done)?;
        let deadline = self.clock.now() + CALL;
        self.backend
            .set_value(&self.key(), &text, Some(RECORD_KEPT), expect, deadline)
            .await
    }

    fn key(&self) -> String {
        format!("{NODE_KEY_PREFIX}{}", self.node.owner.node)
    }
}

enum Joining {
    Wait,
    Refused(DuplicateNode),
}
