//! `cargo xtask chaos`: see `cargo xtask chaos --help`.

#![expect(
    clippy::print_stdout,
    reason = "the report is what this program is for"
)]

use std::process::ExitCode;

use clap::Parser;
use kvcm_bench::{
    chaos::{Options, private_mounts, run},
    interrupt::{EndSignals, INTERRUPTED},
};

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    // Before there are threads: it starts this program again.
    private_mounts();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()?;
    let verdict = runtime.block_on(async {
        let mut signals = EndSignals::listen()?;
        tokio::select! {
            verdict = run(&options) => verdict.map(Some),
            // Dropping the run kills the nodes.
            () = signals.next() => Ok(None),
        }
    })?;
    let Some(verdict) = verdict else {
        eprintln!("interrupted");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    print!("{}", verdict.report);
    if let Some(folder) = &verdict.folder {
        println!(
            "\nhistory, schedule, command and logs: {}",
            folder.display()
        );
    }
    Ok(match verdict.violations {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
