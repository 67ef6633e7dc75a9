//! How long a promotion reads its journal, beside a plain reload from Redis.

use std::{
    process,
    time::{Duration, Instant},
};

use anyhow::ensure;
use futures_util::{TryStreamExt, stream};

use crate::{
    cache::{
        Options, StoreKind,
        chains::{self, CHAIN, WRITE},
        node::{self, Node},
        plain_redis::PlainRedis,
        report::{Recovery, Report},
        stores::{NO_FILES, Store},
    },
    machine,
};

/// Writes that are under way at a time while a journal is filled.
const WRITERS: usize = 64;

#[expect(clippy::disallowed_methods, reason = "a stopwatch, not a decision")]
pub(super) async fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let keys = options.recovered_keys as usize;
    let place = node::place().await?;
    for kind in options.stores.iter().copied() {
        let store = Store::start(kind, NO_FILES, options)?;
        let journal = store.journal("cache")?;
        let node = Node::open(&place, &*journal, 1).await?;
        fill(&node, keys).await?;
        drop(node);
        for (epoch, what) in [(2, "records"), (3, "snapshot")] {
            let busy = machine::processor_time(process::id());
            let begun = Instant::now();
            let node = Node::open(&place, &*journal, epoch).await?;
            let time = begun.elapsed();
            let busy_after = machine::processor_time(process::id());
            let found = node.recovered.counts.keys;
            ensure!(found == keys, "{found} keys were recovered, not {keys}");
            report.add_recovery(Recovery {
                store: kind.name(),
                what,
                keys,
                time,
                busy: busy_after
                    .zip(busy)
                    .map(|(after, before)| after.saturating_sub(before)),
                goal: Some(goal(kind)),
            });
            node.cache.snapshot().await?;
        }
        if kind == StoreKind::Redis {
            let plain = Store::start(kind, NO_FILES, options)?;
            let redis = PlainRedis::new(plain.redis()?)?;
            redis.fill(keys).await?;
            report.add_recovery(Recovery {
                store: kind.name(),
                what: "plain SCAN and MGET into a map",
                keys,
                time: redis.reload(keys).await?,
                busy: None,
                goal: None,
            });
        }
    }
    Ok(())
}

/// Writes so many keys, from the first one on.
pub(super) async fn fill(node: &Node, keys: usize) -> anyhow::Result<()> {
    stream::iter((0..keys).step_by(WRITE).map(anyhow::Ok))
        .try_for_each_concurrent(WRITERS, |first| {
            let numbers = first..keys.min(first + WRITE);
            let keys: Vec<_> = numbers
                .map(|at| chains::key(at / CHAIN, at % CHAIN))
                .collect();
            async move {
                let session = node.start(&keys).await?;
                node.finish(&session, keys.len()).await
            }
        })
        .await
}

/// For a million keys.
fn goal(kind: StoreKind) -> Duration {
    Duration::from_millis(match kind {
        StoreKind::Local => 200,
        StoreKind::Redis => 1000,
    })
}
