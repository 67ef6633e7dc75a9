//! What is measured, one line of the table each.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use anyhow::ensure;
use kvcm_proto::meta;
use kvcm_testkit::RedisServer;

use crate::serve::{
    Options, Over,
    bare::{Answers, Bare},
    body,
    client::{Client, Rpc},
    contender::{Contender, Work, Writes},
    keys::{self, CHAIN, INSTANCE},
    redis,
    report::Line,
    server::Server,
    trace,
    turn::Figures,
};

pub(super) const WRITE: &str = "write, start and finish of 128";
pub(super) const TRACE: &str = "trace";

/// The instance of the writes, which is emptied after each turn.
const WRITTEN: &str = "written";
/// The database of Redis for the same.
const DATABASE: &str = "1";
/// Chains from here on are never there.
const ABSENT: usize = 1 << 32;
/// Small writes for so long make the directories of an instance, 4096 for each spec.
const DIRECTORIES: Duration = Duration::from_secs(4);
/// Keys of one write.
const WRITE_KEYS: usize = 128;

/// How a lookup ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    Hit128,
    Hit1000,
    Half1000,
    Miss1000,
}

impl Lookup {
    pub(super) const ALL: [Self; 4] = [Self::Hit128, Self::Hit1000, Self::Half1000, Self::Miss1000];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hit128 => "hit, 128 keys",
            Self::Hit1000 => "hit, 1000 keys",
            Self::Half1000 => "half of 1000 keys",
            Self::Miss1000 => "miss, 1000 keys",
        }
    }

    /// Keys asked for, and how many of them are there.
    fn counts(self) -> (usize, usize) {
        match self {
            Self::Hit128 => (128, 128),
            Self::Hit1000 => (CHAIN, CHAIN),
            Self::Half1000 => (CHAIN, CHAIN / 2),
            Self::Miss1000 => (CHAIN, 0),
        }
    }

    fn keys(self, number: usize) -> Vec<i64> {
        let (asked, found) = self.counts();
        let there = keys::chain(number).into_iter().take(found);
        let absent = keys::chain(ABSENT + number).into_iter();
        there.chain(absent.take(asked - found)).collect()
    }
}

/// Takes the answers of all requests down, checked, and has all three send them in turns.
pub(super) async fn lookup(
    lookup: Lookup,
    over: Over,
    dir: &Path,
    server: &Server,
    redis: &RedisServer,
    options: &Options,
) -> anyhow::Result<Line> {
    let mut ours = Client::connect(over, server.address(over)).await?;
    let mut other = Client::redis(redis.address()).await?;
    let (mut looks, mut gets) = (Vec::new(), Vec::new());
    let mut answers = Answers::default();
    let bodies = usize::from(options.bodies).min(options.keys as usize / CHAIN);
    let (_, expected) = lookup.counts();
    for number in 0..bodies {
        let keys = lookup.keys(number);
        let get = redis::mget(&keys);
        let request = keys::lookup(over, INSTANCE, number, keys)?;
        let answer = ours.call(Rpc::Locate, request.clone(), 0).await?.concat();
        let message: meta::GetCacheLocationResponse = body::answer(over, &answer)?;
        body::check(message.header.as_ref())?;
        let found = message.locations.len();
        ensure!(found == expected, "{found} locations of {expected}");
        answers.of(Rpc::Locate).push(answer.clone());
        looks.push((request, answer));
        let answer = other.call(Rpc::Locate, get.clone(), 0).await?.concat();
        let found = redis::found(&answer);
        ensure!(found == expected, "{found} values of {expected} in Redis");
        gets.push((get, answer));
    }
    let bare = Bare::start(dir, &answers).await?;
    let looks = Work::Look(looks.into());
    let mut all = [
        contender(
            over,
            server.address(over),
            server.pid(),
            looks.clone(),
            options,
        )
        .await?,
        contender(over, bare.address(over), bare.pid(), looks, options).await?,
        of_redis(redis, "0", Work::Look(gets.into()), options).await?,
    ];
    in_turns(&mut all, options, async || Ok(())).await?;
    Ok(line(lookup.name().to_owned(), over, options, all))
}

