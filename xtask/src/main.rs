//! Tasks of the project: `cargo xtask --help`.
//!
//! One file per command. Depends on no product crate, so that it works while they do not.

mod bench;
mod chaos;
mod codegen;
mod demo;
mod dist;
mod licenses;
mod metadata;
mod model;
mod packages;
mod release;
mod shell;
mod sim;
mod smoke;
mod test;
mod tidy;
mod torture;

use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

/// Tasks of the project.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// What CI runs: formatting, lints, tests (`.ci/run`)
    Ci,
    /// All tests, doc tests included; installs what they need where it can, and never skips
    Test {
        /// More arguments of `cargo test`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Build a three-node cluster, replay a trace, kill its leader: `cargo xtask demo --help`
    #[command(disable_help_flag = true)]
    Demo {
        /// Arguments of the demonstration
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measure something, in the release profile: `cargo xtask bench coordination --help`
    #[command(disable_help_flag = true)]
    Bench {
        /// What to measure
        bench: bench::Bench,
        /// Arguments of the bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Generate crates/kvcm-proto/src/generated from proto/
    Codegen {
        /// Write nothing; fail when the checked-in files differ
        #[arg(long)]
        check: bool,
    },
    /// Search the model of the election
    Model {
        /// How many different states to see, about; ten million take two minutes and 1 GB
        #[arg(long, default_value_t = 10_000_000)]
        states: u64,
    },
    /// Run clusters in virtual time, with faults, one per seed: `cargo xtask sim --help`
    #[command(disable_help_flag = true)]
    Sim {
        /// Arguments of the simulation
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Torment a real cluster and check what its clients were told: `cargo xtask chaos --help`
    #[command(disable_help_flag = true)]
    Chaos {
        /// Arguments of the torment
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The same for hours, on one backend after the other
    Soak(chaos::Soak),
    /// Kill and stop processes that contend for one lock, a thousand times
    Torture(torture::Torture),
    /// Pack what is shipped, a tarball and a Debian package in target/dist, and start both
    Dist {
        /// Pack the development build instead: quick, to try the packing itself
        #[arg(long)]
        dev: bool,
    },
    /// Check, write the changelog, set the version, tag; only shows it unless told otherwise
    Release {
        /// The new version: 1.2.3
        version: String,
        /// Really do it
        #[arg(long)]
        execute: bool,
    },
    /// Check what the compiler does not: the crate graph, file headers, stray paths, dead links
    Tidy,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Ci => shell::run(
            Command::new("bash")
                .arg(".ci/run")
                .current_dir(shell::root()),
        ),
        Task::Test { args } => test::run(&args),
        Task::Demo { args } => match demo::run(&args) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Task::Bench { bench, args } => match bench::run(bench, &args) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Task::Sim { args } => match sim::run(&args) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Task::Chaos { args } => match chaos::run(&args) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Task::Soak(soak) => chaos::soak(&soak),
        Task::Codegen { check } => codegen::run(check),
        Task::Dist { dev } => dist::run(dev),
        Task::Release { version, execute } => release::run(&version, execute),
        Task::Model { states } => model::run(states),
        Task::Torture(torture) => torture::run(&torture),
        Task::Tidy => tidy::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
