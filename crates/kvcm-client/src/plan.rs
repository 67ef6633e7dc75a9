//! Whom a search asks, in which order, and how many at once.
//!
//! The first contact goes through the seeds until one knows the leader. When a leader fails, all
//! clients of a cluster search at once; so the first question is for that leader, the next search, which
//! keeps its distance, is for one other node, whichever, and so on: any that lives knows within
//! milliseconds who leads.

use tokio::time::Instant;

use crate::{address::Address, core::Core, leader::Leader, round::Round};

/// Whom to ask.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The nodes, one after the other.
    pub(crate) order: Vec<Address>,
    /// So many of them at once in the beginning.
    pub(crate) at_once: usize,
    /// An answer without news that is not the leader's own ends the search; only nodes that do not
    /// answer are replaced.
    pub(crate) is_brief: bool,
    /// Only those that are silent: a failure ends the search, too.
    pub(crate) failure_ends: bool,
}

impl Core {
    /// Plans a search; `doubt`: the known leader has failed. Nodes whose answer to an earlier search is
    /// late are not asked, nor those that are left alone because they do not answer, while there are
    /// others.
    pub(crate) async fn plan(
        &self,
        known: Option<&Leader>,
        doubt: bool,
        round: &mut Round,
    ) -> Plan {
        let in_vain = self.searches.was_in_vain();
        let leader = known.map(|leader| &leader.address);
        let has_told = self.table.borrow().refuses();
        // Whether its connection was all that died, only the leader itself can tell.
        let leader_first = doubt && !in_vain && !has_told;
        if doubt
            && !in_vain
            && self.is_pushed()
            && let Some(leader) = leader
        {
            // Who else leads, the node that pushes tells unasked.
            round.only_leader = true;
            let order = (!has_told).then(|| leader.clone());
            return Plan {
                order: order.into_iter().collect(),
                at_once: 1,
                is_brief: true,
                failure_ends: true,
            };
        }
        let mut order = self.candidates(leader, doubt, in_vain).await;
        round.mute.clone_from(&*self.searches.late.lock());
        let resting = self.without_resting(&mut order);
        if order.is_empty() {
            order = resting;
        } else {
            round.mute.extend(resting);
        }
        let is_brief = doubt || in_vain;
        let mut at_once = 1;
        if is_brief {
            let others = order.iter().position(|address| Some(address) != leader);
            let first = others.unwrap_or(order.len());
            // Any other, so that those who search spread over all that may know.
            let chosen = first + self.random_below(order.len() - first);
            if chosen < order.len() {
                order.swap(first, chosen);
            }
            at_once = if leader_first { 1 } else { first + 1 };
        }
        let leader_first = leader_first && order.first() == leader;
        round.only_leader = leader_first;
        Plan {
            order,
            at_once,
            is_brief,
            failure_ends: leader_first,
        }
    }

    /// The leader first, then the seeds, then the other nodes that are known.
    async fn candidates(
        &self,
        leader: Option<&Address>,
        doubt: bool,
        in_vain: bool,
    ) -> Vec<Address> {
        let seeds = self.seeds.addresses(in_vain || doubt).await;
        let mut late = self.searches.late.lock().clone();
        if doubt && self.is_pushed() {
            // It tells without being asked.
            late.extend(self.pushed_by.lock().clone());
        }
        let table = self.table.borrow();
        let mut order: Vec<Address> = Vec::new();
        for address in leader.into_iter().chain(&seeds).chain(table.nodes()) {
            if !order.contains(address) && !late.contains(address) {
                order.push(address.clone());
            }
        }
        if table.refuses() && self.searches.vain_rounds().is_multiple_of(2) {
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
        order
    }

    /// Takes out the nodes that are left alone because they do not answer, and returns them.
    fn without_resting(&self, order: &mut Vec<Address>) -> Vec<Address> {
        let now = Instant::now();
        let mut breakers = self.breakers.lock();
        let (usable, resting) = std::mem::take(order)
            .into_iter()
            .partition(|address| breakers.admit(address, now, self.settings.ask_timeout));
        *order = usable;
        resting
    }
}
