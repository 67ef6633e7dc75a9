//! One fault under load.

use std::{
    sync::{Arc, atomic::AtomicBool, atomic::Ordering::Relaxed},
    time::Duration,
};

use anyhow::Context;
use kvcm_clock::{BootClock, Clock, Moment};
use tokio::task::JoinSet;

use super::{
    Fault, Options,
    load::{Operation, work},
    site::Site,
};

/// What the clients saw of a fault, over all rounds.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) operations: usize,
    /// Errors that reached the application.
    pub(super) errors: Vec<String>,
    /// Operations that needed more than one try.
    pub(super) retried: usize,
    pub(super) attempts_max: u32,
    /// Of each round, the longest time in which no operation of any client ended well.
    pub(super) gaps: Vec<Duration>,
    /// The longest operation.
    pub(super) slowest: Duration,
    /// Of each client, until its first leader was found.
    pub(super) connects: Vec<Duration>,
}

pub(super) async fn play(fault: Fault, options: &Options) -> anyhow::Result<Seen> {
    let mut seen = Seen::default();
    for _ in 0..options.rounds {
        round(fault, options, &mut seen).await?;
    }
    Ok(seen)
}

async fn round(fault: Fault, options: &Options, seen: &mut Seen) -> anyhow::Result<()> {
    let mut site = Site::start(Some(fault), options).await?;
    site.ready(options).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let think = Duration::from_millis(options.think_ms);
    let mut clients = JoinSet::new();
    for number in 0..options.clients {
        let begun = BootClock.now();
        let client = site.client(options).connect().await?;
        seen.connects.push(BootClock.now().since(begun));
        clients.spawn(work(number, client, think, Arc::clone(&stop)));
    }
    let around = Duration::from_millis(options.around_ms);
    tokio::time::sleep(around).await;
    let leader = site.leader().await?;
    let struck = BootClock.now();
    let lease = Duration::from_millis(options.lease_ms);
    fault.strike(&mut site, leader, lease).await?;
    tokio::time::sleep(around + 2 * lease).await;
    stop.store(true, Relaxed);
    let mut all = Vec::new();
    while let Some(client) = clients.join_next().await {
        all.extend(client?.context("a client could not register")?);
    }
    seen.add(struck, all);
    Ok(())
}

impl Seen {
    fn add(&mut self, struck: Moment, operations: Vec<Operation>) {
        let mut successes = Vec::new();
        for operation in operations {
            self.operations += 1;
            self.retried += usize::from(operation.attempts > 1);
            self.attempts_max = self.attempts_max.max(operation.attempts);
            let took = operation.ended.since(operation.begun);
            self.slowest = self.slowest.max(took);
            match operation.error {
                Some(error) => self.errors.push(error),
                None => successes.push(operation.ended),
            }
        }
        successes.sort_unstable();
        let after = successes.partition_point(|at| *at < struck);
        let around = &successes[after.saturating_sub(1)..];
        let gaps = around.windows(2).map(|pair| pair[1].since(pair[0]));
        self.gaps.push(gaps.max().unwrap_or_default());
    }
}
