//! Judging what nodes say about the leader.

use crate::{
    cluster_info::ClusterInfo,
    leader::{Leader, LeaderTable},
};

impl LeaderTable {
    /// Whether an answer settles the search. While the known leader is in doubt, only a newer
    /// epoch does, or another node where the server has no epochs.
    pub(crate) fn is_news(&self, info: &ClusterInfo, known: Option<&Leader>, doubt: bool) -> bool {
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
    pub(crate) fn best(&self, answers: Vec<ClusterInfo>) -> Option<ClusterInfo> {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::address::Address;

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
            nodes: Vec::new(),
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
