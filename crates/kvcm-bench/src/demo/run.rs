//! The whole run, from the start of the nodes to the verdict.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, bail};
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::{Cluster, RedisServer};
use tokio::task::JoinSet;

use super::{
    Coordination, Options, cluster, director,
    engine::{Engine, Seen, Shared},
    outcome::Outcome,
    progress::Progress,
    trace::Trace,
};

/// What a run leaves.
#[derive(Debug)]
pub struct Verdict {
    /// The tables, for stdout.
    pub tables: String,
    /// What is wrong; empty after a good run.
    pub mistakes: Vec<String>,
    /// The nodes' logs and all else, kept because something is wrong.
    pub kept: Option<PathBuf>,
}

/// Runs the demonstration. An error means that it could not be carried out; once nodes have been
/// started their files are kept, and the error names them.
pub async fn run(options: &Options) -> anyhow::Result<Verdict> {
    let trace = Trace::load(options)?;
    let redis = cluster::coordination(options)?;
    let dir = tempfile::Builder::new()
        .prefix("kvcm-demo-")
        .tempdir()
        .context("cannot make a temporary directory")?;
    match replay(options, trace, redis.as_ref(), dir.path()).await {
        Ok(outcome) => {
            let (tables, mistakes) = (outcome.tables(), outcome.mistakes());
            let kept = (!mistakes.is_empty()).then(|| dir.keep());
            Ok(Verdict {
                tables,
                mistakes,
                kept,
            })
        }
        Err(error) => {
            let kept = dir.keep();
            bail!(
                "{error:#}\nthe nodes' logs are {}/node-*.log",
                kept.display()
            );
        }
    }
}

async fn replay(
    options: &Options,
    trace: Trace,
    redis: Option<&RedisServer>,
    dir: &Path,
) -> anyhow::Result<Outcome> {
    let requests = trace.requests.len() as u64;
    let progress = Progress::new(requests);
    let mut cluster = cluster::start(options, redis, dir).await?;
    let leader = director::leader(&cluster).await?;
    progress.say(&introduction(options, &trace, &cluster, &leader));

    let shared = Arc::new(Shared::new(trace, progress.clone()));
    let endpoints = cluster.endpoints();
    let mut engines = Vec::new();
    for number in 0..usize::from(options.engines) {
        engines.push(Engine::connect(number, &endpoints, options.lease_ms, &shared).await?);
    }
    progress.begin();
    let start = BootClock.now();
    let mut tasks = JoinSet::new();
    for engine in engines {
        tasks.spawn(engine.replay(start));
    }
    let joined = async {
        let mut seen = Seen::default();
        while let Some(engine) = tasks.join_next().await {
            seen.merge(engine.context("an engine broke off")?);
        }
        Ok(seen)
    };
    let directed = director::direct(&mut cluster, requests, &shared.phase, &progress);
    let result = tokio::try_join!(joined, directed);
    progress.end();
    let (seen, incidents) = result?;
    let elapsed = start.until(BootClock.now());
    progress.say("checking every answer");
    let names = (1..).map(|number| format!("node-{number}"));
    Ok(seen.outcome(
        start,
        elapsed,
        incidents,
        endpoints.into_iter().zip(names).collect(),
    ))
}

fn introduction(
    options: &Options,
    trace: &Trace,
    cluster: &Cluster,
    leader: &director::Leader,
) -> String {
    let coordination = match options.coordination {
        Coordination::File => "a directory",
        Coordination::Redis => "a redis-server of its own",
    };
    let pace = match trace.speed() {
        Some(speed) => format!("{speed:.0} times faster than life"),
        None => "as fast as it goes".to_owned(),
    };
    format!(
        "{} nodes on {coordination}, lease {} ms; {} leads with epoch {}\n{} requests from {} \
         engines, {pace}",
        cluster.len(),
        options.lease_ms,
        leader.name,
        leader.epoch,
        trace.requests.len(),
        options.engines,
    )
}
