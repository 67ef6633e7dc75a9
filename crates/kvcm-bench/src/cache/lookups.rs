//! Prefix matches in the index, beside the same in maps.

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use kvcm_index::{BlockIndex, Location, LocationSink};

use crate::{
    cache::{
        Options,
        chains::{self, CHAIN, Found, QUERIES, WRITE},
        maps::{Bare, Open, Prefix},
        report::{Lookup, Report},
    },
    samples::Samples,
};

/// Takes turns this often.
const TURNS: u32 = 5;

pub(super) fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    for keys in options.keys.iter().map(|keys| *keys as usize) {
        let chains = keys / CHAIN;
        let all = || (0..chains).flat_map(|chain| (0..CHAIN).map(move |at| chains::key(chain, at)));
        let index = Index(chains::index(chains, WRITE));
        let bare = Bare(all().zip(1..).collect());
        let open = Open::new(all().collect::<Vec<_>>().into_iter());
        let contenders: [&dyn Prefix; 3] = [&index, &bare, &open];
        for length in [128, 1000] {
            for found in Found::ALL {
                for threads in options.threads.iter().map(|threads| usize::from(*threads)) {
                    let mut times = [(); 3].map(|()| Vec::new());
                    for turn in 0..TURNS {
                        for (contender, times) in contenders.iter().zip(&mut times) {
                            let run = Run {
                                chains,
                                length,
                                found: found.of(length),
                                time: options.time() / TURNS,
                                begin: turn as usize,
                            };
                            times.extend(run.threads(*contender, threads)?);
                        }
                    }
                    report.add_lookup(Lookup {
                        keys,
                        length,
                        found: found.name(),
                        threads,
                        times: times.map(|times| times.into_iter().collect::<Samples>()),
                    });
                }
            }
        }
    }
    Ok(())
}

/// One turn of one contender.
struct Run {
    chains: usize,
    length: usize,
    found: usize,
    time: Duration,
    begin: usize,
}

impl Run {
    /// The time of one query, as often as it was taken, over all threads.
    fn threads(&self, contender: &dyn Prefix, threads: usize) -> anyhow::Result<Vec<Duration>> {
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || self.thread(contender, thread)))
                .collect();
            let mut times = Vec::new();
            for thread in running {
                let ended = thread.join();
                times.extend(ended.map_err(|_| anyhow::anyhow!("a thread panicked"))??);
            }
            Ok(times)
        })
    }

    #[expect(clippy::disallowed_methods, reason = "a stopwatch, not a decision")]
    fn thread(&self, contender: &dyn Prefix, thread: usize) -> anyhow::Result<Vec<Duration>> {
        let mut queries = [(); QUERIES].map(|()| Vec::with_capacity(self.length));
        let mut chains = chains::shuffled(self.chains, thread).skip(self.begin * 7919);
        let mut found = Vec::with_capacity(self.length);
        let mut times = Vec::new();
        let begun = Instant::now();
        while times.is_empty() || begun.elapsed() < self.time {
            for (query, chain) in queries.iter_mut().zip(&mut chains) {
                chains::query(query, chain, self.length, self.found);
            }
            let started = Instant::now();
            let mut hits = 0;
            for query in &queries {
                hits += contender.prefix(black_box(query), &mut found);
            }
            times.push(started.elapsed() / QUERIES as u32);
            let expected = self.found * QUERIES;
            ensure!(hits == expected, "{hits} keys were found, not {expected}");
        }
        Ok(times)
    }
}

/// The index with a sink that notes the runs, of which a reply is rendered.
struct Index(BlockIndex);

impl Prefix for Index {
    fn prefix(&self, keys: &[i64], _found: &mut Vec<u32>) -> usize {
        let mut runs = Runs(Vec::with_capacity(keys.len() / WRITE + 2));
        let serving = |list: &[Location]| list.iter().position(Location::is_serving);
        // Some second later than the writes: the first use of a turn writes, the others read.
        let hits = self.0.match_prefix(keys, 1, serving, &mut runs);
        black_box(&runs.0);
        hits
    }
}

struct Runs(Vec<(u32, Location)>);

impl LocationSink for Runs {
    fn run(&mut self, keys: &[i64], first: &Location) {
        self.0.push((keys.len() as u32, *first));
    }

    fn placeholder(&mut self) {}
}
