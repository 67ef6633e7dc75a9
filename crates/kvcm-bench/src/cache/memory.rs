//! Bytes per key, counted by the allocator.

use std::mem;

use hashbrown::HashMap;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};

use crate::cache::{
    Options,
    chains::{self, CHAIN, WRITE},
    report::Report,
};

pub(super) fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    for keys in options.keys.iter().map(|keys| *keys as usize) {
        let chains = keys / CHAIN;
        let map = || {
            let all = (0..chains).flat_map(|chain| (0..CHAIN).map(move |at| (chain, at)));
            all.map(|(chain, at)| (chains::key(chain, at), 1))
                .collect::<HashMap<i64, u32>>()
        };
        let held = [
            (
                "index, written 1000 at a time",
                bytes(|| chains::index(chains, CHAIN)),
            ),
            (
                "index, written 128 at a time",
                bytes(|| chains::index(chains, WRITE)),
            ),
            (
                "index, written 8 at a time",
                bytes(|| chains::index(chains, 8)),
            ),
            (
                "index, written one by one",
                bytes(|| chains::index(chains, 1)),
            ),
            ("hashbrown, key to number", bytes(map)),
        ];
        for (what, bytes) in held {
            report.add_memory(keys, what, bytes as f64 / (chains * CHAIN) as f64);
        }
    }
    Ok(())
}

/// What is still allocated when it was made.
fn bytes<T>(make: impl FnOnce() -> T) -> usize {
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    let made = make();
    let change = region.change();
    mem::drop(made);
    // Reallocations are counted by their difference, which may be negative.
    let held = change.bytes_allocated as isize - change.bytes_deallocated as isize;
    held.max(0).cast_unsigned()
}
