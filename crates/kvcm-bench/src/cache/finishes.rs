//! Acknowledged finishes over durable journals, beside what disk and server do alone.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;

use crate::{
    cache::{
        Options, StoreKind,
        chains::{self, CHAIN, WRITE},
        node::{self, Node},
        plain_redis::PlainRedis,
        recovery::fill,
        report::{Finishes, Report},
        stores::{FSYNC_ALWAYS, NO_FILES, Store},
    },
    samples::Samples,
};

/// Sessions that a caller has ready before the finishes are timed.
const READY: usize = 16;
/// About the bytes of one finish in the journal.
const BYTES: usize = 100;

pub(super) async fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let place = node::place().await?;
    for kind in options.stores.iter().copied() {
        let servers: &[(&str, &[&str])] = match kind {
            StoreKind::Local => &[("local", &[])],
            StoreKind::Redis => &[("redis", NO_FILES), ("redis, AOF always", FSYNC_ALWAYS)],
        };
        for (name, args) in servers.iter().copied() {
            let store = Store::start(kind, args, options)?;
            let journal = store.journal("cache")?;
            let node = Arc::new(Node::open(&place, &*journal, 1).await?);
            let mut next = 0;
            for callers in options.callers.iter().map(|callers| usize::from(*callers)) {
                let (rate, samples) = finishes(&node, callers, &mut next, options).await?;
                let (bare, msets) = match kind {
                    StoreKind::Local => (store.bare_disk(BYTES, options)?, None),
                    StoreKind::Redis => {
                        let redis = PlainRedis::new(store.redis()?)?;
                        let scripts = redis.evalsha(BYTES, callers, options.time()).await?;
                        let msets = redis.msets(WRITE, callers, options.time()).await?;
                        (scripts, Some(msets))
                    }
                };
                report.add_finishes(&Finishes {
                    store: name,
                    callers,
                    rate,
                    samples,
                    bare: Some(bare),
                    msets,
                });
            }
            if let Some(callers) = options.callers.get(options.callers.len() / 2) {
                let node = Node::open(&place, &*store.journal("beside")?, 1).await?;
                let keys = options.recovered_keys as usize;
                fill(&node, keys).await?;
                let (node, callers) = (Arc::new(node), usize::from(*callers));
                let mut next = keys.div_ceil(WRITE);
                let measuring = finishes(&node, callers, &mut next, options);
                let (rate, samples) = tokio::select! {
                    measured = measuring => measured?,
                    error = snapshots(&node) => return Err(error),
                };
                report.add_finishes(&Finishes {
                    store: &format!("{name}, snapshots"),
                    callers,
                    rate,
                    samples,
                    bare: None,
                    msets: None,
                });
            }
        }
    }
    Ok(())
}

/// Writes one snapshot after the other.
async fn snapshots(node: &Node) -> anyhow::Error {
    loop {
        if let Err(error) = node.cache.snapshot().await {
            return error.into();
        }
    }
}

/// Finishes in a second, and how long each took.
#[expect(clippy::disallowed_methods, reason = "a stopwatch, not a decision")]
async fn finishes(
    node: &Arc<Node>,
    callers: usize,
    next: &mut usize,
    options: &Options,
) -> anyhow::Result<(f64, Samples)> {
    let mut spent = Duration::ZERO;
    let mut times = Vec::new();
    while spent < options.time() {
        let mut sessions = Vec::new();
        for _ in 0..callers {
            let starts = (0..READY).map(|_| {
                let first = *next * WRITE;
                *next += 1;
                async move {
                    let numbers = first..first + WRITE;
                    let keys: Vec<_> = numbers
                        .map(|at| chains::key(at / CHAIN, at % CHAIN))
                        .collect();
                    node.start(&keys).await
                }
            });
            sessions.push(try_join_all(starts.collect::<Vec<_>>()).await?);
        }
        let begun = Instant::now();
        let tasks: Vec<_> = sessions
            .into_iter()
            .map(|sessions| {
                let node = Arc::clone(node);
                tokio::spawn(async move {
                    let mut times = Vec::with_capacity(sessions.len());
                    for session in sessions {
                        let started = Instant::now();
                        node.finish(&session, WRITE).await?;
                        times.push(started.elapsed());
                    }
                    anyhow::Ok(times)
                })
            })
            .collect();
        for task in tasks {
            times.extend(task.await??);
        }
        spent += begun.elapsed();
    }
    let rate = times.len() as f64 / spent.as_secs_f64();
    Ok((rate, times.into_iter().collect()))
}
