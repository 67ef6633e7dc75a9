//! Who leads, ordered by cluster and epoch.
//!
//! Knowledge comes from replies, hints and discovery, in any order and of any age. Within one
//! cluster an older epoch never wins, so a node that has been left behind can neither pull the
//! client back nor have its answers believed.

use std::sync::Arc;

use crate::{address::Address, node::Node};

/// One past the highest epoch the protocol allows; a number above it is noise, not an epoch, and
/// believing it would shut out every real leader.
const EPOCH_LIMIT: u64 = 1 << 53;

/// A node that leads or led, with the epoch that proves it. Epoch 0: the server has no epochs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) cluster: Arc<str>,
    pub(crate) epoch: u64,
    pub(crate) address: Address,
    pub(crate) node: Node,
}

/// What is to be done with a reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Believe it.
    Fresh,
    /// A newer epoch has been seen in this cluster: discard it.
    Stale { seen: u64 },
}

/// The table. `current` is "" until the cluster has told its id.
#[derive(Debug, Default)]
pub(crate) struct LeaderTable {
    current: Arc<str>,
    seen: u64,
    /// Highest epochs of clusters that were current before.
    others: Vec<(Arc<str>, u64)>,
    leader: Option<Arc<Leader>>,
    suspect: bool,
    /// Who refused calls as the leader of an epoch: only its own word or a newer epoch is believed
    /// again.
    refuted: Vec<(Address, u64)>,
    /// Where leaders were, the latest first: nodes to ask beside the seeds.
    nodes: Vec<Address>,
    /// The nodes that live, as one of them said last.
    members: Vec<Address>,
    /// The client is closed: nothing follows.
    closed: bool,
}

/// Addresses of past leaders that are remembered.
const NODES_MAX: usize = 16;

impl LeaderTable {
    /// The leader as last known, whether or not it failed since.
    pub(crate) fn leader(&self) -> Option<&Arc<Leader>> {
        self.leader.as_ref()
    }

    /// Where to send: the leader, unless it failed since it was last confirmed, or a newer epoch
    /// has been heard of whose leader is not known yet.
    pub(crate) fn route(&self) -> Option<&Arc<Leader>> {
        self.leader
            .as_ref()
            .filter(|leader| !self.suspect && leader.epoch == self.seen)
    }

