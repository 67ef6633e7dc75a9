//! Whoever is told to end leaves no process and no file behind.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

const LOOK: Duration = Duration::from_millis(20);
const LOOKS_MAX: u32 = 6000;

/// The processes that have `folder` as their folder for temporary files, whoever their parent is
/// by now. Those that have ended and are not waited for are not among them.
fn living(folder: &Path) -> Vec<u32> {
    let mark = format!("TMPDIR={}", folder.display()).into_bytes();
    let is_marked = |pid: &u32| {
        let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        // redis-server writes its title over its variables, and works in its own folder.
        let works_in = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|text| text == mark) || works_in.starts_with(folder)
    };
    let names = fs::read_dir("/proc").unwrap();
    let pids = names.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(is_marked).collect()
}

/// Starts `program`, waits until it has started as many processes as `of_its_own`, sends `signal`
/// to it alone, and looks at what is left.
fn ends_with_all_it_started(program: &str, args: &[&str], of_its_own: usize, signal: Signal) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("tmp");
    fs::create_dir(&folder).unwrap();
    let mut command = Command::new(program);
    command.args(args).arg(dir.path().join("out"));
    command.env("TMPDIR", &folder).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_for(&mut child, &folder, 1 + of_its_own);
    kill_process(Pid::from_child(&child), signal).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{args:?}");
    assert_eq!(living(&folder), [0; 0], "{args:?}");
    let files: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert!(files.is_empty(), "{files:?}");
}

fn wait_for(child: &mut Child, folder: &Path, count: usize) {
    for _ in 0..LOOKS_MAX {
        if living(folder).len() >= count {
            return;
        }
        let ended = child.try_wait().unwrap();
        assert_eq!(ended, None, "it ended by itself");
        thread::sleep(LOOK);
    }
    panic!("not {count} processes");
}

#[test]
fn the_bench_of_failover_ends_its_nodes_servers_and_contenders() {
    let bench = env!("CARGO_BIN_EXE_failover");
    // A server and three nodes or contenders each. The lease is longer than anyone waits.
    for (system, signal) in [("kvcm-redis", Signal::TERM), ("plain", Signal::INT)] {
        let args = ["--systems", system, "--faults", "kill", "--leases", "600"];
        let args = [&args[..], &["--lanes", "tuned", "--out"]].concat();
        ends_with_all_it_started(bench, &args, 4, signal);
    }
}

#[test]
fn the_torment_ends_its_nodes_and_servers() {
    let chaos = env!("CARGO_BIN_EXE_chaos");
    // Two servers and three nodes.
    for signal in [Signal::TERM, Signal::INT] {
        let args = ["--backend", "redis", "--minutes", "60", "--folder"];
        ends_with_all_it_started(chaos, &args, 5, signal);
    }
}
