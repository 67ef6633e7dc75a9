//! The bench of failover on a small scale: that it measures real processes, and keeps what it saw.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use std::{fs, process::Command};

use serde_json::Value;

/// Runs the bench, and gives its table and the rounds that it kept.
fn play(args: &[&str]) -> (String, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_failover"));
    bench.args(args).args([
        "--leases", "1", "--lanes", "tuned", "--rounds", "1", "--out",
    ]);
    let output = bench.arg(dir.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(dir.path().join("failover.svg").is_file());
    assert_eq!(
        fs::read_to_string(dir.path().join("table.txt")).unwrap(),
        text
    );
    let lines = fs::read_to_string(dir.path().join("rounds.jsonl")).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let rounds = lines.filter(|line: &Value| line["line"] == "round");
    (text, rounds.collect())
}

#[test]
fn a_killed_leader_leaves_a_gap_and_no_second_leader() {
    let (text, rounds) = play(&["--systems", "kvcm-file", "--faults", "kill"]);
    assert!(text.contains("kill -9 of the leader"), "{text}");
    let [round] = &rounds[..] else {
        panic!("{rounds:?}");
    };
    assert!(round["gap_us"].as_u64().unwrap() > 0 && round["writes"].as_u64().unwrap() > 10);
    let told = (&round["recovered"], &round["changed"], &round["stale"]);
    assert_eq!(told, (&true.into(), &true.into(), &0.into()));
}

#[test]
fn contenders_of_another_system_hand_over_and_outlast_its_server() {
    let (text, rounds) = play(&["--systems", "plain", "--faults", "hand-over,long-outage"]);
    assert!(text.contains("plain-lock"), "{text}");
    assert_eq!(rounds.len(), 2);
    assert!(rounds[0]["recovered"] == true && rounds[0]["changed"] == true);
    // Nobody can write while the server is away.
    assert!(
        rounds[1]["gap_us"].as_u64().unwrap() >= 1_500_000,
        "{rounds:?}"
    );
}
