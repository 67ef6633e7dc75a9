//! Finding the leader: asking nodes who leads.
//!
//! Any node answers, so any seed will do. Nodes are asked one after the other, the next one as
//! soon as one fails, tells nothing new, or is silent for the hedge delay; when the known leader
//! is in doubt, all at once. Calls that want the same search share one, and searches in vain keep
//! a distance that grows: as long as nobody leads, a client with a thousand waiting calls asks no
//! more than one with a single call.

use std::{fmt, sync::Arc, time::Duration};

use kvcm_clock::Backoff;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    address::Address,
    asking::{Asking, Heard},
    client::ClusterState,
    cluster_info::{self, ClusterInfo},
    core::Core,
    leader::{Leader, LeaderTable},
    policy::Failure,
    rpc::{Failed, Incoming, Outgoing},
    settings::{SEARCHES, SEARCHES_WHILE_PUSHED},
    stats::count,
};

/// Nodes that are asked at the same moment at most.
const AT_ONCE_MAX: usize = 8;

/// How long the rest is listened to, at least, once somebody answered without news.
const GRACE_MIN: Duration = Duration::from_millis(10);

/// What lets searches be shared, and keeps them apart.
#[derive(Debug)]
pub(crate) struct Searches {
    gate: tokio::sync::Mutex<()>,
    last: Mutex<Option<Arc<Round>>>,
    pace: Mutex<Pace>,
    /// Nodes whose answer to an earlier search is still awaited; they are not asked again.
    pub(crate) late: Mutex<Vec<Address>>,
}

/// When the next search may begin.
#[derive(Debug)]
struct Pace {
    next: Option<Instant>,
    /// Searches in vain since a leader was found.
    in_vain: u32,
    alone: Backoff,
    while_pushed: Backoff,
}

/// One finished search.
#[derive(Debug)]
pub(crate) struct Round {
    started: Instant,
    /// The best answer of those that came in time.
    pub(crate) best: Option<ClusterInfo>,
    /// Whether the best answer named a leader that the client accepted.
    found: bool,
    /// Only the known leader was asked, whether it still leads.
    only_leader: bool,
    /// The leader that others name does not answer at the address it advertises.
    unreachable: Option<Address>,
    /// What each node said, for people.
    told: Vec<(Address, String)>,
    /// Nodes that did not answer, in time or at all.
    mute: Vec<Address>,
}

impl Core {
    /// Finds out who leads and enters it into the table. A search that started at or after
    /// `since` is shared instead of repeated. `None`: a newer leader became known while this one
    /// waited for its turn.
    ///
    /// `doubt`: an answer that names the leader which is known already is no news, so the others
    /// are heard too.
    pub(crate) async fn search(
        self: &Arc<Self>,
        since: Instant,
        doubt: bool,
    ) -> Option<Arc<Round>> {
        if let Some(round) = self.searches.recent(since) {
            return Some(round);
        }
        let _turn = self.searches.gate.lock().await;
        if let Some(round) = self.searches.recent(since) {
            return Some(round);
        }
        let wait = self.searches.wait();
        if !wait.is_zero() && self.wait_for_news(wait).await {
            return None;
        }
        Some(self.search_now(doubt).await)
    }

    /// The same at once.
    pub(crate) async fn search_now(self: &Arc<Self>, doubt: bool) -> Arc<Round> {
        count(&self.counters.discoveries);
        let round = Arc::new(self.ask_around(doubt).await);
        self.counters.discovery_took(round.started.elapsed());
        tracing::debug!(found = round.found, %round, "searched for the leader");
        let is_pushed = self.is_pushed();
        self.with_random(|random| {
            let mut pace = self.searches.pace.lock();
            pace.round_ended(&round, is_pushed, random);
        });
        *self.searches.last.lock() = Some(Arc::clone(&round));
        round
    }

