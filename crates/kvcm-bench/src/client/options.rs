//! The command line.

use clap::Parser;

use super::Fault;

/// Break the leader of a real cluster of three nodes under the load of clients, and count what the
/// application notices; then measure what idle clients cost.
///
/// Exits with 1 when an error reached the application.
#[derive(Clone, Debug, Parser)]
#[command(name = "client", bin_name = "cargo xtask bench client", version)]
pub struct Options {
    /// Which faults
    #[arg(long, value_name = "FAULTS", value_enum, value_delimiter = ',',
          default_values_t = Fault::ALL)]
    pub faults: Vec<Fault>,

    /// Clients that make calls, one after the other each
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub clients: u16,

    /// Pause of a client between two calls, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub think_ms: u64,

    /// Deadline of a call, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000,
          value_parser = clap::value_parser!(u64).range(100..=600_000))]
    pub deadline_ms: u64,

    /// The lease, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub lease_ms: u64,

    /// Load before and after each fault, in milliseconds each
    #[arg(long, value_name = "MS", default_value_t = 2000,
          value_parser = clap::value_parser!(u64).range(100..=600_000))]
    pub around_ms: u64,

    /// How often each fault is played, each time in a new cluster
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,

    /// Clients that do nothing, to measure what they cost; 0: none
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub idle_clients: u16,

    /// How long they do nothing, in seconds
    #[arg(long, value_name = "S", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub idle_s: u64,
}
