//! `cargo xtask sim`: see `cargo xtask sim --help`.

#![expect(
    clippy::print_stdout,
    reason = "the report is what this program is for"
)]

use std::{
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use clap::Parser;
use kvcm_clock::{BootClock, Clock as _};
use kvcm_sim::{Mutant, Plan, Report, fingerprint, judge, run};

/// Clusters in virtual time, one per seed; any invariant that breaks names its seed.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim", bin_name = "cargo xtask sim")]
struct Options {
    /// How many seeds
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first seed; without --seeds the only one
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
    let (first, seeds) = match options.seed {
        Some(seed) if !std::env::args().any(|arg| arg.starts_with("--seeds")) => (seed, 1),
        Some(seed) => (seed, options.seeds),
        None => (1, options.seeds),
    };
    let chaos = Duration::from_secs_f64(options.virtual_seconds.clamp(0.0, 1e6));
    let next = AtomicU64::new(first);
    let total = Mutex::new(Report::default());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, 64) {
            scope.spawn(|| {
                let mut report = Report::default();
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= first.saturating_add(seeds) {
                        break;
                    }
                    let mutant = options.mutant;
                    one(
                        &Plan {
                            seed,
                            chaos,
                            mutant,
                        },
                        options.trace,
                        &mut report,
                    );
                }
                if let Ok(mut total) = total.lock() {
                    total.merge(report);
                }
            });
        }
    });
    let report = total.into_inner().unwrap_or_default();
    println!("{report}");
    println!("took {:.1} s", BootClock.now().since(began).as_secs_f64());
    for (seed, violation) in report.violations.iter().take(20) {
        println!("seed {seed}: {violation}");
    }
    if let Some((seed, _)) = report.violations.first() {
        let seconds = options.virtual_seconds;
        println!("replay: cargo xtask sim --seed {seed} --virtual-seconds {seconds} --trace");
        return ExitCode::FAILURE;
    }
    // A few runs cannot have seen everything.
    let lacks = if seeds >= 100 {
        report.lacks()
    } else {
        Vec::new()
    };
    for lack in &lacks {
        println!("not enough: {lack}");
    }
    ExitCode::from(u8::from(!lacks.is_empty()))
}

fn one(plan: &Plan, trace: bool, report: &mut Report) {
    let history = run(plan);
    if trace {
        for entry in &history.entries {
            println!("{entry}");
        }
        println!("fingerprint {:016x}", fingerprint(&history.entries));
    }
    let verdict = judge(&history);
    report.add(plan.seed, Duration::from_nanos(history.end), verdict);
}
