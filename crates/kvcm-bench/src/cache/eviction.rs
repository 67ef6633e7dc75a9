//! Eviction passes over a large index, and what lookups notice of them.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use kvcm_index::{BlockIndex, Counter, Cutoff, Grant, Location};

use crate::{
    cache::{
        Options,
        chains::{self, CHAIN, WRITE},
        report::{Eviction, Report},
    },
    samples::Samples,
};

/// Passes of a line, each of which lets one part in so many of all keys go.
const PASSES: usize = 4;
const PART: usize = 64;
/// Victims that go under one lock, as those of the cache manager.
const STEP: usize = 4096;
/// The seconds over which the last uses are spread.
const SECONDS: usize = 3600;

/// When the keys were used last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    /// Over an hour.
    Spread,
    /// All in one second, as after a recovery.
    AtOnce,
}

pub(super) fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    for keys in options.keys.iter().map(|keys| *keys as usize) {
        for used in [Used::Spread, Used::AtOnce] {
            report.add_eviction(&line(keys, used, options.time()));
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a stopwatch, not a decision")]
fn line(keys: usize, used: Used, quiet: Duration) -> Eviction {
    let chains = keys / CHAIN;
    let index = chains::index(chains, WRITE);
    let mut second = 0;
    if used == Used::Spread {
        for (number, chain) in chains::shuffled(chains, 0).take(chains).enumerate() {
            second = (1 + number * SECONDS / chains) as u32;
            look(&index, chain, CHAIN, second);
        }
    }
    let (stop, stopped) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut passes = Vec::new();
    let mut evicted = 0;
    // Lookups in a thread of their own, at first alone and then beside the passes.
    let (alone, beside) = thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut chains = chains::shuffled(chains, 1);
            [&stop, &stopped].map(|stop| {
                let mut times = Vec::new();
                while !stop.load(Ordering::Relaxed)
                    && let Some(chain) = chains.next()
                {
                    let begun = Instant::now();
                    look(&index, chain, WRITE, second);
                    times.push(begun.elapsed());
                }
                times.into_iter().collect::<Samples>()
            })
        });
        thread::sleep(quiet);
        stop.store(true, Ordering::Relaxed);
        for _ in 0..PASSES {
            let begun = Instant::now();
            evicted += pass(&index, keys / PART);
            passes.push(begun.elapsed());
        }
        stopped.store(true, Ordering::Relaxed);
        let [alone, beside] = looking.join().unwrap_or_default();
        (alone, beside)
    });
    Eviction {
        keys,
        used: match used {
            Used::Spread => "within an hour",
            Used::AtOnce => "in one second",
        },
        evicted: evicted / PASSES,
        passes: passes.into_iter().collect(),
        alone,
        beside,
    }
}

fn look(index: &BlockIndex, chain: usize, keys: usize, now_s: u32) {
    let mut query = Vec::with_capacity(keys);
    chains::query(&mut query, chain, keys, keys);
    let serving = |list: &[Location]| list.iter().position(Location::is_serving);
    index.match_prefix(&query, now_s, serving, &mut Counter::default());
}

/// Evicts the oldest `count` keys; returns how many went.
fn pass(index: &BlockIndex, count: usize) -> usize {
    let Some(mut cutoff) = Cutoff::of(&[index], count as u64, |_, _| 1) else {
        return 0;
    };
    let mut evicted = 0;
    let mut below = Some(usize::MAX);
    while let Some(from) = below {
        let mut victims: Vec<(i64, Grant)> = Vec::with_capacity(STEP);
        below = index.oldest(
            &mut cutoff,
            from,
            STEP,
            |_| 1,
            |key, list, _| {
                victims.extend(list.iter().map(|location| (key, location.grant())));
            },
        );
        victims.reverse();
        index.retire(victims.iter().copied(), |_, _| {});
        for together in victims.chunk_by(|a, b| a.1 == b.1) {
            let keys: Vec<i64> = together.iter().map(|(key, _)| *key).collect();
            index.release(&keys, together[0].1, |_, _| evicted += 1);
        }
    }
    evicted
}
