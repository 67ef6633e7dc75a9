//! What happens to blocks in the cache of a leader.

use std::{collections::BTreeMap, ops::Add, sync::Arc};

use kvcm_cache::{Activity, CacheManager};

use super::families::{Kind, Sink, Source, family};
use crate::{cluster::Cluster, reign::Reigns};

/// What happens to blocks in the cache of a leader. Counters begin with its reign: what was before
/// is another leader's.
#[derive(Debug)]
pub(super) struct Cache {
    cluster: Arc<Cluster>,
    reigns: Arc<Reigns>,
}

impl Cache {
    pub(super) const fn new(cluster: Arc<Cluster>, reigns: Arc<Reigns>) -> Self {
        Self { cluster, reigns }
    }
}

impl Source for Cache {
    fn read(&self, sink: &mut dyn Sink) {
        let epoch = self.cluster.elector().gate().open_epoch();
        let Some(reign) = epoch.and_then(|epoch| self.reigns.current(epoch)) else {
            return;
        };
        let caches = reign.caches.all();
        keys(&caches, sink);
        bytes(&caches, sink);
        let pending: usize = caches.iter().map(|cache| cache.deletions_pending()).sum();
        let help = "Blocks on their way out whose bytes are not deleted yet";
        sink.gauge("cache_deletions_pending", help, pending as f64);
        let done = caches.iter().map(|cache| cache.activity());
        activity(&done.fold(Activity::default(), Add::add), sink);
        let records: Vec<_> = caches.iter().map(|cache| cache.request_records()).collect();
        let bytes: usize = records.iter().map(|records| records.bytes).sum();
        let help = "Memory of the records of calls with a request id";
        sink.gauge("cache_request_records_bytes", help, bytes as f64);
        let early = records.iter().map(|records| records.forgotten_early).sum();
        let help =
            "Records of calls with a request id that were forgotten before their ten minutes";
        sink.counter("cache_request_records_forgotten", help, early);
    }
}

fn keys(caches: &[Arc<CacheManager>], sink: &mut dyn Sink) {
    let mut keys: BTreeMap<(String, String), usize> = BTreeMap::new();
    for blocks in caches.iter().flat_map(|cache| cache.instance_usage()) {
        *keys.entry((blocks.group, blocks.instance)).or_default() += blocks.keys;
    }
    let samples = keys.iter().map(|((group, instance), keys)| {
        let labels = [
            ("instance_group", group.as_str()),
            ("instance_id", instance.as_str()),
        ];
        (labels, *keys as f64)
    });
    let samples: Vec<_> = samples.collect();
    let help = "Block keys of an instance, in any state";
    family(sink, Kind::Gauge, "cache_keys", help, &samples);
}

fn bytes(caches: &[Arc<CacheManager>], sink: &mut dyn Sink) {
    let mut bytes: BTreeMap<(String, &str, &str), u64> = BTreeMap::new();
    for usage in caches.iter().flat_map(|cache| cache.group_usage()) {
        for (state, more) in [("staying", usage.staying), ("leaving", usage.leaving)] {
            let of = (usage.group.clone(), usage.kind.as_str(), state);
            *bytes.entry(of).or_default() += more;
        }
    }
    let samples = bytes.iter().map(|((group, kind, state), bytes)| {
        let labels = [
            ("instance_group", group.as_str()),
            ("storage_type", *kind),
            ("state", *state),
        ];
        (labels, *bytes as f64)
    });
    let samples: Vec<_> = samples.collect();
    let help = "Bytes granted to a group in a kind of storage; leaving: to be deleted soon";
    family(sink, Kind::Gauge, "cache_bytes", help, &samples);
}

fn activity(activity: &Activity, sink: &mut dyn Sink) {
    let mut counters = |name: &str, help: &str, label: &'static str, values: &[(&str, u64)]| {
        let samples = values
            .iter()
            .map(|(value, count)| ([(label, *value)], *count as f64));
        let samples: Vec<_> = samples.collect();
        family(sink, Kind::Counter, name, help, &samples);
    };
    counters(
        "cache_evictions",
        "Blocks evicted, by the limit whose mark was reached",
        "limit",
        &[
            ("bytes", activity.evicted_bytes),
            ("type", activity.evicted_type),
            ("keys", activity.evicted_keys),
        ],
    );
    counters(
        "cache_deletions",
        "Blocks whose bytes were deleted, failed to be (each try), or were given up",
        "result",
        &[
            ("deleted", activity.deleted),
            ("failed", activity.delete_failures),
            ("forgotten", activity.forgotten),
        ],
    );
    counters(
        "cache_sessions",
        "Write sessions, by what became of them",
        "event",
        &[
            ("started", activity.sessions_started),
            ("finished", activity.sessions_finished),
            ("expired", activity.sessions_expired),
            ("rejected", activity.sessions_rejected),
        ],
    );
    let help = "Blocks that were written";
    sink.counter("cache_blocks_added", help, activity.added);
    let help = "Blocks that callers removed";
    sink.counter("cache_blocks_removed", help, activity.removed);
    let help = "Blocks that a write session ended without having written";
    sink.counter("cache_blocks_unwritten", help, activity.unwritten);
}
