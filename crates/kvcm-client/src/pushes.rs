//! Changes of leader, pushed by a node.
//!
//! One stream per client, on a node that does not lead if there is one: when the leader dies the
//! stream lives on, tells who comes next within milliseconds, and keeps a connection to a standby
//! warm. A server without the call is asked every refresh interval instead.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::StreamExt;
use kvcm_clock::Backoff;
use tokio::time::Instant;

use crate::{
    address::Address, cluster_info::ClusterInfo, core::Core, leader::LeaderTable, policy::Failure,
    rpc::Failed, settings::PUSHES, stats::count, transport::Pushes,
};

/// How long the stream waits for the first leader, so as not to end up on it.
const LEADER_KNOWN_WITHIN: Duration = Duration::from_millis(500);
/// When the node that pushes became the leader, the stream moves to another one within this time;
/// long, so that all clients do not move at once.
const MOVES_WITHIN: Duration = Duration::from_secs(30);

/// Follows nodes until the client is gone.
pub(crate) async fn follow(core: Weak<Core>) {
    if let Some(core) = core.upgrade()
        && core.route().is_none()
    {
        core.wait_for_news(LEADER_KNOWN_WITHIN).await;
    }
    let mut waits = Backoff::new(PUSHES);
    // Nodes that cannot push, and those that have no stream left.
    let mut without: Vec<Address> = Vec::new();
    let mut full: Vec<Address> = Vec::new();
    loop {
        let Some(strong) = core.upgrade() else {
            return;
        };
        let opened = match strong.node_to_watch(&without, &mut full).await {
            Some(node) => {
                let opened = strong.subscribe(&node).await;
                Some((node, opened))
            }
            None => None,
        };
        drop(strong);
        if let Some((node, opened)) = opened {
            match opened {
                Ok(pushes) => {
                    let ended = listen(&core, &node, pushes, &mut waits).await;
                    if let Some(core) = core.upgrade() {
                        core.pushed_by.lock().take();
                        match ended {
                            Some(failed) if is_unsupported(&failed) => without.push(node),
                            Some(failed) if failed.failure == Failure::Final => full.push(node),
                            _ => full.clear(),
                        }
                    }
                }
                Err(failed) => {
                    tracing::debug!(%node, text = failed.text, "a node does not push");
                    if is_unsupported(&failed) {
                        without.push(node);
                    } else {
                        full.push(node);
                    }
                }
            }
        }
        let Some(wait) = core.upgrade().map(|core| core.next_wait(&mut waits)) else {
            return;
        };
        tokio::time::sleep(wait).await;
    }
}

/// Takes what a node pushes until it ends; why it ended, when that was a failure.
async fn listen(
    core: &Weak<Core>,
    node: &Address,
    mut pushes: Pushes,
    waits: &mut Backoff,
) -> Option<Failed> {
    let mut move_at: Option<Instant> = None;
    loop {
        let far = Instant::now() + Duration::from_secs(86_400);
        let pushed = tokio::select! {
            pushed = pushes.next() => pushed?,
            () = tokio::time::sleep_until(move_at.unwrap_or(far)), if move_at.is_some() => {
                return None;
            }
        };
        let core = core.upgrade()?;
        match pushed {
            Ok(info) => {
                waits.reset();
                *core.pushed_by.lock() = Some(node.clone());
                count(&core.counters.pushes);
                core.take_push(&info);
                if !core.should_move_from(node) {
                    move_at = None;
                } else if move_at.is_none() {
                    let share = core.with_random(|random| random.next_f64());
                    move_at = Some(Instant::now() + MOVES_WITHIN.mul_f64(share));
                }
            }
            Err(failed) => {
                tracing::debug!(%node, text = failed.text, "pushes have ended");
                return Some(failed);
            }
        }
    }
}

/// The seeds, then the other nodes that are known.
fn all_nodes(seeds: Vec<Address>, table: &LeaderTable) -> Vec<Address> {
    let mut nodes = seeds;
    for address in table.nodes() {
        if !nodes.contains(address) {
            nodes.push(address.clone());
        }
    }
    nodes
}

fn is_unsupported(failed: &Failed) -> bool {
    failed.status == Some(tonic::Code::Unimplemented)
}

impl Core {
    /// A node that may push: one that does not lead if possible, none whose breaker is open, and
    /// none that was `full` before all are.
    async fn node_to_watch(&self, without: &[Address], full: &mut Vec<Address>) -> Option<Address> {
        let seeds = self.seeds.addresses(false).await;
        let (leader, mut nodes) = {
            let table = self.table.borrow();
            let leader = table.leader().map(|leader| leader.address.clone());
            (leader, all_nodes(seeds, &table))
        };
        nodes.retain(|address| !without.contains(address));
        let breakers = self.breakers.lock();
        nodes.retain(|address| breakers.is_closed(address));
        drop(breakers);
        if nodes.iter().all(|node| full.contains(node)) {
            full.clear();
        }
        nodes.retain(|address| !full.contains(address));
        let followers = nodes.iter().filter(|node| Some(*node) != leader.as_ref());
        let followers: Vec<_> = followers.cloned().collect();
        let nodes = if followers.is_empty() {
            nodes
        } else {
            followers
        };
        // Any of them: the streams of many clients spread over the nodes.
        let at = self.random_below(nodes.len());
        nodes.into_iter().nth(at)
    }

