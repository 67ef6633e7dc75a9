//! A whole run, from the start of the nodes to the verdict.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use kvcm_check::{Floors, Record, Run, check, read_folder, report};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    Options, Store,
    engine::{self, Engine, Shared},
    fault::Fault,
    keys::Keys,
    links::End,
    nemesis::Nemesis,
    node::Node,
    raw::Raw,
    recorder::{Recorder, now},
    schedule::Schedule,
    world::{NODES, World},
};

/// Changes of leader that a minute of faults has to show.
const CHANGES_PER_MINUTE: f64 = 10.0;
const OK_SHARE: f64 = 0.95;
/// How long the end of a fault may be followed by none: two leases, and what it takes a busy
/// machine to start nodes.
const RECOVERY: Duration = Duration::from_secs(10);
/// Calm before the first fault and after the last.
const CALM: Duration = Duration::from_secs(2);
/// Cases that the report shows of each kind.
const SHOWN: usize = 3;

/// What a run found.
#[derive(Debug)]
pub struct Verdict {
    /// Tables and violations, for stdout.
    pub report: String,
    /// How many promises were not kept.
    pub violations: usize,
    /// History, schedule, command and logs, unless a good run has removed them.
    pub folder: Option<PathBuf>,
}

/// Runs a cluster through its faults and checks what its clients were told. An error means that
/// the run could not be carried out.
///
/// # Errors
/// A server that is missing or does not start, a file that cannot be written.
pub async fn run(options: &Options) -> anyhow::Result<Verdict> {
    let seed = options
        .seed
        .unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    let folder = options.folder.join(seed.to_string());
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    fs::create_dir_all(&folder)?;
    let folder = fs::canonicalize(&folder)?;
    fs::write(folder.join("command"), options.command(seed) + "\n")?;
    let carried_out = torment(options, seed, &folder).await;
    carried_out.with_context(|| format!("the nodes' logs are {}/node-*.log", folder.display()))?;
    let history = read_folder(&folder)?;
    let violations = check(&history);
    let is_kept = options.keep || !violations.is_empty();
    let report = report(&history, &violations, SHOWN);
    fs::write(folder.join("report.txt"), &report)?;
    if !is_kept {
        fs::remove_dir_all(&folder)?;
    }
    Ok(Verdict {
        report,
        violations: violations.len(),
        folder: is_kept.then_some(folder),
    })
}

async fn torment(options: &Options, seed: u64, folder: &Path) -> anyhow::Result<()> {
    let recorder = Recorder::create(folder)?;
    recorder.add(&Record::Run(header(options, seed)))?;
    let mut world = World::start(options, folder).await?;
    if world
        .wait_for_leader(Duration::from_secs(30))
        .await
        .is_none()
    {
        bail!("no leader after the start");
    }
    let faults = match options.quiet {
        true => Vec::new(),
        false => Fault::of(options, world.disk.is_small()),
    };
    if faults.is_empty() && !options.quiet {
        bail!("no fault of this kind in such a run");
    }
    if options.has_files() && !world.disk.is_small() {
        eprintln!("no disk of our own (that takes root and `unshare`): it is never full");
    }
    let schedule = Schedule::new(seed, faults, Duration::from_millis(options.lease_ms));
    let most = options.faults.unwrap_or(usize::MAX);
    let planned: Vec<_> = schedule.clone().take(most.min(1000)).collect();
    fs::write(
        folder.join("schedule.json"),
        serde_json::to_vec_pretty(&planned)?,
    )?;

    let shared = Shared {
        recorder: recorder.clone(),
        keys: Keys::new(now()),
        stop: CancellationToken::new(),
    };
    let text = |address: std::net::SocketAddr| address.to_string();
    let endpoints: Vec<_> = world.addresses(End::Rpc).into_iter().map(text).collect();
    let nodes: Vec<_> = world
        .addresses(End::Http)
        .into_iter()
        .map(Node::http)
        .collect();
    let by_grpc = world.addresses(End::Rpc).into_iter().map(Node::grpc);
    let by_grpc: Vec<_> = by_grpc.collect::<anyhow::Result<_>>()?;
    let mut engines = JoinSet::new();
    for engine in engine::connect_all(options.engines, &endpoints, &shared, seed).await? {
        engines.spawn(engine.work());
    }
    let mut raws = JoinSet::new();
    for number in 0..options.raw {
        let raw = Raw::new(1000 + number, nodes.clone(), &shared, seed);
        raws.spawn(raw.work());
    }
    for number in 0..options.plain {
        let plain = Raw::new(2000 + number, by_grpc.clone(), &shared, seed);
        raws.spawn(plain.work());
    }

    tokio::time::sleep(CALM).await;
    let harmed = harm(options, &mut world, &recorder, schedule.take(most)).await;
    world.links.heal();
    let is_led = matches!(harmed, Ok(true));
    if is_led {
        tokio::time::sleep(CALM).await;
    }
    shared.stop.cancel();
    let swept = sweep(engines, raws, is_led).await;
    recorder.flush()?;
    harmed?;
    swept?;
    for node in 0..NODES {
        world.cluster.node(node).term()?;
    }
    for node in 0..NODES {
        let ended = tokio::time::timeout(Duration::from_secs(20), world.cluster.node(node).wait());
        ended.await.context("a node does not end on SIGTERM")??;
    }
    Ok(())
}

