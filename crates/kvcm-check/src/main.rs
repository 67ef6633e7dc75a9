//! `kvcm-check FOLDER`: checks what a run left, prints what is wrong, with its evidence.

#![expect(
    clippy::print_stdout,
    reason = "the report is what this program is for"
)]

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use kvcm_check::{check, read_folder, report};

/// Checks the history of a run against what a correct cluster may answer.
#[derive(Debug, Parser)]
struct Arguments {
    /// With `history.jsonl`, and `node-*.log` of the nodes
    folder: PathBuf,
    /// How many violations of each invariant are shown in full
    #[arg(long, default_value_t = 3)]
    shown: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let history = match read_folder(&arguments.folder) {
        Ok(history) => history,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::from(2);
        }
    };
    let violations = check(&history);
    print!("{}", report(&history, &violations, arguments.shown));
    if violations.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("again: {}", history.run.command);
    ExitCode::FAILURE
}