    async fn subscribe(self: &Arc<Self>, node: &Address) -> Result<Pushes, Failed> {
        let timeout = self.settings.ask_timeout;
        let opened = self.transport.watch(node, timeout).await;
        match &opened {
            Ok(_) => self.answered(node),
            Err(failed) if failed.failure.breaks_connection() => self.did_not_answer(node),
            Err(_) => {}
        }
        opened
    }

    /// Whether the stream is on the leader although other nodes are known.
    fn should_move_from(&self, node: &Address) -> bool {
        let table = self.table.borrow();
        let leads = table.leader().is_some_and(|leader| leader.address == *node);
        let others = self.seeds.known().iter().any(|seed| seed != node)
            || table.nodes().any(|other| other != node);
        leads && others
    }

    /// Whether a node that does not lead pushes what it knows.
    pub(crate) fn is_pushed(&self) -> bool {
        let by = self.pushed_by.lock();
        let table = self.table.borrow();
        let leader = table.leader().map(|leader| &leader.address);
        by.as_ref().is_some_and(|by| Some(by) != leader)
    }

    /// Remembers the nodes that one told of, which survive the seeds.
    pub(crate) fn meet(&self, info: &ClusterInfo) {
        let addresses = info.nodes.iter().map(|node| Address::parse(&node.endpoint));
        let members: Vec<_> = addresses.filter_map(Result::ok).collect();
        self.table.send_if_modified(|table| {
            table.meet(info.cluster(), members);
            // Nobody waits for that.
            false
        });
    }

    /// Takes what a node said unasked.
    pub(crate) fn take_push(&self, info: &ClusterInfo) {
        self.meet(info);
        let epoch = info.leader_epoch.unwrap_or(0);
        let own = info.is_own_claim();
        let mut named = None;
        self.table.send_if_modified(|table| {
            let Some((node, address)) = info.leader_address() else {
                // A newer epoch counts although its leader cannot be called yet.
                table.hint(info.cluster(), epoch, None);
                let known = table.leader().cloned();
                let gave_up = known.filter(|known| {
                    !info.self_node_id.is_empty() && info.self_node_id == known.node.id
                });
                if let Some(known) = gave_up {
                    // Its own word that it does not serve.
                    table.refute(&known);
                }
                return false;
            };
            let is_known = table
                .leader()
                .is_some_and(|known| known.epoch == epoch && known.address == address);
            named = Some(address.clone());
            if is_known && own {
                table.discovered(info.cluster(), epoch, node, address, true)
            } else {
                table.hint(info.cluster(), epoch, Some((node, address)))
            }
        });
        if let Some(address) = named {
            self.named_leader(&address);
        }
    }

    /// Connects to the nodes that are known and not in use, so that the next leader, whoever that
    /// will be, need not wait for a handshake.
    pub(crate) async fn warm_up(self: &Arc<Self>) {
        const NODES_MAX: usize = 8;
        let seeds = self.seeds.addresses(false).await;
        let nodes = all_nodes(seeds, &self.table.borrow());
        for node in nodes.into_iter().take(NODES_MAX) {
            if !self.breakers.lock().is_closed(&node) {
                continue;
            }
            match self.ask_node(&node, self.settings.ask_timeout).await {
                Ok(info) => {
                    self.meet(&info);
                    self.enter_late(&info);
                }
                Err(failed) => {
                    let text = failed.text;
                    tracing::debug!(%node, text, "a standby does not answer");
                }
            }
        }
    }

    /// The node answered.
    pub(crate) fn answered(&self, node: &Address) {
        let mut breakers = self.breakers.lock();
        if breakers.has(node) {
            breakers.close(node);
        }
    }

    /// The node did not answer.
    pub(crate) fn did_not_answer(&self, node: &Address) {
        let now = Instant::now();
        let opened = self.with_random(|random| self.breakers.lock().failed(node, now, random));
        if opened {
            count(&self.counters.breakers_opened);
            tracing::debug!(%node, "a node that does not answer is left alone for a while");
        }
    }

    /// Somebody names the node as the leader of an epoch that is not old: worth a try whatever was.
    pub(crate) fn named_leader(&self, node: &Address) {
        let table = self.table.borrow();
        let routed = table.route().is_some_and(|leader| leader.address == *node);
        drop(table);
        if routed {
            self.answered(node);
        }
    }

    /// Notes in the breakers how a try at `node` ended.
    pub(crate) fn note_breaker<T>(&self, node: &Address, result: &Result<T, Failed>) {
        match result {
            Ok(_) => self.answered(node),
            Err(failed) => match failed.failure {
                Failure::Unreachable | Failure::Broken | Failure::Silent => {
                    self.did_not_answer(node);
                }
                _ => self.answered(node),
            },
        }
    }
}
