//! This node, the others, and what a leader keeps in memory.

use std::sync::Arc;

use kvcm_cache::Snapshots;

use super::families::{Kind, Sink, Source};
use crate::{
    cluster::Cluster,
    node::VERSION,
    reign::{Reign, Reigns},
};

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
        let counts = reign.caches.counts();
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
        let (open, closed) = reign.caches.open_and_closed();
        let samples: [(&[_], f64); 2] = [
            (&[("state", "open")], open as f64),
            (&[("state", "closed")], closed as f64),
        ];
        let help = "Stores of indexes; a closed one is tried again, and its groups have no index";
        sink.family(Kind::Gauge, "cache_stores", help, &samples);
        let recovery = reign.caches.recovery();
        let help = "How long the recovery of the slowest index of this reign took";
        sink.gauge("cache_recovery_seconds", help, recovery.took.as_secs_f64());
        let help = "Operations that the recovery of this reign left out: of instances that are \
                    not registered any more, or not understood";
        sink.gauge("cache_recovery_skipped", help, recovery.skipped as f64);
        let help = "Parts of the indexes' journals that are damaged and were left out";
        sink.gauge("cache_recovery_damaged", help, recovery.damaged as f64);
        journals(&reign, sink);
    }
}

/// The journals of the indexes.
fn journals(reign: &Reign, sink: &mut dyn Sink) {
    let (mut all, mut log) = (Snapshots::default(), 0);
    for cache in reign.caches.all() {
        let snapshots = cache.snapshots();
        all.written += snapshots.written;
        all.failed += snapshots.failed;
        all.bytes += snapshots.bytes;
        log += cache.log_size().bytes;
    }
    let samples: [(&[_], f64); 2] = [
        (&[("result", "written")], all.written as f64),
        (&[("result", "failed")], all.failed as f64),
    ];
    let help = "Snapshots of indexes in this reign, by what became of them";
    sink.family(Kind::Gauge, "cache_snapshots", help, &samples);
    let help = "Bytes of the last snapshots of all indexes";
    sink.gauge("cache_snapshot_bytes", help, all.bytes as f64);
    let help = "Bytes that the journals of all indexes hold since their last snapshots";
    sink.gauge("cache_log_bytes", help, log as f64);
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
