//! Leaders that are killed and stopped at random moments of a write-heavy load.
//!
//! Each round harms the leader once. Writers go on throughout: a call that was not answered is
//! repeated with its request id until it is. Then everything that was acknowledged has to be there
//! at the same place, nothing that was refused, and repeats have to get the answers of the first
//! calls. `cargo xtask torture --cache` runs the same for longer.

#![expect(
    clippy::print_stdout,
    reason = "a failure has to be repeated with its seed"
)]

use std::{
    collections::HashMap,
    env,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use kvcm_proto::meta::{
    self, BlockMask, BoolMasksType, ErrorCode, block_mask::Info,
    meta_service_client::MetaServiceClient,
};
use kvcm_testkit::{RedisServer, http_get};
use serde_json::json;
use tokio::task::JoinHandle;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Endpoint},
};

use crate::{
    exposition::Page,
    index::{Bench, register},
    support::{leader_of, until},
};

const WRITERS: u64 = 6;
/// Bytes of a block of the registration that is used.
const BLOCK: u64 = 1024;
/// A call that takes longer is repeated.
const CALL: Duration = Duration::from_secs(2);
/// How long a stopped leader is stopped at most.
const FOLLOWED: Duration = Duration::from_secs(10);
/// Rounds between two looks at everything.
const CHECK_EVERY: u64 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn an_index_in_a_directory_survives_its_leaders() {
    torture(Bench::on_files(3).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_on_redis_survives_its_leaders() {
    let redis = RedisServer::start(&[]).unwrap();
    torture(Bench::on_redis(3, &redis).await).await;
}

async fn torture(mut bench: Bench) {
    let number = |name| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let rounds = number("KVCM_TORTURE_ROUNDS").unwrap_or(15);
    let seed = number("KVCM_TORTURE_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("{rounds} rounds with KVCM_TORTURE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let nodes: Vec<SocketAddr> = bench.cluster.ports().iter().map(|p| p.rpc()).collect();
    register(bench.leader().await, "i", "default").await;
    let load = Arc::new(Load::default());
    let mut known = Known::default();
    let mut round = 0;
    while round < rounds {
        let writers: Vec<JoinHandle<Writer>> = (0..WRITERS)
            .map(|number| {
                let writer = Writer::new(round * WRITERS + number, random.u64(..), &nodes, &load);
                tokio::spawn(writer.run())
            })
            .collect();
        for _ in 0..CHECK_EVERY.min(rounds - round) {
            let done = load.answered.load(Ordering::Relaxed) + random.u64(5..60);
            until("the load goes on", async || {
                (load.answered.load(Ordering::Relaxed) >= done).then_some(())
            })
            .await;
            tokio::time::sleep(Duration::from_micros(random.u64(0..3_000))).await;
            harm(&mut bench, random.u32(0..4) == 0).await;
            round += 1;
        }
        load.stop.store(true, Ordering::Relaxed);
        for writer in writers {
            known.take(writer.await.unwrap());
        }
        load.stop.store(false, Ordering::Relaxed);
        known.check(&bench, &nodes).await;
    }
    println!(
        "{} calls were answered, {} of them after a repeat; {} blocks are there",
        load.answered.load(Ordering::Relaxed),
        load.repeated.load(Ordering::Relaxed),
        known
            .blocks
            .values()
            .filter(|block| block.is_some())
            .count(),
    );
    assert!(
        load.answered.load(Ordering::Relaxed) > rounds * 5,
        "hardly anything was written"
    );
}

/// Kills the leader and starts it again, or stops it until another one leads, or for some leases.
async fn harm(bench: &mut Bench, is_stop: bool) {
    let all = bench.all();
    let leader = leader_of(&bench.cluster, &all).await;
    let rest: Vec<usize> = all.into_iter().filter(|node| *node != leader).collect();
    if is_stop {
        bench.cluster.node(leader).stop().unwrap();
        // One that is stopped while it writes its renewal holds the guard of the file backend, and
        // nobody follows before it goes on.
        let followed = leader_of(&bench.cluster, &rest);
        let followed = tokio::time::timeout(FOLLOWED, followed).await.is_ok();
        println!("the leader was stopped, and followed: {followed}");
        bench.cluster.node(leader).cont().unwrap();
    } else {
        bench.cluster.node(leader).kill().await.unwrap();
        bench.cluster.restart(leader).await.unwrap();
    }
}

/// What all writers share.
#[derive(Debug, Default)]
struct Load {
    stop: AtomicBool,
    answered: AtomicU64,
    repeated: AtomicU64,
}

/// What is known of all blocks.
#[derive(Debug, Default)]
struct Known {
    /// Where each is; none for one that must not be there.
    blocks: HashMap<i64, Option<String>>,
    /// Some calls, with what was answered.
    calls: Vec<(Call, Said)>,
}

/// A call that can be made again.
#[derive(Clone, Debug)]
enum Call {
    Start(String, Vec<i64>),
    Finish(String, String, BlockMask),
    Remove(String, Vec<i64>),
}

/// As much of an answer as a repeat has to have.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Started(String, Option<BlockMask>, Vec<meta::CacheLocation>),
    Code(ErrorCode),
}

/// Writes blocks of its own, and now and then removes one.
struct Writer {
    number: u64,
    random: fastrand::Rng,
    clients: Clients,
    load: Arc<Load>,
    known: Known,
}

impl Writer {
    fn new(number: u64, seed: u64, nodes: &[SocketAddr], load: &Arc<Load>) -> Self {
        Self {
            number,
            random: fastrand::Rng::with_seed(seed),
            clients: Clients::new(nodes),
            load: load.clone(),
            known: Known::default(),
        }
    }

    async fn run(mut self) -> Self {
        let mut step = 0;
        while !self.load.stop.load(Ordering::Relaxed) {
            step += 1;
            self.write(step).await;
        }
        self
    }

    async fn write(&mut self, step: u64) {
        let first = i64::try_from(self.number << 32 | step << 8).unwrap();
        let keys: Vec<i64> = (first..first + self.random.i64(1..6)).collect();
        let name = |what: &str| format!("{}-{step}-{what}", self.number);
        let (start, finish, remove) = (name("start"), name("finish"), name("remove"));
        let started = self.call(Call::Start(start, keys.clone())).await;
        let Said::Started(session, mask, locations) = started else {
            panic!("{started:?}");
        };
        assert_eq!(locations.len(), keys.len(), "{mask:?}");
        let is_bad = self.random.u32(0..8) == 0;
        let written: Vec<bool> = keys.iter().map(|_| self.random.u32(0..5) > 0).collect();
        let mask = BlockMask {
            info: Some(if is_bad {
                Info::Offset(keys.len() as i32 + 1)
            } else {
                Info::BoolMasks(BoolMasksType {
                    values: written.clone(),
                })
            }),
        };
        let finished = self.call(Call::Finish(finish, session, mask)).await;
        let expected = match is_bad {
            true => ErrorCode::InvalidArgument,
            false => ErrorCode::Ok,
        };
        assert_eq!(finished, Said::Code(expected), "keys {keys:?}");
        for ((key, is_written), location) in keys.iter().zip(written).zip(locations) {
            let place = (is_written && !is_bad).then(|| place(&location));
            self.known.blocks.insert(*key, place);
        }
        if self.random.u32(0..4) == 0 {
            let removed = self.call(Call::Remove(remove, vec![first])).await;
            assert_eq!(removed, Said::Code(ErrorCode::Ok));
            self.known.blocks.insert(first, None);
        }
    }

    /// Calls until there is an answer that says what happened.
    async fn call(&mut self, call: Call) -> Said {
        let mut tries = 0;
        let said = self.clients.ask(&call, &mut tries).await;
        self.load.answered.fetch_add(1, Ordering::Relaxed);
        if tries > 1 {
            self.load.repeated.fetch_add(1, Ordering::Relaxed);
        }
        if tries > 1 || self.random.u32(0..20) == 0 {
            self.known.calls.push((call, said.clone()));
        }
        said
    }
}

/// A connection to each node.
struct Clients {
    all: Vec<MetaServiceClient<Channel>>,
    at: usize,
}

impl Clients {
    fn new(nodes: &[SocketAddr]) -> Self {
        let client = |node: &SocketAddr| {
            let endpoint = Endpoint::from_shared(format!("http://{node}")).unwrap();
            let endpoint = endpoint.connect_timeout(CALL).timeout(CALL);
            MetaServiceClient::new(endpoint.connect_lazy())
        };
        Self {
            all: nodes.iter().map(client).collect(),
            at: 0,
        }
    }

    async fn ask(&mut self, call: &Call, tries: &mut u64) -> Said {
        loop {
            *tries += 1;
            match self.try_once(call).await {
                Ok(said) => match said {
                    Said::Code(ErrorCode::ServerNotLeader) => {
                        // Not done, so not a repeat.
                        *tries -= 1;
                        self.at += 1;
                    }
                    // Not known, or not now.
                    Said::Code(ErrorCode::IoError | ErrorCode::InternalError) => {}
                    said => return said,
                },
                Err(_) => self.at += 1,
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }

    async fn try_once(&mut self, call: &Call) -> Result<Said, Status> {
        let index = self.at % self.all.len();
        let client = &mut self.all[index];
        let instance_id = "i".to_owned();
        let code =
            |header: Option<meta::CommonResponseHeader>| header.unwrap().status.unwrap().code();
        Ok(match call.clone() {
            Call::Start(id, block_keys) => {
                let start = meta::StartWriteCacheRequest {
                    instance_id,
                    block_keys,
                    write_timeout_seconds: 600,
                    ..Default::default()
                };
                let started = client.start_write_cache(named(start, &id)).await?;
                let started = started.into_inner();
                match code(started.header) {
                    ErrorCode::Ok => Said::Started(
                        started.write_session_id,
                        started.block_mask,
                        started.locations,
                    ),
                    code => Said::Code(code),
                }
            }
            Call::Finish(id, write_session_id, mask) => {
                let finish = meta::FinishWriteCacheRequest {
                    instance_id,
                    write_session_id,
                    success_blocks: Some(mask),
                    ..Default::default()
                };
                let finished = client.finish_write_cache(named(finish, &id)).await;
                Said::Code(code(finished.map(Response::into_inner)?.header))
            }
            Call::Remove(id, block_keys) => {
                let remove = meta::RemoveCacheRequest {
                    instance_id,
                    block_keys,
                    ..Default::default()
                };
                let removed = client.remove_cache(named(remove, &id)).await;
                Said::Code(code(removed.map(Response::into_inner)?.header))
            }
        })
    }
}

fn named<T>(message: T, id: &str) -> Request<T> {
    let mut request = Request::new(message);
    request
        .metadata_mut()
        .insert("x-kvcm-request-id", id.parse().unwrap());
    request
}

fn place(location: &meta::CacheLocation) -> String {
    location.location_specs[0].uri.clone()
}

impl Known {
    fn take(&mut self, writer: Writer) {
        self.blocks.extend(writer.known.blocks);
        self.calls = writer
            .known
            .calls
            .into_iter()
            .chain(self.calls.drain(..))
            .collect();
        self.calls.truncate(200);
    }

    /// Looks at every block, at what is counted, and at repeats.
    async fn check(&self, bench: &Bench, nodes: &[SocketAddr]) {
        let mut clients = Clients::new(nodes);
        for (call, said) in &self.calls {
            let again = clients.ask(call, &mut 0).await;
            assert_eq!(again, *said, "{call:?}");
        }
        let leader = leader_of(&bench.cluster, &bench.all()).await;
        let ports = bench.cluster.ports()[leader];
        let keys: Vec<i64> = self.blocks.keys().copied().collect();
        for keys in keys.chunks(1_000) {
            let request = json!({
                "instance_id": "i", "query_type": "QT_BATCH_GET", "block_keys": keys,
            });
            let found = crate::support::call(ports.http(), "getCacheLocation", request).await;
            let found = found["locations"].as_array().unwrap();
            assert_eq!(found.len(), keys.len());
            for (key, found) in keys.iter().zip(found) {
                // A placeholder stands for what is not there.
                let uri = found["location_specs"][0]["uri"].as_str();
                let uri = uri.filter(|uri| !uri.is_empty());
                assert_eq!(uri, self.blocks[key].as_deref(), "key {key}");
            }
        }
        // What is not there any more counts until its bytes are deleted.
        let page = until("all that has ended is deleted", async || {
            let page = http_get(ports.admin_http(), "/metrics").await.ok()?;
            let page = Page::parse(&String::from_utf8(page.body).unwrap());
            (page.value("kvcm_cache_deletions_pending") == Some(0.0)).then_some(page)
        })
        .await;
        let gauge = |name: &str| page.value(name);
        let there = self.blocks.values().filter(|block| block.is_some()).count() as u64;
        assert_eq!(gauge("kvcm_index_keys"), Some(there as f64));
        assert_eq!(gauge("kvcm_index_bytes"), Some((there * BLOCK) as f64));
        assert_eq!(gauge("kvcm_write_sessions"), Some(0.0));
    }
}
