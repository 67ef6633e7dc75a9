//! A trace, replayed: per request a lookup, then a write of what was not there.

use std::{collections::HashSet, fs::File, io::BufReader, time::Duration};

use anyhow::Context;
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::RedisServer;
use kvcm_trace::{Expansion, Generator, Reader, Request};

use crate::serve::{
    Options, Over, body,
    client::{Client, Rpc},
    keys, redis,
    server::Server,
    turn::{Figures, Turn},
};

const DATABASE: &str = "2";
const SEED: u64 = 1;
/// Shares of the distinct blocks that the server keeps, in percent.
pub(super) const KEPT: [u64; 2] = [100, 10];

/// Replays the trace on the server and on Redis in turns, each time from no blocks. When the server
/// keeps a part of the blocks only, and evicts all the while, Redis has no turns: it keeps all.
pub(super) async fn replay(
    over: Over,
    expand: u64,
    kept: u64,
    server: &Server,
    redis: &RedisServer,
    options: &Options,
) -> anyhow::Result<(Figures, Figures)> {
    let expansion = Expansion::new(expand)?;
    let requests = load(options)?;
    let requests: Vec<_> = requests
        .iter()
        .map(|r| expansion.keys(&r.hash_ids))
        .collect();
    let mut ours = Client::connect(over, server.address(over)).await?;
    let mut other = Client::redis(redis.address()).await?;
    redis::select(&mut other, DATABASE).await?;
    let mut figures = (Figures::default(), Figures::default());
    let instance_id = format!("trace-{over}-{expand}-{kept}");
    if kept < 100 {
        let distinct: HashSet<_> = requests.iter().flatten().collect();
        let blocks = (distinct.len() as u64 * kept / 100).max(1);
        server.add_group(&instance_id, blocks).await?;
        server.register_in(&instance_id, &instance_id).await?;
    } else {
        server.register(&instance_id).await?;
    }
    for turn in 0..options.turns {
        for which in [turn % 2, 1 - turn % 2] {
            if which == 0 {
                let replayed = at_server(&mut ours, over, &instance_id, &requests);
                figures.0.add(Turn::measure(server.pid(), replayed).await?);
                server.trim(&instance_id).await?;
            } else if kept == 100 {
                let replayed = at_redis(&mut other, &requests);
                figures.1.add(Turn::measure(redis.pid(), replayed).await?);
                redis::empty(&mut other, DATABASE).await?;
            }
        }
    }
    eprintln!("trace x {expand} over {over}, {kept} % kept");
    Ok(figures)
}

fn load(options: &Options) -> anyhow::Result<Vec<Request>> {
    let limit = options.trace_requests as usize;
    let Some(path) = &options.trace else {
        return Ok(Generator::new(SEED).take(limit).collect());
    };
    let file = File::open(path).with_context(|| format!("--trace: cannot open {}", path.display()));
    let requests = Reader::new(BufReader::new(file?)).take(limit);
    let requests: Result<_, _> = requests.collect();
    requests.with_context(|| format!("--trace: {}", path.display()))
}

async fn at_server(
    client: &mut Client,
    over: Over,
    instance_id: &str,
    requests: &[Vec<i64>],
) -> anyhow::Result<Vec<Duration>> {
    let mut taken = Vec::with_capacity(requests.len());
    let mut refused = 0;
    let mut now = BootClock.now();
    for keys in requests {
        let request = keys::lookup(over, instance_id, 0, keys.clone())?;
        let answer = client.call(Rpc::Locate, request, 0).await?.concat();
        let found = body::locations(over, &answer).context("not an answer")?;
        if let Some(missing @ [_, ..]) = keys.get(found..) {
            let request = keys::start(over, instance_id, missing)?;
            let answer = client.call(Rpc::Start, request, 0).await?.concat();
            // There is no room for it: an engine goes on without.
            match body::session(over, &answer).filter(|session| !session.is_empty()) {
                Some(session) => {
                    let new = body::locations(over, &answer).context("not an answer")?;
                    let request = keys::finish(over, instance_id, session, new)?;
                    client.call(Rpc::Finish, request, 0).await?;
                }
                None => refused += 1,
            }
        }
        let then = std::mem::replace(&mut now, BootClock.now());
        taken.push(now.since(then));
    }
    if refused > 0 {
        eprintln!("{refused} of {} writes found no room", requests.len());
    }
    Ok(taken)
}

async fn at_redis(client: &mut Client, requests: &[Vec<i64>]) -> anyhow::Result<Vec<Duration>> {
    // As long as those of the server.
    const URI: &str =
        "file://bench_files/tmp/blocks/trace/tp0/abc/0123456789abcdef-19ad0000000-1000?size=1024";
    let mut taken = Vec::with_capacity(requests.len());
    let mut now = BootClock.now();
    for keys in requests {
        let answer = client
            .call(Rpc::Locate, redis::mget(keys), 0)
            .await?
            .concat();
        let found = redis::prefix(&answer).context("not an answer")?;
        if let Some(missing @ [_, ..]) = keys.get(found..) {
            client
                .call(Rpc::Start, redis::mset(missing, |_| URI), 5)
                .await?;
        }
        let then = std::mem::replace(&mut now, BootClock.now());
        taken.push(now.since(then));
    }
    Ok(taken)
}
