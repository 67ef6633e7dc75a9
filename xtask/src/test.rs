//! `cargo xtask test`: everything that can be tested, nothing skipped.

use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::{packages, shell};

const REDIS: &str = "redis-server";

/// Everything is built once, with all that can be built in. The lints look at the build without.
const FEATURES: [&str; 2] = ["--features", "kvcm-server/otlp"];

/// Installs what the tests need, builds them, runs them. `args` are handed to `cargo test`.
///
/// Nothing is printed after the tests, so that the output ends with the runner's own summary.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    need_redis()?;
    let extra = || args.iter().map(String::as_str);
    shell::timed("building the tests", || {
        // What follows `--` is for the test programs, which do not run yet.
        let build = extra().take_while(|arg| *arg != "--");
        let words = ["test", "--workspace", "--no-run"].into_iter();
        shell::run(&mut shell::cargo(words.chain(FEATURES).chain(build)))
    })?;
    let words = ["test", "--workspace", "--no-fail-fast"].into_iter();
    shell::run(&mut shell::cargo(words.chain(FEATURES).chain(extra())))
}

/// The tests of the Redis backend start a server of their own; a missing one must not become a
/// skipped test.
fn need_redis() -> anyhow::Result<()> {
    if let Some(found) = redis() {
        eprintln!("{REDIS}: {}", found.display());
        return Ok(());
    }
    let hint = format!(
        "the tests need {REDIS}: install it (Debian, Ubuntu: `apt-get install {REDIS}`; \
         others: see its documentation), or set REDIS_SERVER_BIN \
         to its file, and run `cargo xtask test` again"
    );
    packages::install(REDIS, REDIS).context(hint.clone())?;
    if redis().is_none() {
        bail!("apt-get went well, but there is still no {REDIS} on the path; {hint}");
    }
    Ok(())
}

fn redis() -> Option<PathBuf> {
    match std::env::var_os("REDIS_SERVER_BIN").filter(|file| !file.is_empty()) {
        Some(file) => Some(PathBuf::from(file)).filter(|file| file.is_file()),
        None => shell::find_program(REDIS),
    }
}
