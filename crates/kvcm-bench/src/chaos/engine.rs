//! An inference engine that remembers what it was told.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use kvcm_check::{Call, Key, Op, Outcome, Record, Route};
use kvcm_client::{
    CallMeta, Client, Error, ErrorKind, Instance, InstanceSpec, Query, WriteOptions, Written,
};
use tokio_util::sync::CancellationToken;

use super::{
    keys::Keys,
    recorder::{Recorder, now},
    world::{GROUP, INSTANCE, PIECE, node_at},
};

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// What all clients of a run share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) recorder: Recorder,
    pub(super) keys: Keys,
    /// Set when no more calls are to be made.
    pub(super) stop: CancellationToken,
}

/// One engine with a client of its own.
#[derive(Debug)]
pub(super) struct Engine {
    number: u32,
    client: Client,
    instance: Instance,
    shared: Shared,
    random: fastrand::Rng,
}

/// What is known after a call.
struct Answer<'a> {
    invoke: u64,
    op: Op,
    result: Result<&'a CallMeta, &'a Error>,
}

impl Engine {
    /// Finds the leader and registers.
    pub(super) async fn connect(
        number: u32,
        endpoints: &[String],
        shared: &Shared,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let mut endpoints = endpoints.to_vec();
        let first = number as usize % endpoints.len().max(1);
        endpoints.rotate_left(first);
        let client = Client::builder()
            .endpoints(endpoints)
            .deadline(DEADLINE)
            .keep_alive(Duration::from_millis(500), Duration::from_millis(500))
            .connect()
            .await
            .context("an engine found no leader")?;
        let spec = InstanceSpec::new(GROUP, INSTANCE, 16)
            .model("chaos-model", "bf16")
            .piece(PIECE, 4096);
        let instance = client
            .register(spec)
            .await
            .context("an engine could not register")?;
        Ok(Self {
            number,
            client,
            instance,
            shared: shared.clone(),
            random: fastrand::Rng::with_seed(seed.wrapping_add(u64::from(number))),
        })
    }

    /// Makes one call after the other until told to stop.
    pub(super) async fn work(mut self) -> anyhow::Result<Self> {
        while !self.shared.stop.is_cancelled() {
            let keys = match self.random.u8(..8) {
                0 => self.shared.keys.cold(now(), &mut self.random),
                _ => self.shared.keys.hot(now(), &mut self.random),
            };
            match self.random.u8(..20) {
                0..=9 => self.look_up(&keys).await?,
                10 => self.look_up_prefix(&keys).await?,
                11 => self.remove(&keys).await?,
                _ => self.write(&keys).await?,
            }
            let pause = Duration::from_millis(self.random.u64(5..30));
            tokio::time::sleep(pause).await;
        }
        Ok(self)
    }

    /// Asks for all keys of the run, once no more faults come.
    pub(super) async fn sweep(&mut self) -> anyhow::Result<()> {
        for keys in self.shared.keys.all(now()) {
            self.look_up(&keys).await?;
        }
        Ok(())
    }

    async fn look_up(&mut self, keys: &[Key]) -> anyhow::Result<()> {
        let invoke = now();
        let found = self.instance.locate_with(keys, &Query::each()).await;
        let uris = found.as_ref().map_or_else(
            |_| Vec::new(),
            |found| {
                found
                    .iter()
                    .map(|at| at.uri(PIECE).map(str::to_owned))
                    .collect()
            },
        );
        let keys = keys.to_vec();
        self.record(Answer {
            invoke,
            op: Op::Lookup { keys, uris },
            result: found.as_ref().map(|found| found.meta()),
        })
    }

    /// Tells of the keys found and of the first that is not, and of none behind.
    async fn look_up_prefix(&mut self, keys: &[Key]) -> anyhow::Result<()> {
        let invoke = now();
        let found = self.instance.locate(keys).await;
        let mut uris: Vec<Option<String>> = Vec::new();
        if let Ok(found) = &found {
            uris.extend(found.iter().map(|at| at.uri(PIECE).map(str::to_owned)));
            uris.push(None);
            uris.truncate(keys.len());
        }
        let keys = keys.iter().copied().take(uris.len()).collect();
        self.record(Answer {
            invoke,
            op: Op::Lookup { keys, uris },
            result: found.as_ref().map(|found| found.meta()),
        })
    }

