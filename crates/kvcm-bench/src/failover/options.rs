//! The command line.

use std::{path::PathBuf, time::Duration};

use anyhow::Context;
use clap::Parser;

use super::{Fault, Kind, Lane};

/// Break the leader of kvcm, and of what others use, and measure for how long nobody can write.
///
/// Rounds are added to those already in the folder, and the table is of all of them: a long
/// measurement may be made in parts. Exits with 1 when a case broke off, with 3 when a system was
/// asked for that is not installed.
#[derive(Clone, Debug, Parser)]
#[command(name = "failover", bin_name = "cargo xtask bench failover", version)]
pub struct Options {
    /// Which systems
    #[arg(long, value_name = "SYSTEMS", value_enum, value_delimiter = ',',
          default_values_t = Kind::ALL)]
    pub systems: Vec<Kind>,

    /// Which faults
    #[arg(long, value_name = "FAULTS", value_enum, value_delimiter = ',',
          default_values_t = Fault::ALL)]
    pub faults: Vec<Fault>,

    /// Leases of the tuned lane, in seconds
    #[arg(long, value_name = "S", value_delimiter = ',', default_values_t = [1, 2, 10],
          value_parser = clap::value_parser!(u64).range(1..=600))]
    pub leases: Vec<u64>,

    /// The same lease for all, or what each system comes with
    #[arg(long, value_name = "LANES", value_enum, value_delimiter = ',',
          default_values_t = [Lane::Tuned, Lane::Defaults])]
    pub lanes: Vec<Lane>,

    /// How often each fault is played at each lease
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,

    /// The same for the timings that systems come with, most of which are slow
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub default_rounds: u32,

    /// Where rounds.jsonl, table.txt and failover.svg are kept; target/bench/failover if not given
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Forget the rounds that are in the folder
    #[arg(long)]
    pub fresh: bool,

    /// Measure nothing: table and plot of the rounds that are in the folder
    #[arg(long, conflicts_with = "fresh")]
    pub report: bool,
}

impl Options {
    pub(super) fn leases(&self) -> impl Iterator<Item = Duration> {
        self.leases.iter().copied().map(Duration::from_secs)
    }

    pub(super) fn rounds_of(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Tuned => self.rounds,
            Lane::Defaults => self.default_rounds,
        }
    }

    /// Beside the program, in cargo's target directory, unless told otherwise.
    pub(super) fn folder(&self) -> anyhow::Result<PathBuf> {
        if let Some(folder) = &self.out {
            return Ok(folder.clone());
        }
        let program = std::env::current_exe()?;
        let target = program.ancestors().nth(2).context("--out is not given")?;
        Ok(target.join("bench/failover"))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_bad_values_are_named() {
        Options::command().debug_assert();
        let parsed = Options::try_parse_from(["failover"]).unwrap();
        assert_eq!((parsed.systems.len(), parsed.faults.len()), (6, 5));
        assert!(parsed.rounds >= 20 && parsed.leases == [1, 2, 10]);
        let part = [
            "failover",
            "--systems",
            "kvcm-file,plain",
            "--faults",
            "hand-over",
        ];
        let part = Options::try_parse_from(part).unwrap();
        assert_eq!(part.systems, [Kind::KvcmFile, Kind::Plain]);
        assert_eq!(part.faults, [Fault::HandOver]);
        for (option, value) in [
            ("--leases", "0"),
            ("--systems", "consul"),
            ("--rounds", "0"),
        ] {
            let error = Options::try_parse_from(["failover", option, value]).unwrap_err();
            assert!(error.to_string().contains(option), "{error}");
        }
    }
}