/// Writes new keys; what was written goes after each round.
pub(super) async fn write(
    over: Over,
    dir: &Path,
    server: &Server,
    redis: &RedisServer,
    options: &Options,
) -> anyhow::Result<Line> {
    server.register(WRITTEN).await?;
    let mut keys = keys::chain(2 * ABSENT);
    keys.truncate(WRITE_KEYS);
    let mut answers = Answers::default();
    let mut ours = Client::connect(over, server.address(over)).await?;
    let request = keys::start(over, WRITTEN, &keys)?;
    let answer = ours.call(Rpc::Start, request, 0).await?.concat();
    let started: meta::StartWriteCacheResponse = body::answer(over, &answer)?;
    body::check(started.header.as_ref())?;
    let uri = |location: &meta::CacheLocation| location.location_specs[0].uri.clone();
    let uri = started.locations.first().map(uri).unwrap_or_default();
    answers.of(Rpc::Start).push(answer);
    let request = keys::finish(over, WRITTEN, started.write_session_id, keys.len())?;
    let answer = ours.call(Rpc::Finish, request, 0).await?.concat();
    answers.of(Rpc::Finish).push(answer);
    let bare = Bare::start(dir, &answers).await?;
    let writes_of = |keys, first, over| {
        Work::Write(Arc::new(Writes {
            over,
            instance_id: WRITTEN,
            keys,
            next: AtomicUsize::new(first),
            uri: uri.clone(),
        }))
    };
    let small = writes_of(1, 3 * ABSENT, Some(over));
    let mut first = contender(over, server.address(over), server.pid(), small, options).await?;
    first.warm_up(DIRECTORIES).await?;
    server.trim(WRITTEN).await?;
    let writes = |over| writes_of(WRITE_KEYS, 0, over);
    let mut all = [
        contender(
            over,
            server.address(over),
            server.pid(),
            writes(Some(over)),
            options,
        )
        .await?,
        contender(
            over,
            bare.address(over),
            bare.pid(),
            writes(Some(over)),
            options,
        )
        .await?,
        of_redis(redis, DATABASE, writes(None), options).await?,
    ];
    in_turns(&mut all, options, async || {
        server.trim(WRITTEN).await?;
        let mut client = Client::redis(redis.address()).await?;
        redis::empty(&mut client, DATABASE).await
    })
    .await?;
    Ok(line(WRITE.to_owned(), over, options, all))
}

/// Replays the trace by one client, on both when all blocks are kept.
pub(super) async fn trace(
    over: Over,
    expand: u64,
    kept: u64,
    server: &Server,
    redis: &RedisServer,
    options: &Options,
) -> anyhow::Result<Line> {
    let (ours, redis) = trace::replay(over, expand, kept, server, redis, options).await?;
    Ok(Line {
        name: format!("trace, {expand} keys for 512 tokens, {kept} % kept"),
        over,
        clients: 1,
        ours,
        bare: Figures::default(),
        redis,
    })
}

async fn contender(
    over: Over,
    address: std::net::SocketAddr,
    pid: u32,
    work: Work,
    options: &Options,
) -> anyhow::Result<Contender> {
    let mut clients = Vec::new();
    for _ in 0..options.clients {
        clients.push(Client::connect(over, address).await?);
    }
    Ok(Contender::new(pid, clients, work))
}

async fn of_redis(
    redis: &RedisServer,
    database: &str,
    work: Work,
    options: &Options,
) -> anyhow::Result<Contender> {
    let mut clients = Vec::new();
    for _ in 0..options.clients {
        let mut client = Client::redis(redis.address()).await?;
        redis::select(&mut client, database).await?;
        clients.push(client);
    }
    Ok(Contender::new(redis.pid(), clients, work))
}

/// All take turns, each as often first as another; `after` ends each round.
async fn in_turns(
    all: &mut [Contender; 3],
    options: &Options,
    after: impl AsyncFn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for one in &mut *all {
        one.warm_up(options.turn() / 4).await?;
    }
    after().await?;
    for round in 0..usize::from(options.turns) {
        for turn in 0..all.len() {
            all[(round + turn) % 3].turn(options.turn()).await?;
        }
        after().await?;
    }
    Ok(())
}

fn line(name: String, over: Over, options: &Options, all: [Contender; 3]) -> Line {
    let [ours, bare, redis] = all.map(|one| one.figures);
    eprintln!("{name} over {over}");
    Line {
        name,
        over,
        clients: options.clients.into(),
        ours,
        bare,
        redis,
    }
}