    async fn ask_around(self: &Arc<Self>, doubt: bool) -> Round {
        let started = Instant::now();
        let (known, doubt) = {
            let table = self.table.borrow();
            let in_doubt = table.leader().is_some() && (doubt || table.route().is_none());
            (table.leader().cloned(), in_doubt)
        };
        let mut round = Round {
            started,
            best: None,
            found: false,
            only_leader: false,
            unreachable: None,
            told: Vec::new(),
            mute: Vec::new(),
        };
        let mut answers: Vec<ClusterInfo> = Vec::new();
        let order = self.nodes_to_ask(known.as_deref(), doubt, &mut round).await;
        let mut asking = Asking::new(Arc::clone(self), order);
        let hurry = doubt || self.searches.was_in_vain();
        asking.ask_next(if hurry { AT_ONCE_MAX } else { 1 });
        let mut hedge_at = started + self.settings.hedge_delay;
        let mut listen_until: Option<Instant> = None;
        let mut has_news = false;
        while !asking.is_done() {
            let more = asking.has_more();
            let end = listen_until.filter(|_| !more);
            tokio::select! {
                Some(heard) = asking.heard() => {
                    round.hear(&heard);
                    if let Ok(info) = heard.answer {
                        has_news = self.table.borrow().is_news(&info, known.as_deref(), doubt);
                        answers.push(info);
                        if has_news {
                            break;
                        }
                        let grace = (heard.took * 2).clamp(GRACE_MIN, self.settings.hedge_delay);
                        listen_until = Some(Instant::now() + grace);
                    }
                }
                () = tokio::time::sleep_until(hedge_at), if more => {}
                () = tokio::time::sleep_until(end.unwrap_or(hedge_at)), if end.is_some() => break,
                else => break,
            }
            asking.ask_next(1);
            hedge_at = Instant::now() + self.settings.hedge_delay;
        }
        round.mute.extend(asking.leave());
        round.best = self.table.borrow().best(answers);
        // A newer leader may not have had the time to answer itself.
        let mute: &[Address] = if has_news { &[] } else { &round.mute };
        if let Some(info) = &round.best {
            round.found = self.enter(info, mute);
            let named = info.leader_address().map(|(_, address)| address);
            round.unreachable = named.filter(|address| mute.contains(address));
        }
        round
    }

    /// The leader first, then the seeds, then nodes that led before; without those whose answer
    /// to an earlier search is late, and those that are left alone because they do not answer.
    async fn nodes_to_ask(
        &self,
        known: Option<&Leader>,
        doubt: bool,
        round: &mut Round,
    ) -> Vec<Address> {
        let in_vain = self.searches.was_in_vain();
        let leader = known.map(|leader| &leader.address);
        if doubt
            && !in_vain
            && self.is_pushed()
            && let Some(leader) = leader
        {
            // Another node tells unasked who else leads. What only the leader itself can tell is
            // whether its connection was all that died; if it refused, it has told.
            round.only_leader = true;
            let has_told = self.table.borrow().refuses();
            return (!has_told).then(|| leader.clone()).into_iter().collect();
        }
        let seeds = self.seeds.addresses(in_vain || doubt).await;
        let mut late = self.searches.late.lock().clone();
        if doubt && self.is_pushed() {
            // It tells without being asked.
            late.extend(self.pushed_by.lock().clone());
        }
        let table = self.table.borrow();
        let first = leader.filter(|_| !doubt);
        let mut order: Vec<Address> = Vec::new();
        for address in first.into_iter().chain(&seeds).chain(table.nodes()) {
            if !order.contains(address) && !late.contains(address) {
                order.push(address.clone());
            }
        }
        if table.refuses() && self.searches.vain_rounds() % 2 == 1 {
            // Others hear first of the next leader. Now and then it is asked all the same: it may
            // lead again.
            let others = |address: &&Address| Some(*address) != leader;
            let others: Vec<_> = order.iter().filter(others).cloned().collect();
            if !others.is_empty() {
                order = others;
            }
        }
        drop(table);
        if order.is_empty() {
            order.append(&mut late);
        }
        round.mute.clone_from(&*self.searches.late.lock());
        let now = Instant::now();
        let mut breakers = self.breakers.lock();
        let (usable, resting): (Vec<_>, Vec<_>) = order
            .into_iter()
            .partition(|address| breakers.admit(address, now, self.settings.ask_timeout));
        drop(breakers);
        if usable.is_empty() {
            return resting;
        }
        round.mute.extend(resting);
        usable
    }

