//! This node, the others, and what a leader keeps in memory.

use std::sync::Arc;

use super::families::{Kind, Sink, Source};
use crate::{cluster::Cluster, node::VERSION, reign::Reigns};

/// This node, the others, and what a leader keeps in memory.
#[derive(Debug)]
pub(super) struct NodeState {
    cluster: Arc<Cluster>,
    reigns: Arc<Reigns>,
}

impl NodeState {
    pub(super) const fn new(cluster: Arc<Cluster>, reigns: Arc<Reigns>) -> Self {
        Self { cluster, reigns }
    }

    fn members(&self, sink: &mut dyn Sink) {
        let (mut ready, mut unready, mut expired) = (0, 0, 0);
        for (member, alive) in self.cluster.members().roster().at(self.cluster.now()) {
            match (alive, member.record.ready) {
                (false, _) => expired += 1,
                (true, true) => ready += 1,
                (true, false) => unready += 1,
            }
        }
        let samples: [(&[_], f64); 3] = [
            (&[("state", "ready")], f64::from(ready)),
            (&[("state", "unready")], f64::from(unready)),
            (&[("state", "expired")], f64::from(expired)),
        ];
        let help = "Nodes of the cluster as this one sees them";
        sink.family(Kind::Gauge, "members", help, &samples);
    }

    fn index(&self, sink: &mut dyn Sink) {
        // Only a leader has an index; what it was before says nothing.
        let epoch = self.cluster.elector().gate().open_epoch();
        let Some(reign) = epoch.and_then(|epoch| self.reigns.current(epoch)) else {
            return;
        };
        let counts = reign.cache.counts();
        sink.gauge(
            "index_keys",
            "Block keys in the index, in any state",
            counts.keys as f64,
        );
        let help = "Bytes granted in data storages, in use or not yet confirmed";
        sink.gauge("index_bytes", help, counts.bytes as f64);
        let help = "Instances that have blocks";
        sink.gauge("index_instances", help, counts.instances as f64);
        sink.gauge(
            "write_sessions",
            "Write sessions that are open",
            counts.sessions as f64,
        );
    }
}

impl Source for NodeState {
    fn read(&self, sink: &mut dyn Sink) {
        let build: [(&[_], f64); 1] = [(&[("version", VERSION)], 1.0)];
        sink.family(
            Kind::Gauge,
            "build_info",
            "1, with the version of this node",
            &build,
        );
        let ready = self.cluster.ready().is_ok();
        let help = "1 when this node can answer who leads and could become leader";
        sink.gauge("ready", help, f64::from(u8::from(ready)));
        self.members(sink);
        self.index(sink);
    }
}
