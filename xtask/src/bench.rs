//! `cargo xtask bench`: builds a bench in the release profile, and runs it.

use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use clap::ValueEnum;

use crate::{metadata, shell};

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bench {
    /// The server: calls in a second and their latency, beside servers that only answer
    Api,
    /// The cache in process: lookups, writes, memory, recovery, a trace
    Cache,
    /// The client: faults of the leader under load, what it costs when idle
    Client,
    /// The coordination backends: calls, hand-overs, takeovers
    Coordination,
    /// The elector's gate: what it costs each request
    Gate,
    /// The journal: appends in a second, on disk and on Redis
    Journal,
    /// The calls that engines make all day, beside servers that only answer, and Redis
    Serve,
}

/// Runs the bench with `args`; its exit code becomes ours.
pub(crate) fn run(bench: Bench, args: &[String]) -> anyhow::Result<ExitCode> {
    match bench {
        Bench::Api => binary("api", &["kvcm-server"], args),
        Bench::Cache => binary("cache", &[], args),
        Bench::Client => binary("client", &["kvcm-server"], args),
        Bench::Coordination => binary("coordination", &[], args),
        Bench::Gate => of_crate("elector", "gate", args),
        Bench::Journal => of_crate("kvcm-journal", "journal", args),
        Bench::Serve => binary("serve", &["kvcm-server"], args),
    }
}

/// Builds and runs a bench of a crate.
fn of_crate(package: &str, bench: &str, args: &[String]) -> anyhow::Result<ExitCode> {
    let mut command = shell::cargo(["bench", "-p", package, "--bench", bench, "--"]);
    shell::run(command.args(args))?;
    Ok(ExitCode::SUCCESS)
}

/// Builds and runs a binary of `kvcm-bench`, beside the binaries of the `needed` packages.
fn binary(name: &str, needed: &[&str], args: &[String]) -> anyhow::Result<ExitCode> {
    let mut build = shell::cargo(["build", "--release", "-p", "kvcm-bench", "--bin", name]);
    for package in needed {
        build.args(["-p", package, "--bin", package]);
    }
    shell::timed("building", || shell::run(&mut build))?;
    let folder = metadata::load()?.target_directory.join("release");
    let status = Command::new(folder.join(name))
        .args(args)
        .stdin(Stdio::null())
        .status()
        .context("cannot start the bench")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
