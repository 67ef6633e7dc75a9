//! The bench of the coordination backends on a small scale: that it measures all, not how fast.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use std::process::Command;

#[test]
fn every_backend_is_measured_in_everything() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_coordination"));
    bench.args(["--calls", "10", "--rounds", "5", "--deaths", "5"]);
    bench.args(["--lease-ms", "50", "--loop-interval-ms", "20"]);
    let output = bench.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    for backend in ["memory", "file", "redis"] {
        for what in [
            "try_lock, held by another",
            "try_lock, free",
            "renew_lock",
            "lock_holder",
            "unlock",
            "hand-over, woken by watch",
            "hand-over, poll each 20 ms",
            "takeover, after the end of a 50 ms lease",
        ] {
            let is_it = |line: &str| line.starts_with(backend) && line.contains(what);
            assert!(text.lines().any(is_it), "{backend}, {what}: {text}");
        }
        assert!(text.contains(&format!("{backend}: a waiter woken by watch")));
    }
    assert!(text.contains("takeover, after SIGKILL of the holder"));
}