    /// Asks one node who leads.
    pub(crate) async fn ask_node(
        &self,
        address: &Address,
        timeout: Duration,
    ) -> Result<ClusterInfo, Failed> {
        let outgoing = Outgoing {
            path: cluster_info::PATH,
            body: cluster_info::request(),
            request_id: None,
            min_epoch: 0,
            timeout,
            reply_bytes_max: self.settings.reply_bytes_max,
        };
        let incoming = self.send(address, &outgoing).await?;
        ClusterInfo::read(address, &incoming.body)
    }

    /// Sends to one node, and notes whether it answered.
    pub(crate) async fn send(
        &self,
        address: &Address,
        outgoing: &Outgoing<'_>,
    ) -> Result<Incoming, Failed> {
        let result = self.transport.send(address, outgoing).await;
        self.note_breaker(address, &result);
        result
    }

    /// Takes an answer that came after its search had ended: it counts when it names a newer
    /// leader, or is the known leader's own word.
    pub(crate) fn enter_late(&self, info: &ClusterInfo) {
        if info.leader_address().is_some() {
            self.take_push(info);
        }
    }

    /// Enters the leader that `info` names, unless it was asked itself and did not answer: calls
    /// would fail there too. Its epoch counts all the same.
    fn enter(&self, info: &ClusterInfo, mute: &[Address]) -> bool {
        let epoch = info.leader_epoch.unwrap_or(0);
        let own = info.is_own_claim();
        let mut entered = false;
        self.table
            .send_if_modified(|table| match info.leader_address() {
                Some((node, address)) if !mute.contains(&address) => {
                    entered = table.discovered(info.cluster(), epoch, node, address, own);
                    entered
                }
                _ => {
                    table.hint(info.cluster(), epoch, None);
                    false
                }
            });
        if entered && let Some((_, address)) = info.leader_address() {
            self.named_leader(&address);
        }
        entered
    }
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