    async fn remove(&mut self, keys: &[Key]) -> anyhow::Result<()> {
        let keys = &keys[..1];
        let invoke = now();
        let removed = self.instance.remove(keys).await;
        let keys = keys.to_vec();
        self.record(Answer {
            invoke,
            op: Op::Remove { keys },
            result: removed.as_ref().map(|removed| removed.meta()),
        })
    }

    async fn write(&mut self, keys: &[Key]) -> anyhow::Result<()> {
        let options = WriteOptions {
            timeout: Duration::from_secs(self.random.u64(2..20)),
            ..WriteOptions::default()
        };
        let invoke = now();
        let begun = self.instance.begin_write_with(keys, &options).await;
        let mut granted = vec![None; keys.len()];
        let mut session = None;
        if let Ok(begun) = &begun {
            for (place, location) in begun.new_keys().zip(begun.locations().iter()) {
                granted[place] = location.uri(PIECE).map(str::to_owned);
            }
            session = Some(begun.id().to_owned());
        } else {
            granted.clear();
        }
        let timeout = u64::try_from(options.timeout.as_nanos()).unwrap_or(u64::MAX);
        let op = Op::Start {
            keys: keys.to_vec(),
            granted: granted.clone(),
            session: session.clone(),
            timeout,
        };
        self.record(Answer {
            invoke,
            op,
            result: begun.as_ref().map(|begun| begun.meta()),
        })?;
        let (Ok(begun), Some(session)) = (begun, session) else {
            return Ok(());
        };
        let new = keys
            .iter()
            .zip(granted)
            .filter_map(|(key, uri)| Some((*key, uri?)));
        let (keys, uris): (Vec<_>, Vec<_>) = new.unzip();
        if keys.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(self.random.u64(..15))).await;
        let all = self.random.u8(..5) > 0;
        let written: Vec<_> = keys.iter().map(|_| all || self.random.bool()).collect();
        let invoke = now();
        let ended = begun.finish(Written::Each(written.clone())).await;
        let gone = matches!(&ended, Err(error) if error.kind() == ErrorKind::SessionGone);
        let op = Op::Finish {
            session,
            keys,
            uris,
            written,
            gone,
        };
        self.record(Answer {
            invoke,
            op,
            result: ended.as_ref().map(|ended| ended.meta()),
        })
    }

    fn record(&self, answer: Answer<'_>) -> anyhow::Result<()> {
        let mut call = Call {
            client: self.number,
            invoke: answer.invoke,
            returned: Some(now()),
            node: None,
            epoch: None,
            request_id: None,
            attempts: 1,
            op: answer.op,
            outcome: Outcome::Ok,
            hint: None,
            route: Some(Route {
                epoch: self.client.leader().map_or(0, |leader| leader.epoch),
                redirects: self.client.stats().redirects,
            }),
            error: None,
        };
        match answer.result {
            Ok(meta) => {
                call.node = node_at(&meta.node);
                call.epoch = meta.epoch;
                call.attempts = meta.attempts;
            }
            Err(error) => {
                call.outcome = match error.outcome() {
                    kvcm_client::Outcome::NotDone => Outcome::Fail,
                    kvcm_client::Outcome::Unknown => Outcome::Unknown,
                };
                let last = error.attempts().last();
                call.epoch = last.map(|last| last.epoch).filter(|epoch| *epoch > 0);
                call.attempts = error.attempts_total();
                call.error = Some(error.to_string().chars().take(600).collect());
            }
        }
        self.shared.recorder.add(&Record::Call(call))
    }
}

/// Starts the engines of a run.
pub(super) async fn connect_all(
    count: u32,
    endpoints: &[String],
    shared: &Shared,
    seed: u64,
) -> anyhow::Result<Vec<Engine>> {
    let shared = Arc::new(shared.clone());
    let mut engines = Vec::new();
    for number in 0..count {
        engines.push(Engine::connect(number, endpoints, &shared, seed).await?);
    }
    Ok(engines)
}
