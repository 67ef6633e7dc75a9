//! Who is in the cluster: node records with a time to live.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use coordination_core::{Backend, Error, Expect, NODE_KEY_PREFIX, SetOutcome, Value};
use elector::Elector;
use kvcm_clock::{Clock, Moment, Timer};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::node::{Endpoint, Node, VERSION};

/// Between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// A record that was not renewed for so long belongs to a dead node.
pub(crate) const RECORD_TTL: Duration = Duration::from_secs(3);

/// Between two tries to join while the backend is away.
const JOIN_RETRY: Duration = Duration::from_millis(200);

/// One call to the backend.
const CALL: Duration = Duration::from_millis(500);

/// What a node writes about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NodeRecord {
    /// How to reach it; its fields stand at the top level, as the predecessor has them.
    #[serde(flatten)]
    pub(crate) endpoint: Endpoint,
    /// This life of its process.
    pub(crate) incarnation: String,
    /// What it is: `follower`, `leader`, …
    pub(crate) role: String,
    /// Whether it can answer discovery and could campaign.
    pub(crate) ready: bool,
    /// Its version.
    pub(crate) version: String,
}

/// A node as this one last saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// What it wrote.
    pub(crate) record: NodeRecord,
    /// When it last renewed its record, as far as its remaining life tells.
    pub(crate) beat_at: Moment,
}

/// Keeps this node's record alive and the others' in memory, so that no request of a client ever
/// costs a call to the backend.
#[derive(Debug)]
pub(crate) struct Members {
    backend: Arc<dyn Backend>,
    node: Arc<Node>,
    clock: Arc<dyn Clock>,
    timer: Arc<dyn Timer>,
    seen: ArcSwap<Vec<Member>>,
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

    /// The nodes seen last, this one included.
    pub(crate) fn list(&self) -> Arc<Vec<Member>> {
        self.seen.load_full()
    }

