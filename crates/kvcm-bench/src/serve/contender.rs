//! One server with its clients and what they ask of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use kvcm_clock::{BootClock, Clock};
use kvcm_proto::meta;
use tokio::task::JoinSet;

use crate::serve::{
    Over, body,
    client::{Client, Rpc},
    keys, redis,
    turn::{Figures, Turn},
};

/// One answer of so many is compared or read as a whole.
const LOOK: usize = 64;
/// Headers end before it; they hold the time of the answer.
const HEADER: usize = 512;

/// A server with its clients.
#[derive(Debug)]
pub(super) struct Contender {
    pid: u32,
    clients: Vec<Client>,
    work: Work,
    pub(super) figures: Figures,
}

/// What its clients ask, again and again.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Lookups with the answers that are expected.
    Look(Arc<[(Bytes, Bytes)]>),
    /// New keys, written from start to finish.
    Write(Arc<Writes>),
}

/// Where writes go.
#[derive(Debug)]
pub(super) struct Writes {
    /// None: to Redis.
    pub(super) over: Option<Over>,
    pub(super) instance_id: &'static str,
    pub(super) keys: usize,
    /// The chain that is written next; there is none before it.
    pub(super) next: AtomicUsize,
    /// What Redis keeps of a key.
    pub(super) uri: String,
}

impl Contender {
    pub(super) fn new(pid: u32, clients: Vec<Client>, work: Work) -> Self {
        Self {
            pid,
            clients,
            work,
            figures: Figures::default(),
        }
    }

    /// All clients call for so long.
    pub(super) async fn turn(&mut self, time: Duration) -> anyhow::Result<()> {
        let clients = std::mem::take(&mut self.clients);
        let count = clients.len();
        let mut running = JoinSet::new();
        let turn = Turn::measure(self.pid, async {
            for (number, mut client) in clients.into_iter().enumerate() {
                let work = self.work.clone();
                running.spawn(async move {
                    let mut taken = Vec::new();
                    let start = BootClock.now();
                    let mut now = start;
                    while now.since(start) < time {
                        work.once(&mut client, number, count, taken.len()).await?;
                        let then = std::mem::replace(&mut now, BootClock.now());
                        taken.push(now.since(then));
                    }
                    anyhow::Ok((client, taken))
                });
            }
            let mut taken = Vec::new();
            while let Some(ended) = running.join_next().await {
                let (client, its) = ended??;
                self.clients.push(client);
                taken.extend(its);
            }
            Ok(taken)
        });
        let turn = turn.await?;
        self.figures.add(turn);
        Ok(())
    }

    /// A turn that does not count: code, caches and connections are warm when the first begins.
    pub(super) async fn warm_up(&mut self, time: Duration) -> anyhow::Result<()> {
        self.turn(time).await?;
        self.figures = Figures::default();
        Ok(())
    }
}

impl Work {
    /// Call number `call` of client `number` of `count`.
    async fn once(
        &self,
        client: &mut Client,
        number: usize,
        count: usize,
        call: usize,
    ) -> anyhow::Result<()> {
        match self {
            Self::Look(lookups) => {
                // Each client has another request at a time.
                let at = number * lookups.len() / count + call;
                let (request, expected) = &lookups[at % lookups.len()];
                let length = expected.len();
                let answer = client.call(Rpc::Locate, request.clone(), length).await?;
                ensure!(
                    answer.len() == length,
                    "{} bytes, not {length}",
                    answer.len()
                );
                if call.is_multiple_of(LOOK) {
                    let same = answer.concat().get(HEADER..) == expected.get(HEADER..);
                    ensure!(same, "another answer than before");
                }
                Ok(())
            }
            Self::Write(writes) => writes.once(client, call).await,
        }
    }
}

impl Writes {
    async fn once(&self, client: &mut Client, call: usize) -> anyhow::Result<()> {
        let mut keys = keys::chain(self.next.fetch_add(1, Relaxed));
        keys.truncate(self.keys);
        let Some(over) = self.over else {
            client
                .call(Rpc::Start, redis::mset(&keys, |_| &self.uri), 5)
                .await?;
            return Ok(());
        };
        let request = keys::start(over, self.instance_id, &keys)?;
        let answer = client.call(Rpc::Start, request, 0).await?.concat();
        let session = body::session(over, &answer).context("no session")?;
        let request = keys::finish(over, self.instance_id, session, keys.len())?;
        let finished = client.call(Rpc::Finish, request, 0).await?.concat();
        if call.is_multiple_of(LOOK) {
            let started: meta::StartWriteCacheResponse = body::answer(over, &answer)?;
            body::check(started.header.as_ref())?;
            let (new, all) = (started.locations.len(), keys.len());
            ensure!(new == all, "{new} new keys of {all}");
            let finished: meta::CommonResponse = body::answer(over, &finished)?;
            body::check(finished.header.as_ref())?;
        }
        Ok(())
    }
}