    fn hear(&mut self, heard: &Heard) {
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

impl Default for Searches {
    fn default() -> Self {
        Self {
            gate: tokio::sync::Mutex::default(),
            last: Mutex::default(),
            pace: Mutex::new(Pace {
                next: None,
                in_vain: 0,
                alone: Backoff::new(SEARCHES),
                while_pushed: Backoff::new(SEARCHES_WHILE_PUSHED),
            }),
            late: Mutex::default(),
        }
    }
}

impl Pace {
    fn round_ended(&mut self, round: &Round, is_pushed: bool, random: &mut dyn kvcm_clock::Random) {
        if round.found {
            self.next = None;
            self.in_vain = 0;
            self.alone.reset();
            self.while_pushed.reset();
            return;
        }
        self.in_vain = self.in_vain.wrapping_add(1);
        let waits = if is_pushed {
            &mut self.while_pushed
        } else {
            &mut self.alone
        };
        self.next = Some(Instant::now() + waits.next(random));
    }
}

impl Searches {
    /// How long the next search keeps its distance from the last one.
    fn wait(&self) -> Duration {
        let next = self.pace.lock().next;
        next.map_or(Duration::ZERO, |next| {
            next.saturating_duration_since(Instant::now())
        })
    }

    fn vain_rounds(&self) -> u32 {
        self.pace.lock().in_vain
    }

    /// The last search.
    pub(crate) fn last(&self) -> Option<Arc<Round>> {
        self.last.lock().clone()
    }

    fn was_in_vain(&self) -> bool {
        self.last.lock().as_ref().is_some_and(|last| !last.found)
    }

    fn recent(&self, since: Instant) -> Option<Arc<Round>> {
        let last = self.last.lock();
        last.as_ref()
            .filter(|round| round.started >= since)
            .cloned()
    }
}

// === impl LeaderTable: judging answers ===

impl LeaderTable {
    /// Whether an answer settles the search. While the known leader is in doubt, only a newer
    /// epoch does, or another node where the server has no epochs.
    fn is_news(&self, info: &ClusterInfo, known: Option<&Leader>, doubt: bool) -> bool {
        let epoch = info.leader_epoch.unwrap_or(0);
        let Some(node) = &info.leader else {
            return false;
        };
        if !self.accepts(info.cluster(), epoch) {
            return false;
        }
        known.filter(|_| doubt).is_none_or(|known| {
            epoch > known.epoch || (epoch == known.epoch && node.endpoint != known.address.as_str())
        })
    }

    /// The answer to believe: of the current cluster if any, then the highest epoch, then the
    /// leader's own word, then the youngest.
    fn best(&self, answers: Vec<ClusterInfo>) -> Option<ClusterInfo> {
        answers.into_iter().max_by_key(|info| {
            (
                info.leader.is_some(),
                !self.is_foreign(info.cluster()),
                info.leader_epoch.unwrap_or(0),
                info.is_own_claim(),
                std::cmp::Reverse(info.info_age),
            )
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn info(cluster: &str, epoch: u64, port: u16) -> ClusterInfo {
        let address = Address::parse(&format!("n:{port}")).unwrap();
        ClusterInfo {
            answered_by: "x:1".to_owned(),
            self_node_id: String::new(),
            self_role: String::new(),
            cluster_id: cluster.to_owned(),
            leader_node_id: "l".to_owned(),
            leader: Some(crate::Node::at(&address)),
            leader_epoch: Some(epoch),
            info_age: Duration::ZERO,
        }
    }

    fn table(epoch: u64) -> LeaderTable {
        let mut table = LeaderTable::default();
        let address = Address::parse("n:1").unwrap();
        assert!(table.discovered(Some("c"), epoch, crate::Node::at(&address), address, true));
        table
    }

    #[test]
    fn while_in_doubt_only_a_newer_leader_is_news() {
        let table = table(5);
        let known = table.leader().cloned();
        let known = known.as_deref();
        assert!(table.is_news(&info("c", 5, 1), known, false));
        assert!(!table.is_news(&info("c", 5, 1), known, true));
        assert!(table.is_news(&info("c", 5, 2), known, true));
        assert!(table.is_news(&info("", 6, 1), known, true));
        assert!(!table.is_news(&info("c", 4, 2), known, false), "older");
        assert!(
            !table.is_news(&info("other", 9, 2), known, false),
            "foreign"
        );
        let mut homeless = info("c", 9, 2);
        homeless.leader = None;
        assert!(!table.is_news(&homeless, known, false));
    }

    #[test]
    fn the_best_answer_is_of_this_cluster_with_the_highest_epoch_and_the_youngest() {
        let table = table(5);
        let mut young = info("c", 6, 2);
        let mut old = young.clone();
        old.info_age = Duration::from_secs(1);
        let best =
            |answers: &[&ClusterInfo]| table.best(answers.iter().copied().cloned().collect());
        assert_eq!(best(&[&old, &young, &old]), Some(young.clone()));
        let foreign = info("other", 99, 3);
        assert_eq!(best(&[&foreign, &young]), Some(young.clone()));
        assert_eq!(best(&[&foreign]), Some(foreign.clone()));
        young.leader = None;
        let low = info("c", 5, 1);
        assert_eq!(best(&[&young, &low]), Some(low));
    }
}
