//! `cargo xtask chaos` and `cargo xtask soak`: build the server and the tormentor, and run it.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;

use crate::{metadata, shell};

/// Runs again and again, other faults each time, until one is wrong.
#[derive(Debug, Args)]
pub(crate) struct Soak {
    /// How long, about; each run ends first
    #[arg(long, default_value_t = 1.0)]
    hours: f64,
    /// Minutes of one run
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
}

/// Backend and store of the runs of a soak, in turn.
const KINDS: [[&str; 2]; 4] = [
    ["file", "local"],
    ["redis", "redis"],
    ["redis", "local"],
    ["file", "redis"],
];

/// A server that nothing keeps from serving and writing as a superseded leader.
const BLIND: &str = "kvcm-server-blind";
/// Within so many faults it must be found out.
const BLIND_FAULTS: &str = "50";
/// What the report of such a server has to name: one of these.
const FINDINGS: [&str; 3] = ["I1 ", "I2 ", "I3 "];

/// Runs the torment with `args`; its exit code becomes ours. With `--blind` among them it torments
/// a server without gate and fence instead, and must find it wrong.
pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    let (blind, args): (Vec<_>, Vec<_>) = args.iter().partition(|arg| *arg == "--blind");
    if !blind.is_empty() {
        return run_blind(&args);
    }
    let folder = build()?;
    let status = chaos(&folder).args(args).status();
    let status = status.context("cannot start the torment")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn run_blind(args: &[&String]) -> anyhow::Result<ExitCode> {
    let server = [
        "build",
        "-p",
        "kvcm-server",
        "--features",
        "unsafe-no-fencing",
    ];
    shell::run(&mut shell::cargo(server))?;
    let folder = metadata::load()?.target_directory.join("debug");
    std::fs::copy(folder.join("kvcm-server"), folder.join(BLIND))?;
    // Puts the real one back into its place.
    build()?;
    let output = chaos(&folder)
        .args(["--minutes", "60", "--faults", BLIND_FAULTS])
        .args(args)
        .env("KVCM_SERVER_BIN", folder.join(BLIND))
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start the torment")?;
    let report = String::from_utf8_lossy(&output.stdout);
    eprint!("{report}");
    let mut lines = report.lines();
    if lines.any(|line| FINDINGS.iter().any(|finding| line.starts_with(finding))) {
        eprintln!("\nfound out, as it must be");
        return Ok(ExitCode::SUCCESS);
    }
    anyhow::bail!("a server without gate and fence was not found out")
}

/// Runs one kind of cluster after the other until the time is over.
///
/// # Errors
/// The first run that finds something, which names its folder.
pub(crate) fn soak(soak: &Soak) -> anyhow::Result<()> {
    let folder = build()?;
    let start = now();
    let mut runs = 0;
    for [backend, store] in KINDS.into_iter().cycle() {
        if start.elapsed() >= Duration::from_secs_f64(soak.hours * 3600.0) {
            break;
        }
        let minutes = soak.minutes.to_string();
        let mut command = chaos(&folder);
        command.args([
            "--backend",
            backend,
            "--store",
            store,
            "--minutes",
            &minutes,
        ]);
        shell::timed(&format!("{backend}, {store}"), || shell::run(&mut command))?;
        runs += 1;
    }
    eprintln!("{runs} runs, nothing wrong");
    Ok(())
}

fn build() -> anyhow::Result<PathBuf> {
    eprintln!("building kvcm-server and the torment; the first time takes some minutes");
    shell::timed("building", || {
        let packages = ["-p", "kvcm-server", "-p", "kvcm-bench"];
        let bins = ["build", "--bin", "kvcm-server", "--bin", "chaos"];
        shell::run(&mut shell::cargo(bins.into_iter().chain(packages)))
    })?;
    Ok(metadata::load()?.target_directory.join("debug"))
}

fn chaos(folder: &Path) -> Command {
    let mut command = Command::new(folder.join("chaos"));
    command.current_dir(shell::root()).stdin(Stdio::null());
    // Another server, such as one that is known to be wrong, may be named.
    if std::env::var_os("KVCM_SERVER_BIN").is_none() {
        command.env("KVCM_SERVER_BIN", folder.join("kvcm-server"));
    }
    command
}

#[expect(
    clippy::disallowed_methods,
    reason = "xtask depends on no product crate, and only the length of a soak depends on it"
)]
fn now() -> Instant {
    Instant::now()
}
