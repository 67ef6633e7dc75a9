//! `cargo xtask chaos`: see `cargo xtask chaos --help`.

#![expect(
    clippy::print_stdout,
    reason = "the report is what this program is for"
)]

use std::process::ExitCode;

use clap::Parser;
use kvcm_bench::chaos::{Options, private_mounts, run};

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    // Before there are threads: it starts this program again.
    private_mounts();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()?;
    let verdict = runtime.block_on(async {
        tokio::select! {
            verdict = run(&options) => Some(verdict),
            // Dropping the run kills the nodes.
            _ = tokio::signal::ctrl_c() => None,
        }
    });
    let Some(verdict) = verdict else {
        eprintln!("interrupted");
        return Ok(ExitCode::from(130));
    };
    let verdict = verdict?;
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
