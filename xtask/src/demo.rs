//! `cargo xtask demo`: builds the server and the demonstration, and runs it.

use std::process::{ExitCode, Stdio};

use anyhow::Context;

use crate::{metadata, shell};

/// Runs the demonstration with `args`; its exit code becomes ours.
pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    eprintln!("building kvcm-server and the demonstration; the first time takes some minutes");
    shell::timed("building", || {
        shell::run(&mut shell::cargo([
            "build",
            "--bins",
            "-p",
            "kvcm-server",
            "-p",
            "kvcm-bench",
        ]))
    })?;
    let folder = metadata::load()?.target_directory.join("debug");
    let status = std::process::Command::new(folder.join("demo"))
        .args(args)
        .env("KVCM_SERVER_BIN", folder.join("kvcm-server"))
        .stdin(Stdio::null())
        .status()
        .context("cannot start the demonstration")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
