//! `cargo xtask torture`: processes that are killed and stopped at random, for longer than a test
//! run may take.

use clap::{Args, ValueEnum};

use crate::shell;

/// What is done to how many.
#[derive(Debug, Args)]
pub(crate) struct Torture {
    /// How many rounds; in each one process is killed or stopped. A thousand take about half a
    /// minute on files, and some minutes on Redis, where the dead are waited for
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// Which backend
    #[arg(long, value_enum, default_value_t = Backend::All)]
    backend: Backend,
    /// Writers of the journal instead of owners of the lock; 500 rounds take about a minute
    #[arg(long, value_enum)]
    journal: Option<Store>,
    /// Leaders of whole clusters under a write-heavy load; 300 rounds take some minutes
    #[arg(long, value_enum, conflicts_with = "journal")]
    cache: Option<Store>,
    /// Leaders of real nodes in the middle of writes to the registry; 500 rounds take a quarter of
    /// an hour for each store
    #[arg(long, value_enum, conflicts_with_all = ["journal", "cache"])]
    registry: Option<Store>,
    /// Chooses whom it hits and when; each run prints its own
    #[arg(long)]
    seed: Option<u64>,
}

/// The backends that processes can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backend {
    File,
    Redis,
    All,
}

/// The stores that processes can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Store {
    Local,
    Redis,
    All,
}

/// Runs the tests that CI runs, with more rounds; each prints what it has done and seen.
///
/// # Errors
/// When a backend has not kept its word.
pub(crate) fn run(torture: &Torture) -> anyhow::Result<()> {
    if let Some(journal) = torture.journal {
        let test = match journal {
            Store::Local => "a_directory",
            Store::Redis => "redis",
            Store::All => "loses_and_tears_nothing",
        };
        return run_tests(torture, &["kvcm-journal", "--test", "torture", test]);
    }
    if let Some(cache) = torture.cache {
        let test = match cache {
            Store::Local => "torture::an_index_in_a_directory",
            Store::Redis => "torture::an_index_on_redis",
            Store::All => "torture::an_index",
        };
        return run_tests(torture, &["kvcm-server", "--test", "nodes", test]);
    }
    if let Some(registry) = torture.registry {
        let test = match registry {
            Store::Local => "registry_torture::a_registry_in_a_directory",
            Store::Redis => "registry_torture::a_registry_on_redis",
            Store::All => "registry_torture::",
        };
        return run_tests(torture, &["kvcm-server", "--test", "nodes", test]);
    }
    if torture.backend != Backend::Redis {
        let tests = ["coordination-file", "--test", "torture"];
        shell::timed("files", || run_tests(torture, &tests))?;
    }
    if torture.backend != Backend::File {
        let tests = ["coordination-redis", "--test", "redis_server", "torture::"];
        shell::timed("redis", || run_tests(torture, &tests))?;
    }
    Ok(())
}

fn run_tests(torture: &Torture, tests: &[&str]) -> anyhow::Result<()> {
    let mut command = shell::cargo(["test", "-p"]);
    command.args(tests);
    command.args(["--", "--nocapture", "--test-threads", "1"]);
    command.env("KVCM_TORTURE_ROUNDS", torture.rounds.to_string());
    if let Some(seed) = torture.seed {
        command.env("KVCM_TORTURE_SEED", seed.to_string());
    }
    shell::run(&mut command)
}
