//! `-d`, the predecessor's name of the binary, and the signals that stop a server.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use kvcm_testkit::{NodeSpec, Ports, ServerProcess};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;

use crate::support::{call, until};

const FREE_PORTS: [&str; 5] = [
    "kvcm.service.bind_address=127.0.0.1",
    "kvcm.service.rpc_port=0",
    "kvcm.service.http_port=0",
    "kvcm.service.admin_rpc_port=0",
    "kvcm.service.admin_http_port=0",
];

/// Starts a daemon through a link with the predecessor's name and waits for the process that was
/// started.
fn start(folder: &Path, settings: &[String]) -> Output {
    let link = folder.join("kv_cache_manager_bin");
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kvcm-server"), &link).unwrap();
    }
    // Of two values the first counts.
    let settings = settings
        .iter()
        .cloned()
        .chain(FREE_PORTS.map(str::to_owned));
    let settings = settings.flat_map(|setting| ["-e".to_owned(), setting]);
    // Files, because the daemon keeps its output open: a pipe would not end.
    let file = |name: &str| std::fs::File::create(folder.join(name)).unwrap();
    let status = Command::new(&link)
        .arg("-d")
        .args(settings)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(file("out"))
        .stderr(file("err"))
        .status()
        .unwrap();
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    Output {
        status,
        stdout: read("out"),
        stderr: read("err"),
    }
}

/// Processes whose command line, as `ps` shows it, has `word`.
fn processes(word: &str) -> Vec<(Pid, String)> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter_map(|number| {
            let line = std::fs::read(format!("/proc/{number}/cmdline")).ok()?;
            let line = String::from_utf8(line).ok()?.replace('\0', " ");
            let pid = Pid::from_raw(number)?;
            line.contains(word).then_some((pid, line))
        })
        .collect()
}

/// Ends a daemon with the test.
struct Daemon(Pid);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_serves_when_its_parent_returns_and_keeps_its_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().canonicalize().unwrap();
    // A relative path: the working folder is kept.
    let setting = "kvcm.service.ports_file=ports.json".to_owned();
    let mark = format!("kvcm.service.custom_info={}", folder.display());
    let output = start(&folder, &[setting, mark.clone()]);
    let [(pid, line)] = &processes(&mark)[..] else {
        panic!("one daemon: {:?} {output:?}", processes(&mark));
    };
    let daemon = Daemon(*pid);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(line.contains("kv_cache_manager_bin -d -e "), "{line}");

    // No wait: the ports are served already.
    let ports = Ports::read(&folder.join("ports.json")).unwrap().unwrap();
    let health = call(ports.admin_http(), "checkHealth", json!({})).await;
    assert_eq!(health["header"]["status"]["code"], "OK");

    let proc = format!("/proc/{}", pid.as_raw_nonzero());
    let link = |name: &str| std::fs::read_link(format!("{proc}/{name}")).unwrap();
    assert_eq!(link("fd/0"), Path::new("/dev/null"));
    assert_eq!(link("fd/2"), folder.join("err"));
    assert_eq!(link("cwd"), folder);
    // A session of its own: a terminal that goes away takes nothing along.
    assert_eq!(rustix::process::getsid(Some(*pid)).unwrap(), *pid);

    kill_process(*pid, Signal::TERM).unwrap();
    until("the daemon ends", async || {
        test_kill_process(daemon.0).is_err().then_some(())
    })
    .await;
}

#[test]
fn a_daemon_that_cannot_start_says_why_with_its_code() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let output = start(dir.path(), &[format!("kvcm.service.http_port={port}")]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains(&format!("`{port}` (option -e): cannot listen")),
        "{text}"
    );

    let unwritable = "kvcm.service.ports_file=/does/not/exist/ports.json".to_owned();
    let output = start(dir.path(), &[unwritable]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("/does/not/exist"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_the_four_signals_stops_a_server_in_good_order() {
    let dir = tempfile::tempdir().unwrap();
    for (name, signal) in [
        ("term", Signal::TERM),
        ("int", Signal::INT),
        ("usr1", Signal::USR1),
        ("usr2", Signal::USR2),
    ] {
        let spec = NodeSpec::new(name, dir.path()).unwrap();
        let mut node = ServerProcess::spawn(&spec).await.unwrap();
        node.signal(signal).unwrap();
        assert_eq!(node.wait().await.unwrap().code(), Some(0), "{name}");
        let log = std::fs::read_to_string(spec.log_file()).unwrap();
        assert!(log.contains("stopped"), "{name}: {log}");
    }
}
