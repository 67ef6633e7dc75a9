//! An inference engine, as far as the cluster sees it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use kvcm_client::{CallMeta, Client, Error, ErrorKind, Instance, InstanceSpec, Written};
use kvcm_clock::{BootClock, Clock, Moment};
use kvcm_trace::{Request, TOKENS_PER_BLOCK};

use super::{
    cluster::GROUP,
    outcome::{Incident, Outcome},
    phase::{CurrentPhase, Phase, Tally},
    progress::Progress,
    trace::Trace,
};
use crate::{Call, Unsettled, What};

/// How long it takes to move the blocks of one write. Makes leaders die with sessions open.
const TRANSFER: Duration = Duration::from_millis(2);
/// How often a write is begun again. Each time means that another leader is gone.
const REDO_MAX: u64 = 20;
/// After so many errors the rest is not sent: each may take a whole deadline.
const ERRORS_MAX: u64 = 50;

/// What all engines share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What is on.
    pub(crate) phase: CurrentPhase,
    trace: Trace,
    next: AtomicUsize,
    errors: AtomicU64,
    progress: Progress,
}

/// What engines saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    outcome: Outcome,
}

/// One engine with a client of its own. All engines serve the same model and so share one
/// instance and its blocks.
#[derive(Debug)]
pub(crate) struct Engine {
    number: usize,
    shared: Arc<Shared>,
    client: Client,
    instance: Instance,
    seen: Outcome,
}

impl Shared {
    /// At the beginning of `trace`.
    pub(crate) fn new(trace: Trace, progress: Progress) -> Self {
        Self {
            phase: CurrentPhase::default(),
            trace,
            next: AtomicUsize::new(0),
            errors: AtomicU64::new(0),
            progress,
        }
    }
}

impl Seen {
    /// Adds what another engine saw.
    pub(crate) fn merge(&mut self, other: Self) {
        let (all, one) = (&mut self.outcome, other.outcome);
        all.history.merge(one.history);
        for (all, one) in all.tallies.iter_mut().zip(one.tallies) {
            all.add(one);
        }
        all.calls += one.calls;
        all.retries += one.retries;
        all.errors += one.errors;
        all.error_texts.extend(one.error_texts);
        all.sessions_redone += one.sessions_redone;
        all.registrations_redone += one.registrations_redone;
    }

    /// With what only the run knows.
    pub(crate) fn outcome(
        self,
        start: Moment,
        elapsed: Duration,
        incidents: Vec<Incident>,
        names: Vec<(String, String)>,
    ) -> Outcome {
        Outcome {
            start,
            elapsed,
            incidents,
            names,
            ..self.outcome
        }
    }
}

impl Engine {
    /// Engine number `number`: finds the leader through any of `endpoints` and registers.
    pub(crate) async fn connect(
        number: usize,
        endpoints: &[String],
        lease_ms: u64,
        shared: &Arc<Shared>,
    ) -> anyhow::Result<Self> {
        // Each asks another node first, as engines of a real cluster do.
        let mut endpoints = endpoints.to_vec();
        let nodes = endpoints.len();
        endpoints.rotate_left(number % nodes.max(1));
        let keys_per_block = shared.trace.expansion.keys_per_id();
        let tokens = TOKENS_PER_BLOCK / keys_per_block;
        let client = Client::builder()
            .endpoints(endpoints)
            // The death of a leader costs up to a lease, and the next may die as well.
            .deadline(Duration::from_millis(5000 + 3 * lease_ms))
            .connect()
            .await
            .context("an engine found no leader")?;
        let spec = InstanceSpec::new(GROUP, "demo", i32::try_from(tokens.max(1))?)
            .model("demo-model", "bf16")
            .piece("tp0", 4096);
        let instance = client
            .register(spec)
            .await
            .context("an engine could not register")?;
        let shared = Arc::clone(shared);
        Ok(Self {
            number,
            shared,
            client,
            instance,
            seen: Outcome::default(),
        })
    }

    /// Takes requests in turn with the other engines until there are no more.
    pub(crate) async fn replay(mut self, start: Moment) -> Seen {
        let shared = Arc::clone(&self.shared);
        loop {
            let next = shared.next.fetch_add(1, Ordering::Relaxed);
            let Some(request) = shared.trace.requests.get(next) else {
                break;
            };
            if shared.errors.load(Ordering::Relaxed) < ERRORS_MAX {
                let wait = BootClock.now().until(start + shared.trace.due(request));
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                let due = Phase::due_for(next, shared.trace.requests.len());
                let phase = shared.phase.at_least(due).await;
                if let Err(error) = self.serve(request, phase).await {
                    shared.errors.fetch_add(1, Ordering::Relaxed);
                    self.seen.errors += 1;
                    self.seen
                        .error_texts
                        .push(format!("engine {}: {error:#}", self.number));
                }
            }
            shared.progress.done();
        }
        let stats = self.client.stats();
        self.seen.calls = stats.calls;
        self.seen.retries = stats.retries + stats.redirects;
        self.seen.registrations_redone = stats.reregistrations;
        Seen { outcome: self.seen }
    }

    /// One request: look up its prefix, compute the rest, store it.
    async fn serve(&mut self, request: &Request, phase: Phase) -> anyhow::Result<()> {
        let keys: Arc<[i64]> = self.shared.trace.expansion.keys(&request.hash_ids).into();
        let invoked = BootClock.now();
        let locations = self.instance.locate(&keys).await?;
        let hits = locations.hits();
        let what = What::Lookup {
            keys: Arc::clone(&keys),
            hits,
        };
        self.record(invoked, locations.meta(), what)?;
        let written = self.write(keys.get(hits..).unwrap_or_default()).await?;
        self.seen.tallies[phase as usize].add(Tally {
            requests: 1,
            blocks: keys.len() as u64,
            hits: hits as u64,
            written,
        });
        Ok(())
    }

    /// Stores those of `keys` that nobody else has stored or is storing; returns how many. Begins
    /// again when the leader that kept the session is gone.
    async fn write(&mut self, keys: &[i64]) -> anyhow::Result<u64> {
        let mut redone = 0;
        while !keys.is_empty() {
            let invoked = BootClock.now();
            let session = self.instance.begin_write(keys).await?;
            self.record(invoked, session.meta(), What::Other)?;
            let new: Vec<_> = session.new_keys().map(|place| keys[place]).collect();
            if new.is_empty() {
                break;
            }
            tokio::time::sleep(TRANSFER).await;
            let invoked = BootClock.now();
            match session.finish(Written::All).await {
                Ok(reply) => {
                    let count = new.len() as u64;
                    self.record(invoked, reply.meta(), What::Written { keys: new })?;
                    return Ok(count);
                }
                Err(error) => {
                    self.seen
                        .history
                        .unsettled
                        .push(Unsettled { invoked, keys: new });
                    if !is_gone(&error) || redone == REDO_MAX {
                        return Err(error.into());
                    }
                    redone += 1;
                    self.seen.sessions_redone += 1;
                }
            }
        }
        Ok(0)
    }

    fn record(&mut self, invoked: Moment, meta: &CallMeta, what: What) -> anyhow::Result<()> {
        let epoch = meta.epoch.context("a leader answered without its epoch")?;
        self.seen.history.calls.push(Call {
            engine: self.number,
            invoked,
            returned: BootClock.now(),
            epoch,
            node: Arc::clone(&meta.node),
            what,
        });
        Ok(())
    }
}

/// The session died with its leader: no error for an engine, which still has the blocks.
fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::SessionGone
}
