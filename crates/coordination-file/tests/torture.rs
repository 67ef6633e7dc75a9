//! Processes that contend for the lock, are killed and are stopped, at random moments.
//!
//! `cargo xtask torture` runs the same for longer.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

mod support;

use std::{env, path::Path, process::Command, sync::Arc, time::Duration};

use coordination_conformance::torture::{self, Harm, Report, Torture};
use support::{LONG, open};
use tempfile::TempDir;

/// Tells a child where.
const DIR: &str = "KVCM_TEST_DIR";

#[test]
fn one_process_at_a_time_has_the_lock_and_epochs_rise_in_real_time() {
    let contention = Torture {
        harm: Harm::None,
        rounds: 300,
        lease: LONG,
    };
    let report = run(contention);
    assert!(report.reigns() >= 300, "{report}");
}

/// The leases outlive the test: every takeover is by proof of death.
#[test]
fn killing_at_any_moment_leaves_one_owner_at_most_and_a_lock_that_can_be_taken() {
    let kills = Torture {
        harm: Harm::Kill,
        rounds: 60,
        lease: LONG,
    };
    let report = run(kills.with_rounds_of_environment(1));
    assert!(
        report.takeovers() > 0 && report.after("dead") > 0,
        "{report}"
    );
    assert_eq!(report.after("expired"), 0, "{report}");
    assert_no_end_is_unknown(&report);
}

#[test]
fn a_process_that_was_stopped_and_superseded_has_lost_the_lock_whatever_becomes_of_it() {
    let stops = Torture {
        harm: Harm::StopAndKill,
        rounds: 20,
        lease: Duration::from_millis(300),
    };
    let report = run(stops.with_rounds_of_environment(5));
    assert_no_end_is_unknown(&report);
}

/// But that of the very first reign, whose owner can be killed when it has marked the epoch and not
/// yet written any record.
fn assert_no_end_is_unknown(report: &Report) {
    assert!(report.after("unknown") <= 1, "{report}");
}

fn run(torture: Torture) -> Report {
    let dir = TempDir::new().unwrap();
    let report = torture.run(|| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
        command.env(DIR, dir.path());
        command
    });
    eprintln!("{report}");
    report
}

/// Not a test: what a child does.
#[test]
fn child() {
    if !torture::is_child() {
        return;
    }
    let dir = env::var(DIR).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(torture::live(Arc::new(open(Path::new(&dir)))))
}
