//! A trace, replayed: per request a lookup, then a write of what was not there.

use std::{fs::File, io::BufReader, time::Duration};

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

/// Replays the trace on the server and on Redis in turns, each time from no blocks.
pub(super) async fn replay(
    over: Over,
    expand: u64,
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
    let instance_id = format!("trace-{over}-{expand}");
    server.register(&instance_id).await?;
    for turn in 0..options.turns {
        redis::empty(&mut other, DATABASE).await?;
        for which in [turn % 2, 1 - turn % 2] {
            if which == 0 {
                let replayed = at_server(&mut ours, over, &instance_id, &requests);
                figures.0.add(Turn::measure(server.pid(), replayed).await?);
                server.trim(&instance_id).await?;
            } else {
                let replayed = at_redis(&mut other, &requests);
                figures.1.add(Turn::measure(redis.pid(), replayed).await?);
            }
        }
    }
    redis::empty(&mut other, DATABASE).await?;
    eprintln!("trace x {expand} over {over}");
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
    let mut now = BootClock.now();
    for keys in requests {
        let request = keys::lookup(over, instance_id, 0, keys.clone())?;
        let answer = client.call(Rpc::Locate, request, 0).await?.concat();
        let found = body::locations(over, &answer).context("not an answer")?;
        if let Some(missing @ [_, ..]) = keys.get(found..) {
            let request = keys::start(over, instance_id, missing)?;
            let answer = client.call(Rpc::Start, request, 0).await?.concat();
            let session = body::session(over, &answer).context("no session")?;
            let new = body::locations(over, &answer).context("not an answer")?;
            let request = keys::finish(over, instance_id, session, new)?;
            client.call(Rpc::Finish, request, 0).await?;
        }
        let then = std::mem::replace(&mut now, BootClock.now());
        taken.push(now.since(then));
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
