//! The bench of the hot calls on a small scale: that it measures all, not how fast.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use std::process::Command;

#[test]
fn every_line_is_measured_over_both_transports_beside_both_peers() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_serve"));
    bench.args(["--clients", "2", "--turns", "1", "--turn-ms", "20"]);
    bench.args(["--keys", "4000", "--bodies", "4"]);
    bench.args(["--trace-requests", "10", "--expand", "2"]);
    let output = bench.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    for over in ["grpc", "http"] {
        for call in [
            "hit, 128 keys",
            "hit, 1000 keys",
            "half of 1000 keys",
            "miss, 1000 keys",
            "write, start and finish of 128",
            "trace, 2 keys for 512 tokens, 100 % kept",
            "trace, 2 keys for 512 tokens, 10 % kept",
        ] {
            let is_it = |line: &&str| {
                line.starts_with(call) && line.split_whitespace().any(|word| word == over)
            };
            let line = text.lines().find(is_it);
            let line = line.unwrap_or_else(|| panic!("{call} over {over}: {text}"));
            // The trace has no bare server, and Redis evicts nothing.
            let dashes = line.split_whitespace().filter(|word| *word == "-").count();
            let allowed = match call {
                call if call.ends_with(" 10 % kept") => 6..=6,
                call if call.starts_with("trace") => 3..=3,
                _ => 0..=0,
            };
            assert!(allowed.contains(&dashes), "{line}");
        }
    }
    assert!(text.contains("goal 0.9"), "{text}");
}