    /// Nothing follows.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The highest epoch seen in the current cluster.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Where this client has seen leaders, the latest first, and then the nodes that it was told of.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Address> {
        let others = self.members.iter();
        let others = others.filter(|member| !self.nodes.contains(member));
        self.nodes.iter().chain(others)
    }

    /// Takes the nodes that one of `cluster` told of; a node that tells none changes nothing.
    pub(crate) fn meet(&mut self, cluster: Option<&str>, members: Vec<Address>) {
        if !members.is_empty() && !self.is_foreign(cluster) {
            self.members = members;
        }
    }

    /// The current cluster's id; "" while unknown.
    pub(crate) fn cluster(&self) -> &Arc<str> {
        &self.current
    }

    /// Whether a newer leader at another address than `from` is known: reason to go there at
    /// once. True at most once per epoch for a caller that moves each time.
    pub(crate) fn moved_from(&self, from: &Leader) -> bool {
        self.route().is_some_and(|leader| {
            leader.address != from.address
                && (leader.epoch > from.epoch || leader.cluster != from.cluster)
        })
    }

    /// Whether a reply with these marks changes nothing, so that the hot path need not lock.
    pub(crate) fn is_settled(
        &self,
        cluster: Option<&str>,
        epoch: Option<u64>,
        from: &Leader,
    ) -> bool {
        self.route().is_some_and(|leader| {
            leader.epoch == epoch.unwrap_or(from.epoch)
                && leader.address == from.address
                && cluster.is_none_or(|id| id.is_empty() || *id == *self.current)
        })
    }

    /// Takes note of a reply of `from` that carries these marks; `None`: the server has none.
    pub(crate) fn reply(
        &mut self,
        cluster: Option<&str>,
        epoch: Option<u64>,
        from: &Leader,
    ) -> Verdict {
        let Some(epoch) = epoch.filter(|epoch| *epoch < EPOCH_LIMIT) else {
            self.trust(from);
            return Verdict::Fresh;
        };
        let seen = self.seen_in(cluster);
        if epoch < seen {
            return Verdict::Stale { seen };
        }
        self.switch_to(cluster);
        self.seen = epoch;
        if self.is_settled(cluster, Some(epoch), from) {
            return Verdict::Fresh;
        }
        self.set(epoch, from.address.clone(), from.node.clone());
        Verdict::Fresh
    }

    /// Takes a hint of a node that refused, when it names a newer leader than the one known.
    pub(crate) fn hint(
        &mut self,
        cluster: Option<&str>,
        epoch: u64,
        endpoint: Option<(Node, Address)>,
    ) -> bool {
        if epoch == 0 || epoch >= EPOCH_LIMIT || epoch < self.seen || self.is_foreign(cluster) {
            return false;
        }
        self.adopt(cluster);
        self.seen = epoch;
        let Some((node, address)) = endpoint else {
            return false;
        };
        if self
            .leader
            .as_ref()
            .is_some_and(|known| known.epoch >= epoch)
        {
            return false;
        }
        self.set(epoch, address, node);
        true
    }

    /// Takes the result of a discovery; false when it is older than what is known. `own`: the node
    /// that is named said it itself.
    pub(crate) fn discovered(
        &mut self,
        cluster: Option<&str>,
        epoch: u64,
        node: Node,
        address: Address,
        own: bool,
    ) -> bool {
        if epoch >= EPOCH_LIMIT || epoch < self.seen_in(cluster) {
            return false;
        }
        if !own && self.is_refuted(&address, epoch) {
            return false;
        }
        self.switch_to(cluster);
        self.seen = epoch;
        self.set(epoch, address, node);
        true
    }

    /// Whether `discovered` would take an answer with these marks without leaving the cluster.
    pub(crate) fn accepts(&self, cluster: Option<&str>, epoch: u64) -> bool {
        epoch < EPOCH_LIMIT && !self.is_foreign(cluster) && epoch >= self.seen
    }

    /// Whether `cluster` is known to be another than the current one.
    pub(crate) fn is_foreign(&self, cluster: Option<&str>) -> bool {
        !self.current.is_empty() && cluster.is_some_and(|id| !id.is_empty() && *id != *self.current)
    }

    /// `failed` gave no good answer: confirm it before it gets more calls.
    pub(crate) fn suspect(&mut self, failed: &Leader) {
        if self.is_leader(failed) {
            self.suspect = true;
        }
    }

    /// `refused` answered that it does not lead: what others say of it is older than that. False
    /// when it was known already.
    pub(crate) fn refute(&mut self, refused: &Leader) -> bool {
        self.suspect(refused);
        let is_news = !self.is_refuted(&refused.address, refused.epoch);
        if is_news && refused.epoch > 0 {
            self.refuted.truncate(NODES_MAX - 1);
            let refused = (refused.address.clone(), refused.epoch);
            self.refuted.insert(0, refused);
        }
        is_news
    }

    /// Whether the leader as last known refused since.
    pub(crate) fn refuses(&self) -> bool {
        let refuted = |known: &Arc<Leader>| self.is_refuted(&known.address, known.epoch);
        self.leader.as_ref().is_some_and(refuted)
    }

    /// Whether `address` refused as the leader of `epoch`. Without epochs a refusal says nothing
    /// of what comes later.
    fn is_refuted(&self, address: &Address, epoch: u64) -> bool {
        let same = |(refused, of): &(Address, u64)| *of == epoch && refused == address;
        epoch > 0 && self.refuted.iter().any(same)
    }

    fn trust(&mut self, from: &Leader) {
        if self.is_leader(from) {
            self.suspect = false;
        }
    }

    fn is_leader(&self, other: &Leader) -> bool {
        self.leader
            .as_ref()
            .is_some_and(|known| known.epoch == other.epoch && known.address == other.address)
    }

    fn seen_in(&self, cluster: Option<&str>) -> u64 {
        if !self.is_foreign(cluster) {
            return self.seen;
        }
        let id = cluster.unwrap_or_default();
        self.others
            .iter()
            .find(|(known, _)| **known == *id)
            .map_or(0, |(_, seen)| *seen)
    }

    fn set(&mut self, epoch: u64, address: Address, mut node: Node) {
        if let Some(known) = &self.leader
            && known.address == address
            && node.id.is_empty()
        {
            node = known.node.clone();
        }
        self.suspect = false;
        self.refuted
            .retain(|(refused, of)| *of == epoch && *refused != address);
        self.nodes.retain(|node| *node != address);
        self.nodes.insert(0, address.clone());
        self.nodes.truncate(NODES_MAX);
        self.leader = Some(Arc::new(Leader {
            cluster: self.current.clone(),
            epoch,
            address,
            node,
        }));
    }

    /// The first id that is heard names the cluster that was nameless until then.
    fn adopt(&mut self, cluster: Option<&str>) {
        if let Some(id) = cluster
            && self.current.is_empty()
            && !id.is_empty()
        {
            self.current = id.into();
            self.leader = self.leader.take().map(|known| {
                Arc::new(Leader {
                    cluster: self.current.clone(),
                    epoch: known.epoch,
                    address: known.address.clone(),
                    node: known.node.clone(),
                })
            });
        }
    }

    /// Makes `cluster` the current one. Only another cluster's leader itself, or a discovery that
    /// found nobody of the current cluster, can cause a change.
    fn switch_to(&mut self, cluster: Option<&str>) {
        self.adopt(cluster);
        if !self.is_foreign(cluster) {
            return;
        }
        let id: Arc<str> = cluster.unwrap_or_default().into();
        tracing::warn!(from = %self.current, to = %id, "the cluster id has changed");
        let seen = self.seen_in(cluster);
        self.others.retain(|(known, _)| *known != id);
        let left = std::mem::replace(&mut self.current, id);
        self.others.push((left, self.seen));
        self.seen = seen;
        self.leader = None;
        self.suspect = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: i32) -> (Node, Address) {
        let address = Address::advertised("n", port).unwrap();
        (Node::at(&address), address)
    }

    fn table(cluster: Option<&str>, epoch: u64, port: i32) -> LeaderTable {
        let mut table = LeaderTable::default();
        let (node, address) = at(port);
        assert!(table.discovered(cluster, epoch, node, address, false));
        table
    }

    fn port(table: &LeaderTable) -> &str {
        table.route().unwrap().address.as_str()
    }

    #[test]
    fn an_older_or_equal_hint_never_moves_the_client() {
        let mut table = table(Some("c"), 5, 1);
        assert!(!table.hint(None, 4, Some(at(2))));
        assert!(!table.hint(None, 5, Some(at(2))));
        assert_eq!(port(&table), "n:1");
        assert!(table.hint(Some("c"), 6, Some(at(2))));
        assert_eq!((port(&table), table.seen()), ("n:2", 6));
    }

    #[test]
    fn hints_without_epoch_of_another_cluster_or_out_of_range_are_ignored() {
        let mut table = table(Some("c"), 5, 1);
        assert!(!table.hint(None, 0, Some(at(2))));
        assert!(!table.hint(Some("other"), 9, Some(at(2))));
        assert!(!table.hint(None, 1 << 53, Some(at(2))));
        assert_eq!((port(&table), table.seen()), ("n:1", 5));
    }

    #[test]
    fn a_hint_without_an_address_still_makes_older_replies_stale() {
        let mut table = table(Some("c"), 5, 1);
        let old = table.leader().unwrap().clone();
        assert!(!table.hint(None, 6, None));
        assert_eq!(table.reply(None, Some(5), &old), Verdict::Stale { seen: 6 });
        assert!(
            table.hint(None, 6, Some(at(2))),
            "the address arrives later"
        );
        assert!(table.moved_from(&old));
    }

    #[test]
    fn replies_of_an_older_epoch_are_stale_and_newer_ones_raise_the_bar() {
        let mut table = table(Some("c"), 5, 1);
        let leader = table.leader().unwrap().clone();
        assert_eq!(table.reply(Some("c"), Some(7), &leader), Verdict::Fresh);
        assert_eq!(table.seen(), 7);
        assert_eq!(
            table.reply(Some("c"), Some(6), &leader),
            Verdict::Stale { seen: 7 }
        );
        assert_eq!(table.leader().unwrap().epoch, 7);
        assert!(!table.moved_from(&leader), "the same node: nowhere to go");
    }

    #[test]
    fn a_suspect_leader_gets_no_calls_until_it_is_confirmed() {
        let mut table = table(Some("c"), 5, 1);
        let leader = table.leader().unwrap().clone();
        table.suspect(&leader);
        assert!(table.route().is_none() && table.leader().is_some());
        let (node, address) = at(1);
        assert!(table.discovered(None, 5, node, address, false));
        assert!(table.route().is_some());
        table.suspect(&leader);
        assert_eq!(table.reply(None, Some(5), &leader), Verdict::Fresh);
        assert!(table.route().is_some());
    }

    #[test]
    fn suspicion_of_a_leader_of_the_past_does_not_touch_the_present_one() {
        let mut table = table(Some("c"), 5, 1);
        let old = table.leader().unwrap().clone();
        assert!(table.hint(None, 6, Some(at(2))));
        table.suspect(&old);
        assert_eq!(port(&table), "n:2");
    }

    #[test]
    fn discovery_may_correct_the_address_within_an_epoch_but_not_go_back() {
        let mut table = table(None, 5, 1);
        let (node, address) = at(2);
        assert!(table.discovered(None, 5, node, address, false));
        assert_eq!(port(&table), "n:2");
        let (node, address) = at(3);
        assert!(!table.discovered(None, 4, node, address, false));
        assert_eq!(port(&table), "n:2");
    }

    #[test]
    fn epochs_are_kept_per_cluster_and_survive_a_return() {
        let mut table = table(Some("a"), 50, 1);
        let (node, address) = at(2);
        assert!(table.discovered(Some("b"), 3, node, address, false));
        assert_eq!((table.seen(), port(&table)), (3, "n:2"));
        let (node, address) = at(1);
        assert!(!table.discovered(Some("a"), 49, node, address, false));
        assert_eq!((table.seen(), port(&table)), (3, "n:2"), "nothing moved");
        let (node, address) = at(1);
        assert!(table.discovered(Some("a"), 50, node, address, false));
    }

    #[test]
    fn the_first_cluster_id_names_the_nameless_cluster() {
        let mut table = table(None, 5, 1);
        let leader = table.leader().unwrap().clone();
        assert_eq!(table.reply(Some("c"), Some(5), &leader), Verdict::Fresh);
        assert_eq!((&**table.cluster(), table.seen()), ("c", 5));
        assert_eq!(port(&table), "n:1");
    }

    #[test]
    fn who_refused_is_believed_again_by_its_own_word_or_a_newer_epoch_only() {
        let mut table = table(Some("c"), 5, 1);
        let leader = table.leader().unwrap().clone();
        assert!(table.refute(&leader) && !table.refute(&leader));
        let (node, address) = at(1);
        assert!(!table.discovered(None, 5, node.clone(), address.clone(), false));
        assert!(table.route().is_none(), "what others say is older");
        assert!(table.discovered(None, 5, node.clone(), address.clone(), true));
        assert!(table.route().is_some());
        table.refute(&leader);
        assert!(table.discovered(None, 6, node, address, false));
        assert_eq!((port(&table), table.seen()), ("n:1", 6));
    }

    #[test]
    fn servers_without_epochs_are_believed() {
        let mut table = table(None, 0, 1);
        let leader = table.leader().unwrap().clone();
        assert_eq!(table.reply(None, None, &leader), Verdict::Fresh);
        let (node, address) = at(2);
        assert!(table.discovered(None, 0, node, address, false));
        assert_eq!(port(&table), "n:2");
    }
}
