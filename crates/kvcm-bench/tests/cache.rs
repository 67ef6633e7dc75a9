//! The bench of the cache on a small scale: that it measures all, not how fast.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use std::process::Command;

#[test]
fn every_part_is_measured_and_the_reclaimed_index_hits_as_the_exact_lru_does() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_cache"));
    bench.args([
        "--keys",
        "4000",
        "--recovered-keys",
        "2000",
        "--callers",
        "1,3",
    ]);
    bench.args(["--time-ms", "5", "--requests", "400", "--expand", "1,4"]);
    let output = bench.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let lines = |words: &[&str]| {
        let is_it = |line: &&str| {
            let cells: Vec<_> = line.split("  ").map(str::trim).collect();
            words.iter().all(|word| cells.contains(word))
        };
        let found: Vec<_> = text.lines().filter(is_it).collect();
        assert!(!found.is_empty(), "{words:?}: {text}");
        found
    };
    for words in [
        &["index, written 128 at a time", "4,000", "met"][..],
        &["128", "hit", "1"],
        &["1000", "half", "2"],
        &["1000", "miss", "1"],
        &["cache manager, start and finish"],
        &["local", "records", "2,000"],
        &["redis", "snapshot", "2,000"],
        &["redis", "plain SCAN and MGET into a map"],
        &["local", "3"],
        &["redis, AOF always", "1"],
    ] {
        lines(words);
    }
    for tokens in ["512", "128"] {
        for kept in ["10 %", "25 %", "50 %"] {
            // Few requests in few seconds, so that the hit ratio may be off by more than its goal.
            lines(&[tokens, kept]);
        }
        let all = lines(&[tokens, "100 %", "+0.00", "met"]);
        assert_eq!(all.len(), 1);
    }
}
