//! Keys that were looked up, and keys that were found.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::families::{Sink, Source};

/// Keys that were looked up by GetCacheLocation and GetCacheLocationLen.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    asked: AtomicU64,
    found: AtomicU64,
}

impl Lookups {
    /// Counts one lookup of `asked` keys of which `found` can be read.
    pub(crate) fn count(&self, asked: usize, found: usize) {
        self.asked.fetch_add(asked as u64, Relaxed);
        self.found.fetch_add(found as u64, Relaxed);
    }
}

impl Source for Lookups {
    fn read(&self, sink: &mut dyn Sink) {
        let found = self.found.load(Relaxed);
        let help = "Block keys that lookups asked for; the hit ratio is lookup_hits by this";
        sink.counter("lookup_keys", help, self.asked.load(Relaxed).max(found));
        sink.counter("lookup_hits", "Block keys that lookups found", found);
    }
}
