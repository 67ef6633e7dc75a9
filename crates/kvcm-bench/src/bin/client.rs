//! `cargo xtask bench client`: see `cargo xtask bench client --help`.

#![expect(
    clippy::print_stdout,
    reason = "the tables are what this program is for"
)]

use std::process::ExitCode;

use clap::Parser;
use kvcm_bench::client::{Options, run};

/// Threads for every processor, like an engine.
#[tokio::main]
async fn main() -> ExitCode {
    match run(&Options::parse()).await {
        Ok(outcome) => {
            print!("{}", outcome.tables);
            if outcome.errors == 0 {
                ExitCode::SUCCESS
            } else {
                eprintln!("error: {} errors reached the application", outcome.errors);
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
