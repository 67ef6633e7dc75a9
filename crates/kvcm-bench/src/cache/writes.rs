//! Start and finish of a write in memory: what the cache manager itself costs.

use std::time::Instant;

use hashbrown::HashMap;
use kvcm_index::{BlockIndex, Grant};
use kvcm_journal::MemoryJournal;

use crate::cache::{
    Options,
    anywhere::Anywhere,
    chains::{self, CHAIN, WRITE},
    node::{self, Node},
    report::{Report, Write},
};

/// Takes turns this often.
const TURNS: u32 = 5;
/// After so many writes all directories of an instance are there, which are 4096 for each spec.
const DIRECTORIES: usize = 40_000;

#[expect(clippy::disallowed_methods, reason = "a stopwatch, not a decision")]
pub(super) async fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let place = node::place().await?;
    // Without content: what it keeps is a copy of each batch, which is not the cache's cost.
    let journal = MemoryJournal::without_content("cache");
    let node = Node::open(&place, &journal, 1).await?;
    let index = BlockIndex::new();
    let mut map = HashMap::new();
    let mut times = [(); 3].map(|()| Vec::new());
    let mut next = 0;
    for number in 0..DIRECTORIES {
        // Below those of chains, which are hashes.
        let key = i64::try_from(number)?;
        let session = node.start(&[key]).await?;
        node.finish(&session, 1).await?;
    }
    for _ in 0..TURNS {
        let turn = options.time() / TURNS;
        let begun = Instant::now();
        while begun.elapsed() < turn {
            let keys = keys(&mut next);
            let started = Instant::now();
            let session = node.start(&keys).await?;
            node.finish(&session, WRITE).await?;
            times[0].push(started.elapsed());
        }
        let begun = Instant::now();
        while begun.elapsed() < turn {
            let keys = keys(&mut next);
            let counter = next as u64;
            let started = Instant::now();
            let grant = Grant { epoch: 1, counter };
            index.reserve(&keys, grant, usize::MAX, 0, &mut Anywhere)?;
            index.confirm(&keys, grant);
            index.commit(&keys, grant, 0, |_| true, |_, _| {});
            times[1].push(started.elapsed());
        }
        let begun = Instant::now();
        while begun.elapsed() < turn {
            let keys = keys(&mut next);
            let started = Instant::now();
            for state in [1u32, 2] {
                for key in &keys {
                    map.insert(*key, state);
                }
            }
            times[2].push(started.elapsed());
        }
    }
    let [manager, index, map] = times.map(|times| times.into_iter().collect());
    for (what, samples) in [
        ("cache manager, start and finish", &manager),
        ("index: reserve, confirm, commit", &index),
        ("hashbrown, insert and overwrite", &map),
    ] {
        report.add_write(&Write {
            what,
            samples,
            bare: &map,
        });
    }
    Ok(())
}

/// Keys that were not written yet.
fn keys(next: &mut usize) -> Vec<i64> {
    let first = *next * WRITE;
    *next += 1;
    let numbers = first..first + WRITE;
    numbers
        .map(|at| chains::key(at / CHAIN, at % CHAIN))
        .collect()
}
