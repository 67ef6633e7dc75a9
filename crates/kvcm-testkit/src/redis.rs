//! A real Redis server for tests.

use std::{
    fmt,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::resp;

const INSTALL: &str = "install it (Debian, Ubuntu: `apt-get install redis-server`), or set \
                       REDIS_SERVER_BIN to its file";
const PROBE: Duration = Duration::from_millis(10);
const PROBES_MAX: u32 = 3000;

/// A `redis-server` on a free loopback port, which keeps nothing on disk. Killed on drop.
pub struct RedisServer {
    child: Child,
    port: u16,
    start: Start,
    dir: TempDir,
}

/// What a server is started with.
#[derive(Clone)]
struct Start {
    args: Vec<String>,
    /// The first configuration of a sentinel, which then writes it itself.
    sentinel: Option<String>,
}

impl RedisServer {
    /// Starts a server with `args` (such as `["--requirepass", "x"]`) after our own, and waits
    /// until it answers.
    ///
    /// # Errors
    /// When the binary is missing or refuses its arguments; the text holds the end of its log.
    pub fn start(args: &[&str]) -> anyhow::Result<Self> {
        Self::start_as(&Start {
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            sentinel: None,
        })
    }

    /// Starts a sentinel with the lines of `config`, such as `sentinel monitor m 127.0.0.1 6379 2`,
    /// and waits until it answers.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn start_sentinel(config: &str) -> anyhow::Result<Self> {
        Self::start_as(&Start {
            args: Vec::new(),
            sentinel: Some(config.to_owned()),
        })
    }

    fn start_as(start: &Start) -> anyhow::Result<Self> {
        // Between our look for a free port and the server's bind another process may take it.
        let mut last = anyhow!("no free port");
        for _ in 0..5 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = free.local_addr()?.port();
            drop(free);
            let dir = tempfile::tempdir()?;
            let child = spawn(port, &dir, start)?;
            let mut server = Self {
                child,
                port,
                start: start.clone(),
                dir,
            };
            match server.wait_until_ready() {
                Ok(()) => return Ok(server),
                Err(error) if error.to_string().contains("already in use") => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Its address as a URI without credentials: `redis://127.0.0.1:PORT/`.
    pub fn uri(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGSTOP: its connections stay open and nobody answers.
    ///
    /// # Errors
    /// When it has died.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// When it has died.
    pub fn cont(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGKILL, and waits for its end. Doing it again does nothing.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("cannot kill redis-server")?;
        self.child.wait()?;
        Ok(())
    }

    /// Kills it and starts a new one on the same port with the same arguments; its data is lost
    /// unless the arguments say otherwise.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        self.child = spawn(self.port, &self.dir, &self.start)?;
        self.wait_until_ready()
    }

    /// Runs a command without a login, as an operator does, and returns its answer: its text, or
    /// its elements in lines.
    ///
    /// # Errors
    /// When it refuses the command or does not answer within a minute.
    pub fn command(&self, words: &[&str]) -> anyhow::Result<String> {
        resp::command(self.address(), words)
            .with_context(|| format!("{} at {}", words.join(" "), self.address()))
    }

    /// What it has logged since its last start.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("redis.log")
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let pid = pid.context("redis-server has no pid")?;
        kill_process(pid, signal).context("cannot signal redis-server")
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        for _ in 0..PROBES_MAX {
            if let Some(status) = self.child.try_wait()? {
                let log = self.log();
                let end = log.char_indices().rev().nth(2000).map_or(0, |(at, _)| at);
                bail!("redis-server ended with {status}: {}", log[end..].trim());
            }
            // Another server may have taken the port: only the log shows that ours has it.
            let sign = match self.start.sentinel {
                Some(_) => "Sentinel ID is",
                None => "Ready to accept connections",
            };
            if self.log().contains(sign) && answers(self.address()) {
                return Ok(());
            }
            std::thread::sleep(PROBE);
        }
        bail!(
            "redis-server does not answer after {:?}",
            PROBE * PROBES_MAX
        )
    }
}

// === impl Drop, Debug ===

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Nothing can be done about a failure, and the next start uses another port anyway.
        let _ = self.kill();
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisServer({} pid {})", self.uri(), self.pid())
    }
}

fn spawn(port: u16, dir: &TempDir, start: &Start) -> anyhow::Result<Child> {
    let binary = std::env::var_os("REDIS_SERVER_BIN")
        .filter(|file| !file.is_empty())
        .unwrap_or_else(|| "redis-server".into());
    let log = dir.path().join("redis.log");
    // Created by us: a server that dies before it opens its log leaves a readable, empty one.
    std::fs::write(&log, "")?;
    let mut command = Command::new(&binary);
    if let Some(config) = &start.sentinel {
        let file = dir.path().join("sentinel.conf");
        if !file.exists() {
            std::fs::write(&file, config)?;
        }
        command.arg(&file).arg("--sentinel");
    }
    let spawned = command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
        .arg("--dir")
        .arg(dir.path())
        .arg("--logfile")
        .arg(&log)
        .args(&start.args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match spawned {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("`{}` is missing: {INSTALL}", binary.to_string_lossy())
        }
        other => other.with_context(|| format!("cannot start `{}`", binary.to_string_lossy())),
    }
}

/// Whether a server that is able to serve is there. One that asks for a password is.
fn answers(address: SocketAddr) -> bool {
    let ping = || -> anyhow::Result<()> {
        let limit = Duration::from_secs(1);
        let mut stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 64];
        let length = stream.read(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer[..length]);
        ensure!(answer.starts_with("+PONG") || answer.starts_with("-NOAUTH"));
        Ok(())
    };
    ping().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_answers_restarts_and_dies() {
        let mut server = RedisServer::start(&["--requirepass", "x"]).unwrap();
        let first = server.pid();
        assert!(answers(server.address()));
        server.restart().unwrap();
        assert_ne!(server.pid(), first);
        assert!(answers(server.address()));
        server.kill().unwrap();
        assert!(!answers(server.address()));
    }

    #[test]
    fn a_server_that_refuses_its_arguments_is_told_with_the_reason() {
        let error = RedisServer::start(&["--maxmemory-policy", "nonsense"]).unwrap_err();
        assert!(error.to_string().contains("ended with"), "{error}");
    }
}
