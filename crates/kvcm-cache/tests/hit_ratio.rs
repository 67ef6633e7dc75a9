//! What eviction costs: the hits of a cache that is too small, beside those of an exact LRU.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use common::{BLOCK, Fixture};
use kvcm_clock::ManualClock;
use kvcm_trace::{Generator, Request};

const REQUESTS: usize = 2_000;

/// An exact LRU of single blocks.
struct Exact {
    capacity: usize,
    now: u64,
    used: HashMap<i64, u64>,
    order: BTreeMap<u64, i64>,
}

impl Exact {
    fn touch(&mut self, key: i64) {
        self.now += 1;
        if let Some(before) = self.used.insert(key, self.now) {
            self.order.remove(&before);
        }
        self.order.insert(self.now, key);
    }

    /// Serves a request and returns how many of its first blocks were there. Of the blocks of one
    /// request the later ones count as the older ones, for none is worth anything without those
    /// before it.
    fn serve(&mut self, keys: &[i64]) -> usize {
        let hits = keys.iter().take_while(|key| self.used.contains_key(key));
        let hits = hits.count();
        keys.iter().rev().for_each(|key| self.touch(*key));
        while self.used.len() > self.capacity {
            let (_, oldest) = self.order.pop_first().unwrap();
            self.used.remove(&oldest);
        }
        hits
    }
}

/// Serves a request as engines do: looks up, writes what is missing.
async fn serve(f: &Fixture, keys: &[i64]) -> usize {
    let hits = f.prefix(keys).len();
    // Also the blocks behind the first gap are used; only the missing ones are written.
    f.write(keys).await;
    f.cache.reclaim().await.unwrap();
    f.delete_due().await;
    hits
}

fn keys(request: &Request) -> Vec<i64> {
    request.hash_ids.iter().map(|id| *id as i64).collect()
}

#[tokio::test]
async fn a_cache_that_is_too_small_hits_as_often_as_an_exact_lru() {
    let trace: Vec<Request> = Generator::new(7).take(REQUESTS).collect();
    let distinct: HashSet<u64> = trace.iter().flat_map(|r| r.hash_ids.clone()).collect();
    let asked: usize = trace.iter().map(|request| request.hash_ids.len()).sum();
    for percent in [10, 25, 50] {
        let capacity = distinct.len() * percent / 100;
        let mut exact = Exact {
            capacity,
            now: 0,
            used: HashMap::new(),
            order: BTreeMap::new(),
        };
        let clock = ManualClock::default();
        let f = Fixture::objects(Arc::new(clock.clone())).await;
        f.change_group(|group| {
            // The mark is one block above what the other may hold, and room for writes is above.
            group.quota.capacity = 2 * (capacity as i64 + 1) * BLOCK;
            let reclaim = &mut group.cache_config.reclaim_strategy;
            reclaim.trigger_strategy.used_percentage = 0.5;
            reclaim.delay_before_delete_ms = 0;
        })
        .await;
        let (mut ours, mut theirs) = (0, 0);
        let mut at_ms = 0;
        for request in &trace {
            clock.advance(Duration::from_millis(request.at_ms - at_ms));
            at_ms = request.at_ms;
            let keys = keys(request);
            ours += serve(&f, &keys).await;
            theirs += exact.serve(&keys);
        }
        assert!(f.cache.counts().keys <= capacity);
        let ratio = |hits: usize| 100.0 * hits as f64 / asked as f64;
        let behind = ratio(theirs) - ratio(ours);
        assert!(behind < 0.5, "{percent} %: {behind} points behind");
        assert!(ratio(ours) > 5.0, "nothing was there to compare");
    }
}