    /// Writes this node's record. When another life of this node has one, watches it for its time
    /// to live: if it is renewed, that life is alive. Retries while the backend is away.
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
                        let until = now + value.remaining.unwrap_or(RECORD_TTL);
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
        match self.write("follower", true, expect).await? {
            SetOutcome::Stored(version) => {
                *self.version.lock() = Some(version);
                Ok(None)
            }
            // Somebody else wrote in between: look again.
            SetOutcome::Conflict(_) => Ok(Some(Joining::Wait)),
        }
    }

    /// Renews this node's record and reads the others', for ever.
    pub(crate) async fn run(&self, elector: Elector) {
        loop {
            let role = elector.view().role.as_str();
            if let Err(error) = self.beat(role).await {
                tracing::debug!(%error, "heartbeat failed");
            }
            self.timer.sleep_until(self.clock.now() + HEARTBEAT).await;
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

    async fn beat(&self, role: &str) -> Result<(), Error> {
        self.renew(role).await?;
        let now = self.clock.now();
        let values = self
            .backend
            .list_values(NODE_KEY_PREFIX, now + CALL)
            .await?;
        let members = values.into_iter().filter_map(|(_, value)| {
            let record = serde_json::from_str(&value.text).ok()?;
            let age = value
                .remaining
                .map_or(Duration::ZERO, |left| RECORD_TTL.saturating_sub(left));
            Some(Member {
                record,
                beat_at: now - age,
            })
        });
        self.seen.store(Arc::new(members.collect()));
        Ok(())
    }

    /// Renews our record, never that of another process with the same id: such a process joined
    /// while ours was paused or the backend had lost its data. Both are told.
    async fn renew(&self, role: &str) -> Result<(), Error> {
        for _ in 0..2 {
            let expect = match *self.version.lock() {
                Some(version) => Expect::Version(version),
                None => Expect::Absent,
            };
            if let SetOutcome::Stored(version) = self.write(role, true, expect).await? {
                *self.version.lock() = Some(version);
                return Ok(());
            }
            // It expired, or a write was done whose answer was lost.
            let deadline = self.clock.now() + CALL;
            let found = self.backend.get_value(&self.key(), deadline).await?;
            if found.as_ref().is_some_and(|value| !self.is_mine(value)) {
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

    fn is_mine(&self, value: &Value) -> bool {
        serde_json::from_str::<NodeRecord>(&value.text)
            .is_ok_and(|record| record.incarnation == self.node.owner.incarnation.to_string())
    }

    async fn write(&self, role: &str, ready: bool, expect: Expect) -> Result<SetOutcome, Error> {
        let record = NodeRecord {
            endpoint: self.node.endpoint.clone(),
            incarnation: self.node.owner.incarnation.to_string(),
            role: role.to_owned(),
            ready,
            version: VERSION.to_owned(),
        };
        let text = serde_json::to_string(&record).map_err(Error::not_done)?;
        let deadline = self.clock.now() + CALL;
        self.backend
            .set_value(&self.key(), &text, Some(RECORD_TTL), expect, deadline)
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

#[cfg(test)]
mod tests {
    use coordination_memory::MemoryBackend;
    use kvcm_clock::{TokioTimer, VirtualClock};

    use super::*;

    struct Bench {
        clock: Arc<VirtualClock>,
        backend: Arc<MemoryBackend>,
    }

    impl Bench {
        fn new() -> Self {
            let clock = Arc::new(VirtualClock::new());
            Self {
                backend: Arc::new(MemoryBackend::new(clock.clone())),
                clock,
            }
        }

        fn member(&self, name: &str) -> Members {
            let endpoint = Endpoint {
                host: "h".to_owned(),
                ..Endpoint::default()
            };
            let node = Node::new(Some(name.parse().unwrap()), endpoint).unwrap();
            Members::new(
                self.backend.clone(),
                Arc::new(node),
                self.clock.clone(),
                Arc::new(TokioTimer::new(*self.clock)),
            )
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_live_process_with_the_same_id_is_refused() {
        let bench = Bench::new();
        let first = bench.member("n");
        first.join().await.unwrap();
        let second = bench.member("n");
        let beats = async {
            loop {
                first.beat("leader").await.unwrap();
                tokio::time::sleep(HEARTBEAT).await;
            }
        };
        let refused = tokio::select! {
            refused = second.join() => refused.unwrap_err(),
            () = beats => unreachable!(),
        };
        let text = refused.to_string();
        let first_life = first.node.owner.incarnation.to_string();
        assert!(text.contains("`n`") && text.contains(&first_life), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_after_a_kill_gets_in_after_one_time_to_live() {
        let bench = Bench::new();
        bench.member("n").join().await.unwrap();
        let before = bench.clock.now();
        let again = bench.member("n");
        again.join().await.unwrap();
        assert!(bench.clock.now().since(before) <= RECORD_TTL + Duration::from_millis(200));
        again.beat("follower").await.unwrap();
        let list = again.list();
        assert_eq!(list.len(), 1);
        assert_eq!(
            list[0].record.incarnation,
            again.node.owner.incarnation.to_string()
        );
        assert_eq!(list[0].record.role, "follower");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_refused_or_paused_leaves_the_record_of_the_other_alone() {
        let bench = Bench::new();
        let (first, second) = (bench.member("n"), bench.member("n"));
        let life = |member: &Members| member.node.owner.incarnation.to_string();
        let listed = |member: &Members| -> Vec<String> {
            let list = member.list();
            let lives = list.iter().map(|seen| seen.record.incarnation.clone());
            lives.collect()
        };
        first.join().await.unwrap();
        // A process that is refused ends with `leave`.
        second.leave().await;
        first.beat("leader").await.unwrap();
        assert_eq!(listed(&first), [life(&first)]);
        // The first is paused for longer than its record lives, and replaced.
        tokio::time::sleep(RECORD_TTL).await;
        second.join().await.unwrap();
        first.beat("leader").await.unwrap();
        assert_eq!(listed(&first), [life(&second)]);
        first.leave().await;
        second.beat("leader").await.unwrap();
        assert_eq!(listed(&second), [life(&second)]);
        // When the other has gone, it is a member again.
        second.leave().await;
        first.beat("follower").await.unwrap();
        assert_eq!(listed(&first), [life(&first)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_node_disappears_and_one_that_leaves_at_once() {
        let bench = Bench::new();
        let (a, b, c) = (bench.member("a"), bench.member("b"), bench.member("c"));
        for member in [&a, &b, &c] {
            member.join().await.unwrap();
        }
        a.beat("leader").await.unwrap();
        assert_eq!(a.list().len(), 3);
        b.leave().await;
        a.beat("leader").await.unwrap();
        assert_eq!(a.list().len(), 2);
        tokio::time::sleep(RECORD_TTL).await;
        a.beat("leader").await.unwrap();
        assert_eq!(a.list().len(), 1);
    }
}
