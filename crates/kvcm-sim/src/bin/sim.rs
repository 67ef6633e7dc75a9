//! `cargo xtask sim`: see `cargo xtask sim --help`.

#![expect(
    clippy::print_stdout,
    reason = "the report is what this program is for"
)]

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use kvcm_clock::{BootClock, Clock as _};
use kvcm_sim::{Campaign, History, Mutant, fingerprint, replay};

/// Clusters in virtual time, one per seed; any invariant that breaks names its seed.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim", bin_name = "cargo xtask sim")]
struct Options {
    /// How many seeds; 200, or 1 where --seed is given
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed
    #[arg(long)]
    seed: Option<u64>,
    /// How long things go wrong in each run, in virtual seconds; recovery comes on top
    #[arg(long, default_value_t = 60.0)]
    virtual_seconds: f64,
    /// Threads
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Print all that happens
    #[arg(long)]
    trace: bool,
    /// Break an ingredient on purpose
    #[arg(long, value_enum, default_value_t)]
    mutant: Mutant,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let began = BootClock.now();
    let chaos = Duration::from_secs_f64(options.virtual_seconds.clamp(0.0, 1e6));
    let alone = options.seed.map_or(200, |_| 1);
    let campaign = Campaign {
        first: options.seed.unwrap_or(1),
        seeds: options.seeds.unwrap_or(alone),
        chaos,
        mutant: options.mutant,
        jobs: if options.trace { 1 } else { options.jobs },
    };
    let report = campaign.run(|history| {
        if options.trace {
            trace(history);
        }
    });
    println!("{report}");
    println!("took {:.1} s", BootClock.now().since(began).as_secs_f64());
    for (seed, violation) in report.violations.iter().take(20) {
        println!("seed {seed}: {violation}");
    }
    if let Some((seed, _)) = report.violations.first() {
        println!("replay: {}", replay(*seed, chaos));
        return ExitCode::FAILURE;
    }
    // A few runs cannot have seen everything.
    let lacks = if campaign.seeds >= 100 {
        report.lacks()
    } else {
        Vec::new()
    };
    for lack in &lacks {
        println!("not enough: {lack}");
    }
    ExitCode::from(u8::from(!lacks.is_empty()))
}

fn trace(history: &History) {
    for entry in &history.entries {
        println!("{entry}");
    }
    println!("fingerprint {:016x}", fingerprint(&history.entries));
}
