//! Processes that contend for the lock, are killed and are stopped, at random moments.
//!
//! `cargo xtask torture` runs the same for longer.

use std::{env, process::Command, sync::Arc, time::Duration};

use coordination_conformance::torture::{self, Harm, Report, Torture};
use kvcm_testkit::RedisServer;

use crate::common::open;

/// Tells a child where.
const URI: &str = "KVCM_TEST_URI";

#[test]
fn one_process_at_a_time_has_the_lock_and_epochs_rise_in_real_time() {
    let contention = Torture {
        harm: Harm::None,
        rounds: 300,
        // Waited for once at the end, when the last holder was killed.
        lease: Duration::from_secs(3),
    };
    let report = run(contention);
    assert!(report.reigns() >= 300, "{report}");
}

/// Nobody knows of a death here: every takeover is by the end of the lease.
#[test]
fn killing_and_stopping_at_any_moment_leaves_one_owner_at_most_and_a_lock_that_can_be_taken() {
    let stops = Torture {
        harm: Harm::StopAndKill,
        rounds: 40,
        lease: Duration::from_millis(300),
    };
    let report = run(stops.with_rounds_of_environment(1));
    assert!(report.after("expired") > 0, "{report}");
    assert_eq!(
        report.after("dead") + report.after("unknown"),
        0,
        "{report}"
    );
}

fn run(torture: Torture) -> Report {
    let server = RedisServer::start(&[]).unwrap();
    let report = torture.run(|| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([
            "--exact",
            "torture::child",
            "--nocapture",
            "--test-threads=1",
        ]);
        command.env(URI, server.uri());
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
    let uri = env::var(URI).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { torture::live(Arc::new(open(&uri))).await })
}
