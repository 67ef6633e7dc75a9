//! `cargo xtask bench`: builds a bench in the release profile, and runs it.

use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use clap::ValueEnum;

use crate::{metadata, shell};

/// What can be measured. Each is a binary of `kvcm-bench` of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bench {
    /// The coordination backends: calls, hand-overs, takeovers
    Coordination,
}

impl Bench {
    fn binary(self) -> &'static str {
        match self {
            Self::Coordination => "coordination",
        }
    }
}

/// Runs the bench with `args`; its exit code becomes ours.
pub(crate) fn run(bench: Bench, args: &[String]) -> anyhow::Result<ExitCode> {
    let binary = bench.binary();
    let build = ["build", "--release", "-p", "kvcm-bench", "--bin", binary];
    shell::timed("building", || shell::run(&mut shell::cargo(build)))?;
    let folder = metadata::load()?.target_directory.join("release");
    let status = Command::new(folder.join(binary))
        .args(args)
        .stdin(Stdio::null())
        .status()
        .context("cannot start the bench")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
