//! The bench of failover: for how long nobody could write, beside the systems that others use.
//!
//! What is compared, and why that is fair, stands in docs/BENCHMARKS.md.

mod contender;
mod daemon;
mod fault;
mod group;
mod kvcm;
mod measure;
mod options;
mod plot;
mod prober;
mod record;
mod report;
mod round;
mod sentinel;
mod server;
mod setting;
mod system;
mod writer;

use std::fs;

use anyhow::Context;

pub use contender::{ContenderOptions, contend};
pub use fault::Fault;
pub use options::Options;
pub use setting::{Kind, Lane};

use crate::interrupt::Interrupt;
use record::{Log, Run};
use setting::Setting;

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// For stdout: of all rounds in the folder, those of earlier runs included.
    pub tables: String,
    /// Systems that were asked for and are not installed, with what to do.
    pub missing: Vec<String>,
    /// Cases that broke off.
    pub broken: Vec<String>,
}

/// Plays what `options` ask for, adds each round to the folder's records, and gives the tables.
///
/// # Errors
/// When the folder cannot be written, and when `interrupt` is told: all that was started has ended
/// then. A case that breaks off is told in the outcome.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let folder = options.folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut log = Log::open(&folder.join("rounds.jsonl"), options.fresh)?;
    let mut missing = Vec::new();
    let mut broken = Vec::new();
    if !options.report {
        let mut found = Vec::new();
        for kind in &options.systems {
            match system::version(*kind) {
                Ok(version) => found.push((*kind, version)),
                Err(error) => missing.push(format!("{}: {error:#}", kind.name())),
            }
        }
        log.add_run(&Run::now(&found))?;
        for setting in settings(options, &found) {
            let what = setting.to_string();
            if let Err(error) = play(&setting, options, &mut log, interrupt) {
                interrupt.check().with_context(|| {
                    format!("the rounds so far are kept in {}", folder.display())
                })?;
                broken.push(format!("{what}: {error:#}"));
                eprintln!("{what}: {error:#}");
            }
        }
    }
    let records = log.read()?;
    let tables = report::tables(&records);
    fs::write(folder.join("table.txt"), &tables)?;
    plot::draw(&records, &folder.join("failover.svg"))?;
    Ok(Outcome {
        tables,
        missing,
        broken,
    })
}

/// All that is played, the quick first.
fn settings(options: &Options, found: &[(Kind, String)]) -> Vec<Setting> {
    let mut settings = Vec::new();
    for lane in &options.lanes {
        let kinds = found.iter().map(|(kind, _)| *kind);
        match lane {
            Lane::Defaults => settings.extend(kinds.map(Setting::defaults)),
            Lane::Tuned => settings.extend(options.leases().flat_map(|lease| {
                let kinds = kinds.clone();
                kinds.map(move |kind| Setting::tuned(kind, lease))
            })),
        }
    }
    settings
}

/// One system at one lease: all faults, one after the other, on one cluster.
fn play(
    setting: &Setting,
    options: &Options,
    log: &mut Log,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    eprintln!("{setting}");
    let mut system = system::start(setting, interrupt)?;
    for fault in &options.faults {
        if fault.is_outage() && !system.has_backend() {
            eprintln!("  {}: there is no server that could fail", fault.title());
            continue;
        }
        for number in 0..options.rounds_of(setting.lane) {
            if number > 0 && system.wants_a_new_one() {
                system = system::start(setting, interrupt)?;
            }
            let record = round::play(&mut *system, setting, *fault, number, interrupt)
                .with_context(|| format!("{}, round {number}", fault.title()))?;
            eprintln!("  {record}");
            log.add(&record)?;
        }
        if system.wants_a_new_one() {
            system = system::start(setting, interrupt)?;
        }
    }
    Ok(())
}
