//! `cargo xtask bench coordination`: see `cargo xtask bench coordination --help`.

#![expect(
    clippy::print_stdout,
    reason = "the tables are what this program is for"
)]

use std::process::ExitCode;

use clap::Parser;
use kvcm_bench::coordination::{Options, run, serve};

/// One thread, like the one that the server runs its election on.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.holder {
        Some(uri) => serve(uri).await,
        None => run(&options).await.map(|tables| print!("{tables}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
