//! Times a prefix match of 1000 keys in an index of a million, and the memory per key.
//!
//! `cargo run --release -p kvcm-index --example match_keys`

#![expect(clippy::print_stdout, reason = "an example prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "a stopwatch, not a decision")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use kvcm_index::{BlockIndex, Grant, Location, LocationSink, State};

const CHAINS: usize = 1000;
const KEYS: usize = 1000;

/// Notes the runs, of which a reply is rendered.
#[derive(Default)]
struct Noted(Vec<(usize, Location)>);

impl LocationSink for Noted {
    fn run(&mut self, keys: &[i64], first: &Location) {
        self.0.push((keys.len(), *first));
    }

    fn placeholder(&mut self) {}
}

fn main() {
    let chains: Vec<Vec<i64>> = (0..CHAINS)
        .map(|chain| {
            (0..KEYS)
                .map(|at| mix((chain * KEYS + at) as u64) as i64)
                .collect()
        })
        .collect();
    let before = resident_bytes();
    let index = BlockIndex::new();
    let begun = Instant::now();
    for (counter, chain) in chains.iter().enumerate() {
        let grant = Grant {
            epoch: 1,
            counter: counter as u64,
        };
        let locations: Vec<_> = (0u32..)
            .zip(chain)
            .map(|(at, key)| (*key, Location::new(grant, at, 0, 0, State::Serving)))
            .collect();
        index.restore(&locations, 0);
    }
    let built = begun.elapsed();
    let bytes = resident_bytes().saturating_sub(before) / index.len();

    let serving = |list: &[Location]| list.iter().position(Location::is_serving);
    let mut sink = Noted::default();
    let mut times: Vec<Duration> = (0..50 * CHAINS)
        .map(|round| {
            let chain = &chains[round * 617 % CHAINS];
            sink.0.clear();
            let begun = Instant::now();
            let hits = index.match_prefix(chain, 1, serving, &mut sink);
            let time = begun.elapsed();
            black_box(&sink.0);
            assert_eq!(hits, KEYS);
            time
        })
        .collect();
    times.sort_unstable();
    let share = |percent| times[times.len() * percent / 100];
    println!(
        "{} keys restored in {built:?}, {bytes} resident bytes a key",
        index.len()
    );
    println!(
        "prefix match of {KEYS} keys: p10 {:?}, median {:?}, p90 {:?}",
        share(10),
        share(50),
        share(90)
    );
}

fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Resident memory of this process; 0 where /proc does not tell.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|text| text.parse().ok());
    pages.unwrap_or(0usize) * 4096
}
