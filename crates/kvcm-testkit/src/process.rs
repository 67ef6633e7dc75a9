//! One running server.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::{NodeSpec, Ports};

/// How often a file or a process is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How much of a log an error shows.
const LOG_LINES: usize = 15;

/// A server process of our own. Dropping it kills the process and waits for its end, so that its
/// folder can be removed.
#[derive(Debug)]
pub struct ServerProcess {
    name: String,
    log_file: PathBuf,
    ports: Ports,
    child: Child,
}

impl ServerProcess {
    /// Starts a node and waits until it serves. The error of a failed start shows the end of its
    /// log.
    pub async fn spawn(spec: &NodeSpec) -> anyhow::Result<Self> {
        let name = spec.name().to_owned();
        let log_file = spec.log_file();
        let ports_file = spec.ports_file();
        // A file of an earlier start would say that this one serves already.
        if let Err(error) = fs::remove_file(&ports_file)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error).with_context(|| format!("cannot remove {}", ports_file.display()));
        }
        let unset = Ports {
            rpc_port: 0,
            http_port: 0,
            admin_rpc_port: 0,
            admin_http_port: 0,
            debug_http_port: None,
        };
        let child = start(spec, &log_file)?;
        let mut process = Self {
            name,
            log_file,
            ports: unset,
            child,
        };
        let ready = tokio::time::timeout(spec.start_limit(), process.ready(&ports_file)).await;
        let failure = match ready {
            Ok(Ok(ports)) => {
                process.ports = ports;
                return Ok(process);
            }
            Ok(Err(error)) => error,
            Err(_) => anyhow::anyhow!("does not serve after {:?}", spec.start_limit()),
        };
        let log = log_end(&process.log_file);
        Err(failure.context(format!("node {}; end of its log:\n{log}", process.name)))
    }

    async fn ready(&mut self, ports_file: &Path) -> anyhow::Result<Ports> {
        loop {
            if let Some(ports) = Ports::read(ports_file)? {
                return Ok(ports);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("ended before it served ({status})");
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// What it prints.
    pub fn log_file(&self) -> &Path {
        &self.log_file
    }

    /// False once the process has ended.
    pub fn is_running(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// SIGKILL, and waits until the process is gone. Fine when it is gone already.
    pub async fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.wait().await
    }

    /// SIGTERM: the server drains, hands over and exits; see [`wait`](Self::wait).
    pub fn term(&mut self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// SIGSTOP: the process stands still and keeps its sockets and locks.
    pub fn stop(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT: the process goes on after [`stop`](Self::stop).
    pub fn cont(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// No more than `count` open files from now on. Those that are open stay open.
    pub fn limit_files(&mut self, count: u64) -> io::Result<()> {
        // The hard limit stays, so that it can be raised again.
        let limit = Rlimit {
            current: Some(count),
            ..getrlimit(Resource::Nofile)
        };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Nofile, limit)?;
        Ok(())
    }

    /// Waits until the process has ended, for as long as that takes.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Sends any other signal.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        // Once waited for, the id may belong to another process.
        if self.child.try_wait()?.is_some() {
            let message = format!("node {} has ended", self.name);
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail only when the process has ended, which is what is wanted.
        if self.child.kill().is_ok() {
            let _status = self.child.wait();
        }
    }
}

fn start(spec: &NodeSpec, log_file: &Path) -> anyhow::Result<Child> {
    let words = spec.command_line();
    let Some((program, args)) = words.split_first() else {
        bail!("node {} has no program to start", spec.name());
    };
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(log_file)
        .with_context(|| format!("cannot open {}", log_file.display()))?;
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

fn log_end(file: &Path) -> String {
    let text = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
