//! The data storages, as the leader finds them.

use std::sync::Arc;

use kvcm_cache::storage::Reason;

use super::families::{Kind, Sink, Source, family};
use crate::{cluster::Cluster, reign::Reigns};

/// The data storages, as the leader finds them.
#[derive(Debug)]
pub(super) struct Storages {
    cluster: Arc<Cluster>,
    reigns: Arc<Reigns>,
}

impl Storages {
    pub(super) const fn new(cluster: Arc<Cluster>, reigns: Arc<Reigns>) -> Self {
        Self { cluster, reigns }
    }
}

impl Source for Storages {
    fn read(&self, sink: &mut dyn Sink) {
        let epoch = self.cluster.elector().gate().open_epoch();
        let Some(reign) = epoch.and_then(|epoch| self.reigns.current(epoch)) else {
            return;
        };
        let all = reign.storages.all();
        let (mut up, mut problems, mut hung, mut down) = (vec![], vec![], vec![], vec![]);
        let (mut bytes, mut files, mut deletions) = (vec![], vec![], vec![]);
        for (storage, status) in &all {
            let name = &*storage.name;
            let available = reign.storages.is_available(storage);
            up.push(([("storage", name)], f64::from(u8::from(available))));
            let Some(status) = status else {
                continue;
            };
            let found = status.problem.as_ref().map(|problem| problem.reason);
            for reason in Reason::ALL {
                let is = f64::from(u8::from(found == Some(reason)));
                problems.push(([("storage", name), ("reason", reason.as_str())], is));
            }
            hung.push(([("storage", name)], status.hung_threads as f64));
            down.push(([("storage", name)], status.times_down as f64));
            if let Some(space) = status.space {
                bytes.push(([("storage", name)], space.bytes_free as f64));
                files.push(([("storage", name)], space.files_free as f64));
            }
            let counts = &status.deletions;
            for (outcome, count) in [
                ("deleted", counts.deleted),
                ("absent", counts.absent),
                ("failed", counts.failed),
                ("unknown", counts.unknown),
            ] {
                let labels = [("storage", name), ("outcome", outcome)];
                deletions.push((labels, count as f64));
            }
        }
        let help = "1 when new blocks may go to the storage: enabled, and found to work";
        family(sink, Kind::Gauge, "storage_available", help, &up);
        let help = "1 for what the last checks of the storage found to be wrong";
        family(sink, Kind::Gauge, "storage_problem", help, &problems);
        let help = "Threads that hang in calls to the storage's file system";
        family(sink, Kind::Gauge, "storage_hung_threads", help, &hung);
        let help = "How often the storage was found to take no new blocks any more";
        family(sink, Kind::Counter, "storage_downs", help, &down);
        let help = "Bytes that are free in the storage's file system";
        family(sink, Kind::Gauge, "storage_free_bytes", help, &bytes);
        let help = "Files that can still be made in the storage's file system";
        family(sink, Kind::Gauge, "storage_free_files", help, &files);
        let help = "Files that were to be deleted, by what became of them";
        family(sink, Kind::Counter, "storage_deletions", help, &deletions);
    }
}