/// Does one step after the other. False when nobody leads after one.
async fn harm(
    options: &Options,
    world: &mut World,
    recorder: &Recorder,
    steps: impl Iterator<Item = super::schedule::Step>,
) -> anyhow::Result<bool> {
    let time = Duration::from_secs_f64(options.minutes * 60.0);
    let end = tokio::time::Instant::now() + time;
    let mut nemesis = Nemesis { world, recorder };
    for (number, step) in steps.enumerate() {
        // A slow machine gets as much time again to show enough.
        let late = tokio::time::Instant::now().saturating_duration_since(end);
        let is_due = tokio::time::Instant::now() >= end;
        if is_due && (recorder.changes() >= changes_due(options) || late >= time) {
            return Ok(true);
        }
        eprintln!(
            "{:>4}  {}, {} ms",
            number + 1,
            step.fault.as_str(),
            step.lasts.as_millis()
        );
        if !nemesis.step(&step).await? {
            eprintln!("      no leader since");
            return Ok(false);
        }
    }
    if options.quiet {
        tokio::time::sleep_until(end).await;
    }
    Ok(true)
}

/// Lets the clients end their calls, and has them ask for everything once more if anybody leads.
async fn sweep(
    mut engines: JoinSet<anyhow::Result<Engine>>,
    mut raws: JoinSet<anyhow::Result<Raw>>,
    is_led: bool,
) -> anyhow::Result<()> {
    let mut first = None;
    while let Some(engine) = engines.join_next().await {
        first = Some(engine.context("an engine broke off")??);
    }
    while let Some(raw) = raws.join_next().await {
        let mut raw = raw.context("a client broke off")??;
        if is_led {
            raw.sweep().await?;
        }
    }
    if let Some(mut engine) = first.filter(|_| is_led) {
        engine.sweep().await?;
    }
    Ok(())
}

fn header(options: &Options, seed: u64) -> Run {
    let outlives = options.store() != Store::Memory;
    Run {
        seed,
        command: options.command(seed),
        lease: options.lease_ms * 1_000_000,
        durable_blocks: outlives,
        durable_registry: outlives,
        durable_answers: outlives,
        recovery: u64::try_from(RECOVERY.as_nanos()).unwrap_or(u64::MAX),
        floors: Floors {
            leader_changes: changes_due(options),
            ok_share: OK_SHARE,
        },
    }
}

/// How many changes of leader the run has to show.
fn changes_due(options: &Options) -> usize {
    match options.quiet || options.only.is_some() || options.faults.is_some() {
        true => 0,
        false => (options.minutes * CHANGES_PER_MINUTE) as usize,
    }
}
