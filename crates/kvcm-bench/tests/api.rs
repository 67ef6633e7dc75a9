//! The bench of the server's calls on a small scale: that it measures all, not how fast.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use std::process::Command;

#[test]
fn every_call_is_measured_over_both_transports_and_beside_every_switch() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_api"));
    bench.args(["--clients", "1,9", "--turns", "2", "--turn-ms", "5"]);
    let output = bench.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let has = |parts: [&str; 3]| {
        let is_it = |line: &str| {
            let words: Vec<_> = line.split("  ").map(str::trim).collect();
            line.starts_with(parts[0]) && parts[1..].iter().all(|part| words.contains(part))
        };
        assert!(text.lines().any(is_it), "{parts:?}: {text}");
    };
    for over in ["gRPC", "HTTP"] {
        for call in [
            "NotLeader, follower",
            "GetClusterInfo, follower",
            "RegisterInstance again, leader",
            "ListStorage, leader",
        ] {
            for clients in ["1", "9"] {
                has([call, over, clients]);
            }
        }
        for switch in [
            "access log",
            "metrics page",
            "TLS",
            "bearer token",
            "account",
        ] {
            for call in ["GetClusterInfo", "RegisterInstance again"] {
                has([switch, call, over]);
            }
        }
        has(["bearer token", "ListStorage", over]);
    }
    assert!(text.contains("goal 30,000"), "{text}");
}
