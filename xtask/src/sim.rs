//! `cargo xtask sim`: builds the simulation, and runs it.

use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;

use crate::{metadata, shell};

/// Runs the simulation with `args`; its exit code becomes ours.
pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    let build = ["build", "-p", "kvcm-sim", "--bin", "sim"];
    shell::timed("building", || shell::run(&mut shell::cargo(build)))?;
    let folder = metadata::load()?.target_directory.join("debug");
    let status = Command::new(folder.join("sim"))
        .args(args)
        .stdin(Stdio::null())
        .status()
        .context("cannot start the simulation")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
