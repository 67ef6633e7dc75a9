//! `cargo xtask bench`: builds a bench in the release profile, and runs it.

use std::{
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use anyhow::Context;
use clap::ValueEnum;

use crate::{metadata, packages, shell};

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bench {
    /// The server: calls in a second and their latency, beside servers that only answer
    Api,
    /// The cache in process: lookups, writes, memory, recovery, a trace
    Cache,
    /// The client: faults of the leader under load, what it costs when idle
    Client,
    /// The coordination backends: calls, hand-overs, takeovers
    Coordination,
    /// Failover: for how long nobody can write, beside etcd, ZooKeeper, Sentinel and a plain lock
    Failover,
    /// The elector's gate: what it costs each request
    Gate,
    /// The journal: appends in a second, on disk and on Redis
    Journal,
    /// The calls that engines make all day, beside servers that only answer, and Redis
    Serve,
}

/// Runs the bench with `args`; its exit code becomes ours.
pub(crate) fn run(bench: Bench, args: &[String]) -> anyhow::Result<ExitCode> {
    match bench {
        Bench::Api => binary("api", &["kvcm-server"], args),
        Bench::Cache => binary("cache", &[], args),
        Bench::Client => binary("client", &["kvcm-server"], args),
        Bench::Coordination => binary("coordination", &[], args),
        Bench::Failover => {
            install_peers(args);
            binary("failover", &["kvcm-server"], args)
        }
        Bench::Gate => of_crate("elector", "gate", args),
        Bench::Journal => of_crate("kvcm-journal", "journal", args),
        Bench::Serve => binary("serve", &["kvcm-server"], args),
    }
}

/// Something that the bench of failover needs.
struct Peer {
    /// The name of the system in the bench's options; empty for what more than one needs.
    system: &'static str,
    /// The Debian package.
    package: &'static str,
    /// The variable that names the file where it is elsewhere.
    variable: &'static str,
    /// A file that the package brings, or a program on the path.
    file: &'static str,
}

const PEERS: [Peer; 4] = [
    Peer {
        system: "etcd",
        package: "etcd-server",
        variable: "ETCD_BIN",
        file: "etcd",
    },
    Peer {
        system: "zookeeper",
        package: "zookeeper",
        variable: "ZOOKEEPER_JAR",
        file: "/usr/share/java/zookeeper.jar",
    },
    Peer {
        system: "zookeeper",
        package: "libslf4j-java",
        variable: "ZOOKEEPER_JAR",
        file: "/usr/share/java/slf4j-simple.jar",
    },
    Peer {
        system: "",
        package: "redis-server",
        variable: "REDIS_SERVER_BIN",
        file: "redis-server",
    },
];

impl Peer {
    fn is_there(&self) -> bool {
        let is_named = std::env::var_os(self.variable).is_some_and(|value| !value.is_empty());
        is_named || Path::new(self.file).is_file() || shell::find_program(self.file).is_some()
    }
}

/// Installs the peers that are asked for. What cannot be is told here, and again by the bench,
/// which leaves it out and says so with its exit code.
fn install_peers(args: &[String]) {
    let has = |words: &[&str]| args.iter().any(|arg| words.contains(&arg.as_str()));
    if has(&["--help", "-h", "--version", "--report"]) {
        return;
    }
    let is_all = !args.iter().any(|arg| arg.starts_with("--systems"));
    let is_asked = |peer: &&Peer| is_all || args.iter().any(|arg| arg.contains(peer.system));
    for peer in PEERS.iter().filter(is_asked) {
        if !peer.is_there()
            && let Err(error) = packages::install(peer.package, peer.package)
        {
            eprintln!("{error:#}");
        }
    }
}

/// Builds and runs a bench of a crate.
fn of_crate(package: &str, bench: &str, args: &[String]) -> anyhow::Result<ExitCode> {
    let mut command = shell::cargo(["bench", "-p", package, "--bench", bench, "--"]);
    shell::run(command.args(args))?;
    Ok(ExitCode::SUCCESS)
}

/// Builds and runs a binary of `kvcm-bench`, beside the binaries of the `needed` packages.
fn binary(name: &str, needed: &[&str], args: &[String]) -> anyhow::Result<ExitCode> {
    let mut build = shell::cargo(["build", "--release", "-p", "kvcm-bench", "--bin", name]);
    for package in needed {
        build.args(["-p", package, "--bin", package]);
    }
    shell::timed("building", || shell::run(&mut build))?;
    let folder = metadata::load()?.target_directory.join("release");
    let status = Command::new(folder.join(name))
        .args(args)
        .stdin(Stdio::null())
        .status()
        .context("cannot start the bench")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
