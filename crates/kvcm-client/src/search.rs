//! Finding the leader: asking nodes who leads.
//!
//! Any node answers, so any seed will do. Nodes are asked one after the other, the next one as
//! soon as one fails, tells nothing new, or is silent for the hedge delay; whom exactly, says the
//! [plan](crate::plan). Calls that want the same search share one, and searches in vain keep a
//! distance that grows: as long as nobody leads, a client with a thousand waiting calls asks no more
//! than one with a single call.

use std::{sync::Arc, time::Duration};

use kvcm_clock::Backoff;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    address::Address,
    asking::Asking,
    cluster_info::{self, ClusterInfo},
    core::Core,
    round::Round,
    rpc::{Failed, Incoming, Outgoing},
    settings::{SEARCHES, SEARCHES_WHILE_PUSHED},
    stats::count,
};

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
    /// The last search came before its time.
    is_early: bool,
    /// Searches in vain since a leader was found.
    in_vain: u32,
    alone: Backoff,
    while_pushed: Backoff,
}

impl Core {
    /// Finds out who leads and enters it into the table. A search that started at or after
    /// `since` is shared instead of repeated. `None`: a newer leader became known while this one
    /// waited for its turn.
    ///
    /// `doubt`: an answer that names the leader which is known already is no news, so the others
    /// are heard too. `deadline`: until when somebody waits for it.
    pub(crate) async fn search(
        self: &Arc<Self>,
        since: Instant,
        doubt: bool,
        deadline: Option<Instant>,
    ) -> Option<Arc<Round>> {
        if let Some(round) = self.searches.recent(since) {
            return Some(round);
        }
        let _turn = self.searches.gate.lock().await;
        if let Some(round) = self.searches.recent(since) {
            return Some(round);
        }
        let wait = self.searches.wait(deadline);
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
        let plan = self.plan(known.as_deref(), doubt, &mut round).await;
        let mut asking = Asking::new(Arc::clone(self), plan.order);
        asking.ask_next(plan.at_once);
        let mut hedge_at = started + self.settings.hedge_delay;
        let mut listen_until: Option<Instant> = None;
        let mut has_news = false;
        while !asking.is_done() {
            let more = asking.has_more();
            let end = listen_until.filter(|_| !more);
            tokio::select! {
                Some(heard) = asking.heard() => {
                    round.hear(&heard);
                    if plan.failure_ends && heard.answer.is_err() {
                        asking.ask_no_more();
                    }
                    if let Ok(info) = heard.answer {
                        self.meet(&info);
                        has_news = self.table.borrow().is_news(&info, known.as_deref(), doubt);
                        answers.push(info);
                        if has_news {
                            break;
                        }
                        let is_leader = known.as_ref().is_some_and(|k| k.address == heard.address);
                        // A leader may be the last to hear that it leads no more.
                        if plan.is_brief && !is_leader {
                            asking.ask_no_more();
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

impl Default for Searches {
    fn default() -> Self {
        Self {
            gate: tokio::sync::Mutex::default(),
            last: Mutex::default(),
            pace: Mutex::new(Pace {
                next: None,
                is_early: false,
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
    /// How long the next search keeps its distance from the last one, but not beyond half the time
    /// until `deadline`, so that nobody gives up who has asked the dead leader only. Such early
    /// searches do not follow each other.
    fn wait(&self, deadline: Option<Instant>) -> Duration {
        let mut pace = self.pace.lock();
        let now = Instant::now();
        let until = |moment: Instant| moment.saturating_duration_since(now);
        let wait = pace.next.map_or(Duration::ZERO, until);
        let half = deadline.map(|deadline| until(deadline) / 2);
        let Some(half) = half.filter(|half| wait > *half) else {
            pace.is_early = false;
            return wait;
        };
        match std::mem::replace(&mut pace.is_early, true) {
            false => half,
            true => wait,
        }
    }

    pub(crate) fn vain_rounds(&self) -> u32 {
        self.pace.lock().in_vain
    }

    /// The last search.
    pub(crate) fn last(&self) -> Option<Arc<Round>> {
        self.last.lock().clone()
    }

    pub(crate) fn was_in_vain(&self) -> bool {
        self.last.lock().as_ref().is_some_and(|last| !last.found)
    }

    fn recent(&self, since: Instant) -> Option<Arc<Round>> {
        let last = self.last.lock();
        last.as_ref()
            .filter(|round| round.started >= since)
            .cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn a_search_comes_halfway_to_the_deadline_at_the_latest_but_not_twice_in_a_row() {
        let searches = Searches::default();
        let now = Instant::now();
        searches.pace.lock().next = Some(now + 600 * MS);
        let (soon, late) = (Some(now + 400 * MS), Some(now + 5000 * MS));
        let waits = [soon, soon, late, soon, None].map(|deadline| searches.wait(deadline));
        assert_eq!(waits, [200, 600, 600, 200, 600].map(|ms| ms * MS));
    }
}
