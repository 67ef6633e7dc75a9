//! Who led, and when.

use std::{collections::BTreeMap, sync::Arc};

use kvcm_clock::Moment;

use super::History;

/// The time of one epoch, as engines saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reign {
    /// The leader's epoch.
    pub epoch: u64,
    /// The nodes that answered under it: one, or the epoch had two owners.
    pub nodes: Vec<Arc<str>>,
    /// When its first answer came.
    pub first: Moment,
    /// When its last answer came.
    pub last: Moment,
    /// Answers under it.
    pub calls: u64,
    /// Acknowledged writes under it, in sessions.
    pub writes: u64,
}

/// The reigns that engines saw, oldest epoch first.
pub fn reigns(history: &History) -> Vec<Reign> {
    let mut reigns: BTreeMap<u64, Reign> = BTreeMap::new();
    for call in &history.calls {
        let reign = reigns.entry(call.epoch).or_insert_with(|| Reign {
            epoch: call.epoch,
            nodes: Vec::new(),
            first: call.returned,
            last: call.returned,
            calls: 0,
            writes: 0,
        });
        if !reign.nodes.contains(&call.node) {
            reign.nodes.push(Arc::clone(&call.node));
        }
        reign.first = reign.first.min(call.returned);
        reign.last = reign.last.max(call.returned);
        reign.calls += 1;
    }
    for (call, _) in history.writes() {
        if let Some(reign) = reigns.get_mut(&call.epoch) {
            reign.writes += 1;
        }
    }
    reigns.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            What,
            tests::{at, call, history, written},
        },
        *,
    };

    #[test]
    fn reigns_are_ordered_and_name_every_node_that_answered() {
        let mut other = call(4, 6, 7, What::Other);
        other.node = "impostor".into();
        let calls = [
            call(7, 8, 9, What::Other),
            call(4, 0, 3, written(&[1])),
            call(4, 1, 2, What::Other),
            other,
        ];
        let reigns = reigns(&history(calls));
        assert_eq!(
            reigns.iter().map(|reign| reign.epoch).collect::<Vec<_>>(),
            [4, 7]
        );
        let first = Reign {
            epoch: 4,
            nodes: vec!["node-of-4".into(), "impostor".into()],
            first: at(2),
            last: at(7),
            calls: 3,
            writes: 1,
        };
        assert_eq!(reigns[0], first);
    }
}
