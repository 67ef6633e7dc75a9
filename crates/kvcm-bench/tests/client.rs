//! The bench of the client on a small scale: that no fault of the leader reaches the application.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use std::process::Command;

/// Runs the bench with one fault.
fn play(fault: &str, title: &str) {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_client"));
    bench.args(["--faults", fault, "--clients", "4", "--rounds", "1"]);
    // A deadline for slow machines: what is asked is whether the client gets through, not when.
    bench.args(["--deadline-ms", "30000", "--around-ms", "500"]);
    bench.args(["--idle-clients", "0"]);
    let output = bench.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let row = text.lines().find(|line| line.starts_with(title)).unwrap();
    let cells: Vec<_> = row[title.len()..].split_whitespace().collect();
    let operations: u64 = cells[0].replace(',', "").parse().unwrap();
    assert!(operations > 0 && cells[1] == "0", "{text}");
}

#[test]
fn a_killed_leader_reaches_no_application() {
    play("kill", "kill -9 of the leader");
}

#[test]
fn a_terminated_leader_reaches_no_application() {
    play("term", "SIGTERM of the leader");
}

#[test]
fn a_stopped_leader_that_wakes_up_reaches_no_application() {
    play("stop", "SIGSTOP, 3 leases, SIGCONT");
}

#[test]
fn a_black_holed_leader_reaches_no_application() {
    play("black-hole", "black-holed leader");
}

#[test]
fn a_wrong_first_address_reaches_no_application() {
    play("wrong-address", "first address refuses");
    play("silent-address", "first address is silent");
}

#[test]
fn idle_clients_are_measured() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_client"));
    bench.args([
        "--faults",
        "wrong-address",
        "--clients",
        "1",
        "--rounds",
        "1",
    ]);
    bench.args(["--around-ms", "100", "--idle-clients", "3", "--idle-s", "1"]);
    let output = bench.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("an idle client, of 3:"), "{text}");
}
