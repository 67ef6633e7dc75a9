//! What is run.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Three real nodes, clients that remember what they were told, and faults, all from one seed; then
/// every answer is checked.
#[derive(Clone, Debug, Parser)]
#[command(name = "chaos", bin_name = "cargo xtask chaos")]
pub struct Options {
    /// Where the leader is elected
    #[arg(long, value_enum, default_value_t = Backend::File)]
    pub backend: Backend,
    /// Where registry and blocks are kept; by default beside the leader's lock
    #[arg(long, value_enum)]
    pub store: Option<Store>,
    /// How long faults go on
    #[arg(long, default_value_t = 1.0)]
    pub minutes: f64,
    /// Decides which faults come, in which order; a random one if not given
    #[arg(long)]
    pub seed: Option<u64>,
    /// A leader's lease, in milliseconds
    #[arg(long, default_value_t = 1000)]
    pub lease_ms: u64,
    /// Clients through the Rust client
    #[arg(long, default_value_t = 5)]
    pub engines: u32,
    /// Clients over bare HTTP, which repeat their requests
    #[arg(long, default_value_t = 3)]
    pub raw: u32,
    /// Clients over gRPC, from the generated code alone, which repeat their requests
    #[arg(long, default_value_t = 2)]
    pub plain: u32,
    /// How many replicas must have what the nodes write to Redis
    #[arg(long, default_value_t = 0)]
    pub wait_replicas: u32,
    /// Only faults whose kind contains this, such as `kill`
    #[arg(long)]
    pub only: Option<String>,
    /// No faults at all: nothing may happen
    #[arg(long)]
    pub quiet: bool,
    /// Ends after so many faults, if that is sooner
    #[arg(long)]
    pub faults: Option<usize>,
    /// Folder for what a run leaves, in a folder named after the seed
    #[arg(long, default_value = "target/chaos")]
    pub folder: PathBuf,
    /// Keeps the folder of a good run too
    #[arg(long)]
    pub keep: bool,
}

/// Where the leader is elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// A directory
    File,
    /// A redis-server with a replica
    Redis,
}

/// Where registry and blocks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Store {
    /// In the memory of each node
    Memory,
    /// In a directory
    Local,
    /// At a redis-server with a replica
    Redis,
}

impl Options {
    /// The store, said or not.
    pub fn store(&self) -> Store {
        self.store.unwrap_or(match self.backend {
            Backend::File => Store::Local,
            Backend::Redis => Store::Redis,
        })
    }

    /// Whether something of this run is at Redis.
    pub(super) fn has_redis(&self) -> bool {
        self.backend == Backend::Redis || self.store() == Store::Redis
    }

    /// Whether something of this run is in a directory.
    pub(super) fn has_files(&self) -> bool {
        self.backend == Backend::File || self.store() == Store::Local
    }

    /// The command that does it again.
    pub(super) fn command(&self, seed: u64) -> String {
        let word = |value: Option<clap::builder::PossibleValue>| {
            value.map_or_else(String::new, |value| value.get_name().to_owned())
        };
        let mut command = format!(
            "cargo xtask chaos --backend {} --store {} --minutes {} --seed {seed} --lease-ms {} \
             --engines {} --raw {} --plain {}",
            word(self.backend.to_possible_value()),
            word(self.store().to_possible_value()),
            self.minutes,
            self.lease_ms,
            self.engines,
            self.raw,
            self.plain,
        );
        if self.wait_replicas > 0 {
            command.push_str(&format!(" --wait-replicas {}", self.wait_replicas));
        }
        if let Some(only) = &self.only {
            command.push_str(&format!(" --only '{only}'"));
        }
        if self.quiet {
            command.push_str(" --quiet");
        }
        if let Some(faults) = self.faults {
            command.push_str(&format!(" --faults {faults}"));
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_says_all_that_was_chosen() {
        let given = [
            "chaos",
            "--backend",
            "redis",
            "--quiet",
            "--wait-replicas",
            "1",
            "--only",
            "kill",
        ];
        let options = Options::parse_from(given);
        let command = options.command(7);
        let words: Vec<_> = command
            .replace('\'', "")
            .split(' ')
            .map(str::to_owned)
            .collect();
        let again = Options::parse_from(&words[2..]);
        assert_eq!(again.seed, Some(7));
        assert_eq!(again.store(), Store::Redis);
        assert_eq!(again.command(7), command);
    }
}
