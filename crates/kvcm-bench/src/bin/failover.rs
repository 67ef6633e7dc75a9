//! `cargo xtask bench failover`: see `cargo xtask bench failover --help`.

#![expect(
    clippy::print_stdout,
    reason = "the tables are what this program is for"
)]

use std::process::ExitCode;

use clap::Parser;
use kvcm_bench::{
    failover::{ContenderOptions, Options, contend, run},
    interrupt::{INTERRUPTED, Interrupt},
};

/// What is asked for is not installed.
const MISSING: u8 = 3;

fn main() -> ExitCode {
    // A contender for another system's leadership is this program again.
    let mut words = std::env::args_os().skip(1).peekable();
    let done = match words.peek().is_some_and(|word| word == "contend") {
        true => be_contender(&ContenderOptions::parse_from(words)),
        false => bench(&Options::parse()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn be_contender(options: &ContenderOptions) -> anyhow::Result<ExitCode> {
    // Two threads: writes do not wait for the election, nor the other way round.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(contend(options))?;
    Ok(ExitCode::SUCCESS)
}

fn bench(options: &Options) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::on_signals()?;
    let outcome = match run(options, &interrupt) {
        Err(error) if interrupt.is_told() => {
            eprintln!("{error:#}");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        done => done?,
    };
    print!("{}", outcome.tables);
    for line in &outcome.broken {
        eprintln!("error: broken off: {line}");
    }
    for line in &outcome.missing {
        eprintln!("error: left out: {line}");
    }
    Ok(
        match (outcome.broken.is_empty(), outcome.missing.is_empty()) {
            (true, true) => ExitCode::SUCCESS,
            (true, false) => ExitCode::from(MISSING),
            (false, _) => ExitCode::FAILURE,
        },
    )
}
