//! The servers that contenders elect their leader through: etcd, ZooKeeper, Redis.

use std::{
    env, fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{Kind, daemon::Daemon, setting::Setting};
use crate::interrupt::Interrupt;

const LOOK: Duration = Duration::from_millis(20);
const LOOKS_MAX: u32 = 3000;
/// Debian's package; its manifest names all that it needs but a logger.
const ZOOKEEPER: &str = "/usr/share/java/zookeeper.jar";
const LOGGER: &str = "/usr/share/java/slf4j-simple.jar";

/// A running server, on a free loopback port.
pub(super) struct Server {
    daemon: Daemon,
    address: SocketAddr,
    _dir: TempDir,
}

impl Server {
    pub(super) fn start(setting: &Setting, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let dir = TempDir::with_prefix("kvcm-failover-")?;
        let address = free()?;
        let mut command = match setting.kind {
            Kind::Etcd => etcd(setting, address, &dir)?,
            Kind::Zookeeper => zookeeper(setting, address, &dir)?,
            _ => redis(address, &dir),
        };
        let name = setting.kind.name();
        let log = dir.path().join("server.log");
        let mut daemon = Daemon::start(name, command.stdout(Stdio::null()), log)?;
        for _ in 0..LOOKS_MAX {
            if !daemon.is_running()? {
                return Err(daemon.ended());
            }
            if serves(setting.kind, address) {
                return Ok(Self {
                    daemon,
                    address,
                    _dir: dir,
                });
            }
            interrupt.sleep(LOOK)?;
        }
        bail!("{name} does not serve after {:?}", LOOK * LOOKS_MAX)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        self.daemon.signal(Signal::STOP)
    }

    pub(super) fn cont(&mut self) -> anyhow::Result<()> {
        self.daemon.signal(Signal::CONT)
    }
}

/// A port that was free just now; whoever takes it meanwhile makes the start fail.
fn free() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn etcd(setting: &Setting, client: SocketAddr, dir: &TempDir) -> anyhow::Result<Command> {
    let (client, peer) = (format!("http://{client}"), format!("http://{}", free()?));
    let mut command = Command::new(etcd_program());
    command
        .args(["--name", "bench", "--data-dir"])
        .arg(dir.path().join("data"))
        .args(["--listen-client-urls", &client])
        .args(["--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer])
        .args(["--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("bench={peer}")]);
    if setting.is_tuned() {
        // It grants no lease below 1.5 election time-outs, rounded up to seconds.
        command.args(["--heartbeat-interval", "20", "--election-timeout", "200"]);
    }
    Ok(command)
}

fn zookeeper(setting: &Setting, client: SocketAddr, dir: &TempDir) -> anyhow::Result<Command> {
    // It grants 2 to 20 ticks, and looks for dead sessions once a tick: the finest tick with which
    // the lease is granted in full.
    let tick = match setting.is_tuned() {
        true => setting.lease_ms().div_ceil(20),
        false => 2000,
    };
    let config = dir.path().join("zoo.cfg");
    let text = format!(
        "tickTime={tick}\ndataDir={}\nclientPort={}\nclientPortAddress={}\n\
         admin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr\n",
        dir.path().join("data").display(),
        client.port(),
        client.ip(),
    );
    fs::write(&config, text)?;
    let mut command = Command::new("java");
    command
        .args(["-Xmx256m", "-cp", &format!("{}:{LOGGER}", zookeeper_jar())])
        .arg("org.apache.zookeeper.server.ZooKeeperServerMain")
        .arg(config);
    Ok(command)
}

fn redis(address: SocketAddr, dir: &TempDir) -> Command {
    let mut command = Command::new(redis_program());
    command
        .args(["--port", &address.port().to_string()])
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(dir.path());
    command
}

/// Whether it answers; each in its own way.
fn serves(kind: Kind, address: SocketAddr) -> bool {
    let (question, answer) = match kind {
        Kind::Etcd => ("GET /health HTTP/1.0\r\n\r\n", "true"),
        Kind::Zookeeper => ("srvr", "Mode: standalone"),
        _ => ("PING\r\n", "+PONG"),
    };
    ask(address, question, answer).is_ok_and(|text| text.contains(answer))
}

/// What the server says until it closes the connection or has said `enough`.
fn ask(address: SocketAddr, question: &str, enough: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(question.as_bytes())?;
    let mut text = Vec::new();
    let mut part = [0; 4096];
    loop {
        let length = stream.read(&mut part)?;
        text.extend_from_slice(&part[..length]);
        let said = String::from_utf8_lossy(&text);
        if length == 0 || said.contains(enough) {
            return Ok(said.into_owned());
        }
    }
}

fn named(variable: &str, default: &str) -> String {
    let named = env::var(variable).ok().filter(|value| !value.is_empty());
    named.unwrap_or_else(|| default.to_owned())
}

fn etcd_program() -> String {
    named("ETCD_BIN", "etcd")
}

fn redis_program() -> String {
    named("REDIS_SERVER_BIN", "redis-server")
}

fn zookeeper_jar() -> String {
    named("ZOOKEEPER_JAR", ZOOKEEPER)
}

/// The first line that the program prints.
fn first_line(program: &str, args: &[&str], hint: &str) -> anyhow::Result<String> {
    let output = Command::new(program).args(args).output();
    let output = output.with_context(|| format!("`{program}` is missing: {hint}"))?;
    ensure!(output.status.success(), "`{program}` fails: {hint}");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

pub(super) fn etcd_version() -> anyhow::Result<String> {
    let hint = "install it (Debian: `apt-get install etcd-server`), or set ETCD_BIN to its file";
    let line = first_line(&etcd_program(), &["--version"], hint)?;
    Ok(line.replace("etcd Version:", "etcd"))
}

pub(super) fn redis_version() -> anyhow::Result<String> {
    let hint = "install it (Debian: `apt-get install redis-server`), or set REDIS_SERVER_BIN to \
                its file";
    let line = first_line(&redis_program(), &["--version"], hint)?;
    let words = line.split_whitespace();
    let version = words.filter_map(|word| word.strip_prefix("v=")).next();
    Ok(format!("Redis {}", version.unwrap_or("of unknown version")))
}

/// The file's own name tells the version; the server's answer has more than anyone needs.
pub(super) fn zookeeper_version() -> anyhow::Result<String> {
    let hint = "install it (Debian: `apt-get install zookeeper`), or set ZOOKEEPER_JAR to its file";
    let jar = PathBuf::from(zookeeper_jar());
    ensure!(jar.is_file(), "{} is missing: {hint}", jar.display());
    ensure!(fs::exists(LOGGER)?, "{LOGGER} is missing: {hint}");
    let java = first_line("java", &["-version"], hint)?;
    let folder = fs::read_dir(jar.parent().context("a file without a folder")?)?;
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut versions = names.filter_map(|name| {
        let version = name.strip_prefix("zookeeper-")?.strip_suffix(".jar")?;
        let is_one = version.starts_with(|first: char| first.is_ascii_digit());
        is_one.then(|| version.to_owned())
    });
    let version = versions.next();
    let version = version.unwrap_or_else(|| "of unknown version".to_owned());
    Ok(format!("ZooKeeper {version}, {java}"))
}
