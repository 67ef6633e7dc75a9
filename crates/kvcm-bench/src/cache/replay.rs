//! A trace against an index that is too small for it, beside an exact LRU.

use std::{
    fs::File,
    io::BufReader,
    time::{Duration, Instant},
};

use anyhow::Context;
use hashbrown::HashSet;
use kvcm_index::{BlockIndex, Counter, Cutoff, Grant, Location};
use kvcm_trace::{Expansion, Generator, Reader, Request};

use crate::cache::{
    Options,
    anywhere::Anywhere,
    lru::Lru,
    report::{Replay, Report},
};

/// Shares of the distinct blocks that are kept, in percent.
const CAPACITIES: [usize; 4] = [10, 25, 50, 100];
/// One part in so many of the capacity is freed when it is full, as a reclaimer frees down to its
/// low mark.
const SLACK: usize = 64;
/// Victims that go under one lock.
const BATCH: usize = 1024;

pub(super) fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let requests = requests(options)?;
    for expand in options.expand.iter().copied() {
        let expansion = Expansion::new(expand.into())?;
        let mut distinct = HashSet::new();
        for request in &requests {
            distinct.extend(expansion.keys(&request.hash_ids));
        }
        let distinct = distinct.len();
        for percent in CAPACITIES {
            let capacity = (distinct * percent / 100).max(1);
            report.add_replay(&replay(&requests, expansion, capacity, percent, distinct)?);
        }
    }
    Ok(())
}

fn requests(options: &Options) -> anyhow::Result<Vec<Request>> {
    let most = options.requests as usize;
    let Some(path) = &options.trace else {
        return Ok(Generator::new(1).take(most).collect());
    };
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let requests = Reader::new(BufReader::new(file)).take(most);
    let requests: Result<Vec<_>, _> = requests.collect();
    requests.with_context(|| format!("cannot read {}", path.display()))
}

#[expect(clippy::disallowed_methods, reason = "a stopwatch, not a decision")]
fn replay(
    requests: &[Request],
    expansion: Expansion,
    capacity: usize,
    percent: usize,
    distinct: usize,
) -> anyhow::Result<Replay> {
    let mut cache = Cache::new(capacity);
    let mut lru = Lru::new(capacity);
    let mut replay = Replay {
        tokens: kvcm_trace::TOKENS_PER_BLOCK / expansion.keys_per_id(),
        percent,
        distinct,
        requests: requests.len(),
        ..Replay::default()
    };
    let mut lru_time = Duration::ZERO;
    for request in requests {
        let keys = expansion.keys(&request.hash_ids);
        replay.keys += keys.len();
        let now_s = u32::try_from(request.at_ms / 1000)?;
        let begun = Instant::now();
        replay.hits += cache.request(&keys, now_s)?;
        replay.time += begun.elapsed();
        let begun = Instant::now();
        replay.lru_hits += lru.request(&keys);
        lru_time += begun.elapsed();
    }
    replay.lru_time = lru_time;
    replay.evicted = cache.evicted;
    Ok(replay)
}

/// An index with a limit.
struct Cache {
    index: BlockIndex,
    capacity: usize,
    grants: u64,
    evicted: usize,
}

impl Cache {
    fn new(capacity: usize) -> Self {
        Self {
            index: BlockIndex::new(),
            capacity,
            grants: 0,
            evicted: 0,
        }
    }

    /// As an engine does: finds the prefix, writes what is missing. Returns how many keys were
    /// found.
    fn request(&mut self, keys: &[i64], now_s: u32) -> anyhow::Result<usize> {
        let serving = |list: &[Location]| list.iter().position(Location::is_serving);
        let mut counter = Counter::default();
        let hits = self.index.match_prefix(keys, now_s, serving, &mut counter);
        self.grants += 1;
        let grant = Grant {
            epoch: 1,
            counter: self.grants,
        };
        let rest = &keys[hits..];
        let new = self
            .index
            .reserve(rest, grant, usize::MAX, now_s, &mut Anywhere)?;
        let new: Vec<_> = new.iter().map(|at| rest[*at as usize]).collect();
        self.index.confirm(&new, grant);
        self.index.commit(&new, grant, now_s, |_| true, |_, _| {});
        let held = self.index.len();
        if held > self.capacity {
            self.evict(held - self.capacity + self.capacity / SLACK);
        }
        Ok(hits)
    }

    fn evict(&mut self, count: usize) {
        let one = |_: &[Location]| 1;
        let Some(mut cutoff) = Cutoff::of(&[&self.index], count as u64, |_, _| 1) else {
            return;
        };
        let mut below = Some(usize::MAX);
        while let Some(from) = below {
            let mut victims = Vec::with_capacity(BATCH);
            below = self
                .index
                .oldest(&mut cutoff, from, BATCH, one, |key, list, _| {
                    victims.extend(list.iter().map(|location| (key, location.grant())));
                });
            // As they were written, and what was written together at once, as the cache manager
            // does it.
            victims.reverse();
            self.index.retire(victims.iter().copied(), |_, _| {});
            for together in victims.chunk_by(|a, b| a.1 == b.1) {
                let keys: Vec<i64> = together.iter().map(|(key, _)| *key).collect();
                self.index
                    .release(&keys, together[0].1, |_, _| self.evicted += 1);
            }
        }
    }
}
