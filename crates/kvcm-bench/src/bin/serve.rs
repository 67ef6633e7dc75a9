//! `cargo xtask bench serve`: see `cargo xtask bench serve --help`.

#![expect(
    clippy::print_stdout,
    reason = "the tables are what this program is for"
)]

use std::process::ExitCode;

use clap::Parser;
use kvcm_bench::serve::{Options, run, serve};

/// Threads for every processor, like the server.
#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.bare {
        Some(file) => serve(file, |grpc, http| println!("{grpc} {http}")).await,
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
