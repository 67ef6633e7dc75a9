//! `cargo xtask demo`: see `cargo xtask demo --help`.

#![expect(
    clippy::print_stdout,
    reason = "the tables are what this program is for"
)]

use std::process::ExitCode;

use clap::Parser;
use kvcm_bench::demo::{Options, run};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let verdict = tokio::select! {
        verdict = run(&options) => verdict,
        // Dropping the run kills the nodes and removes their files.
        code = interrupted() => {
            eprintln!("interrupted");
            return ExitCode::from(code);
        }
    };
    let verdict = match verdict {
        Ok(verdict) => verdict,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    print!("{}", verdict.tables);
    if verdict.mistakes.is_empty() {
        println!("\nno error reached an engine, and no answer contradicts another");
        return ExitCode::SUCCESS;
    }
    println!("\nWRONG:");
    for mistake in &verdict.mistakes {
        println!("{mistake}");
    }
    if let Some(kept) = &verdict.kept {
        println!("the nodes' logs are {}/node-*.log", kept.display());
    }
    ExitCode::FAILURE
}

/// Waits for SIGINT or SIGTERM; the code that a shell gives for it.
async fn interrupted() -> u8 {
    let Ok(mut term) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => 130,
        _ = term.recv() => 143,
    }
}
