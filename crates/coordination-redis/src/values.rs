//! The value operations, over the pool.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use coordination_core::{DeleteOutcome, Error, Expect, SetOutcome, Value};
use kvcm_clock::Moment;
use kvcm_redis::{Failure, Link, Locator, Pool, Repeat, Script};
use redis::RedisResult;

use crate::{
    error::error,
    keys::{Keys, Pair},
    locks::milliseconds,
    reply::Reply,
    scripts,
};

/// How many keys the server looks at between two other commands.
const SCAN_COUNT: u32 = 1000;
/// How many values are read in one round trip.
const BATCH: usize = 256;

#[derive(Debug)]
pub(crate) struct Values {
    locator: Arc<Locator>,
    pool: Pool,
    keys: Keys,
    is_warm: AtomicBool,
}

impl Values {
    pub(crate) fn new(locator: Arc<Locator>, pool: Pool, keys: Keys) -> Self {
        Self {
            locator,
            pool,
            keys,
            is_warm: AtomicBool::new(false),
        }
    }

    pub(crate) async fn set(
        &self,
        key: &str,
        text: &str,
        ttl: Option<Duration>,
        expect: Expect,
        deadline: Moment,
    ) -> Result<SetOutcome, Error> {
        let ttl = ttl.map_or_else(|| "0".to_owned(), milliseconds);
        let args = [&wanted(expect), text, &ttl];
        let set = self.run(&scripts::SET_VALUE, key, &args, Repeat::Unsafe, deadline);
        set.await?.set_outcome()
    }

    pub(crate) async fn get(&self, key: &str, deadline: Moment) -> Result<Option<Value>, Error> {
        let get = self.run(&scripts::GET_VALUE, key, &[], Repeat::Safe, deadline);
        get.await?.value()
    }

    pub(crate) async fn delete(
        &self,
        key: &str,
        expect: Expect,
        deadline: Moment,
    ) -> Result<DeleteOutcome, Error> {
        let args = [wanted(expect)];
        let args = args.each_ref().map(String::as_str);
        let delete = self.run(&scripts::DELETE_VALUE, key, &args, Repeat::Unsafe, deadline);
        delete.await?.delete_outcome()
    }

    pub(crate) async fn list(
        &self,
        prefix: &str,
        deadline: Moment,
    ) -> Result<Vec<(String, Value)>, Error> {
        self.warm_up();
        let pattern = &self.keys.value_pattern(prefix);
        let list = |mut link: Link, _| async move {
            let pairs = self.scan(&mut link, pattern).await?;
            let names: Vec<_> = pairs.keys().cloned().collect();
            let keys: Vec<_> = pairs
                .values()
                .map(|pair| vec![pair.key.as_str(), pair.sibling.as_str()])
                .collect();
            let latest = link.server_millis_at(deadline).to_string();
            let args = [latest.as_str()];
            let mut replies = Vec::with_capacity(keys.len());
            for batch in keys.chunks(BATCH) {
                let read = scripts::GET_VALUE.run_each(&mut link, batch, &args);
                let read: Vec<Vec<String>> = read.await?;
                replies.extend(read);
            }
            Ok(names.into_iter().zip(replies))
        };
        let mut values = BTreeMap::new();
        for route in self.pool.primaries(deadline).await.map_err(error)? {
            let listed = self.pool.run(&route, Repeat::Safe, deadline, list).await;
            for (name, reply) in listed.map_err(error)? {
                // One that has vanished since the scan is left out.
                if let Some(value) = Reply::new(reply).value()? {
                    values.insert(name, value);
                }
            }
        }
        Ok(values.into_iter().collect())
    }

    /// The values that match, each once (a scan may repeat them), in the order of their names.
    async fn scan(&self, link: &mut Link, pattern: &str) -> RedisResult<BTreeMap<String, Pair>> {
        let mut found = BTreeMap::new();
        let mut cursor = 0u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(pattern);
            scan.arg("COUNT").arg(SCAN_COUNT);
            // A key that is not UTF-8 is not one of ours.
            let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut link.connection).await?;
            let names = keys
                .iter()
                .filter_map(|key| self.keys.value_name(std::str::from_utf8(key).ok()?));
            for name in names {
                let pair = self.keys.value(&name);
                found.insert(name, pair);
            }
            cursor = next;
            if cursor == 0 {
                return Ok(found);
            }
        }
    }

    async fn run(
        &self,
        script: &'static Script,
        key: &str,
        args: &[&str],
        repeat: Repeat,
        deadline: Moment,
    ) -> Result<Reply, Error> {
        self.warm_up();
        let pair = &self.keys.value(key);
        let run = |mut link: Link, _| async move {
            let keys = [pair.key.as_str(), pair.sibling.as_str()];
            let latest = link.server_millis_at(deadline).to_string();
            let mut args = args.to_vec();
            args.push(&latest);
            script.run(&mut link, &keys, &args, None).await
        };
        let route = self.locator.config().route(&pair.key);
        let answer: Result<_, Failure> = self.pool.run(&route, repeat, deadline, run).await;
        Ok(Reply::new(answer.map_err(error)?.value))
    }

    /// With the first call, on its runtime.
    fn warm_up(&self) {
        if !self.is_warm.swap(true, Ordering::Relaxed) {
            let pool = self.pool.clone();
            tokio::spawn(async move { pool.warm_up().await });
        }
    }
}

fn wanted(expect: Expect) -> String {
    match expect {
        Expect::Any => "any".to_owned(),
        Expect::Absent => "absent".to_owned(),
        Expect::Version(version) => version.to_string(),
    }
}
