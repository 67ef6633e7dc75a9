//! Redis used as a plain store of locations: what the journals are measured beside.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::ensure;
use futures_util::future::try_join_all;
use kvcm_testkit::RedisServer;
use redis::{Client, Cmd, Pipeline, aio::MultiplexedConnection};

use crate::cache::chains::{self, CHAIN};

/// Keys of one MSET or MGET.
const BATCH: usize = 1000;

/// A Redis without anything of ours.
pub(super) struct PlainRedis(Client);

impl PlainRedis {
    pub(super) fn new(server: &RedisServer) -> anyhow::Result<Self> {
        Ok(Self(Client::open(format!("redis://{}", server.address()))?))
    }

    /// An open connection without the driver's short time-outs.
    async fn connect(&self) -> anyhow::Result<MultiplexedConnection> {
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let connecting = self.0.get_multiplexed_async_connection_with_config(&config);
        Ok(connecting.await?)
    }

    /// Fills it with so many keys, each with a location as text.
    pub(super) async fn fill(&self, keys: usize) -> anyhow::Result<()> {
        let mut connection = self.connect().await?;
        for first in (0..keys).step_by(BATCH) {
            mset(first, BATCH.min(keys - first))
                .exec_async(&mut connection)
                .await?;
        }
        Ok(())
    }

    /// Reads all keys into a map, by SCAN and MGET.
    #[expect(clippy::disallowed_methods, reason = "a stopwatch, not a decision")]
    pub(super) async fn reload(&self, keys: usize) -> anyhow::Result<Duration> {
        let mut connection = self.connect().await?;
        let begun = Instant::now();
        let mut map: HashMap<i64, Vec<u8>> = HashMap::new();
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("COUNT").arg(BATCH);
            let (next, found): (u64, Vec<String>) = scan.query_async(&mut connection).await?;
            if !found.is_empty() {
                let mut mget = redis::cmd("MGET");
                let values: Vec<Vec<u8>> = mget.arg(&found).query_async(&mut connection).await?;
                for (key, value) in found.iter().zip(values) {
                    map.insert(key.parse()?, value);
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        let time = begun.elapsed();
        ensure!(
            map.len() == keys,
            "{} keys were read, not {keys}",
            map.len()
        );
        Ok(time)
    }

    /// Scripts that set a value of so many bytes, in pipelines on one connection: calls in a
    /// second.
    #[expect(clippy::disallowed_methods, reason = "a stopwatch, not a decision")]
    pub(super) async fn evalsha(
        &self,
        bytes: usize,
        pipeline: usize,
        time: Duration,
    ) -> anyhow::Result<f64> {
        let mut connection = self.connect().await?;
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD")
            .arg("redis.call('SET', KEYS[1], ARGV[1]) return 1");
        let digest: String = load.query_async(&mut connection).await?;
        let mut calls = Pipeline::with_capacity(pipeline);
        for _ in 0..pipeline {
            let call = calls.cmd("EVALSHA").arg(&digest).arg(1).arg("bare");
            call.arg(vec![b'x'; bytes]);
        }
        let begun = Instant::now();
        let mut count = 0;
        while count == 0 || begun.elapsed() < time {
            let _: Vec<u64> = calls.query_async(&mut connection).await?;
            count += pipeline;
        }
        Ok(count as f64 / begun.elapsed().as_secs_f64())
    }

    /// MSETs of so many keys on several connections, each with one in flight: calls in a second.
    #[expect(clippy::disallowed_methods, reason = "a stopwatch, not a decision")]
    pub(super) async fn msets(
        &self,
        keys: usize,
        connections: usize,
        time: Duration,
    ) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let tasks = (0..connections).map(|number| async move {
            let mut connection = self.connect().await?;
            let mut count = 0_usize;
            while count == 0 || begun.elapsed() < time {
                let first = (count * connections + number) * keys;
                mset(first, keys).exec_async(&mut connection).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
        let counts = try_join_all(tasks).await?;
        Ok(counts.iter().sum::<usize>() as f64 / begun.elapsed().as_secs_f64())
    }
}

fn mset(first: usize, count: usize) -> Cmd {
    let mut mset = redis::cmd("MSET");
    for at in first..first + count {
        let key = chains::key(at / CHAIN, at % CHAIN);
        mset.arg(key).arg(format!(
            "file:///kvcm/bench/tp0/{key:020}?size=1024&at=000000000001"
        ));
    }
    mset
}
