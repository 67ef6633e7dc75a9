//! Three contenders for a leadership that another system grants.

use std::{
    env,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::Context;
use clap::ValueEnum;
use rustix::process::Signal;
use tempfile::TempDir;

use super::{
    daemon::Daemon,
    server::Server,
    setting::Setting,
    system::{System, Target},
};
use crate::interrupt::Interrupt;

const NODES: usize = 3;

/// A server and three contenders, each a process of its own.
pub(super) struct Group {
    setting: Setting,
    contenders: Vec<Contender>,
    server: Server,
    dir: TempDir,
}

struct Contender {
    process: Daemon,
    address: SocketAddr,
    granted: Duration,
    /// Kept, since the process ends with an error when nobody could read.
    _output: BufReader<ChildStdout>,
}

impl Group {
    pub(super) fn start(setting: &Setting, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let server = Server::start(setting, interrupt)?;
        let dir = TempDir::with_prefix("kvcm-failover-")?;
        let mut group = Self {
            setting: setting.clone(),
            contenders: Vec::new(),
            server,
            dir,
        };
        for node in 0..NODES {
            let contender = group.contender(node)?;
            group.contenders.push(contender);
        }
        Ok(group)
    }

    /// Starts one, and waits until it takes part.
    fn contender(&self, node: usize) -> anyhow::Result<Contender> {
        let kind = self.setting.kind.to_possible_value();
        let kind = kind.context("a system without a name")?;
        let mut command = Command::new(env::current_exe()?);
        command
            .args(["contend", kind.get_name()])
            .args(["--backend", &self.server.address().to_string()])
            .args(["--lease-ms", &self.setting.lease_ms().to_string()])
            .args(["--name", &format!("node-{node}")]);
        let log = self.dir.path().join(format!("contender-{node}.log"));
        let name = format!("contender {node} of {}", self.setting.kind.name());
        let mut process = Daemon::start(&name, command.stdout(Stdio::piped()), log)?;
        let output = process.child().stdout.take();
        let mut output = BufReader::new(output.context("a contender without output")?);
        let mut line = String::new();
        output.by_ref().take(1000).read_line(&mut line)?;
        let Some((address, granted)) = line.trim().split_once(' ') else {
            return Err(process.ended());
        };
        Ok(Contender {
            address: address.parse()?,
            granted: Duration::from_millis(granted.parse()?),
            process,
            _output: output,
        })
    }

    fn signal(&mut self, node: usize, signal: Signal) -> anyhow::Result<()> {
        self.contenders[node].process.signal(signal)
    }
}

impl System for Group {
    fn targets(&self) -> Vec<Target> {
        let all = self.contenders.iter();
        all.map(|one| Target::Contender(one.address)).collect()
    }

    fn granted(&self) -> Duration {
        let granted = self.contenders.iter().map(|one| one.granted);
        granted.max().unwrap_or_default()
    }

    fn has_backend(&self) -> bool {
        true
    }

    fn kill(&mut self, node: usize) -> anyhow::Result<()> {
        self.signal(node, Signal::KILL)
    }

    fn hand_over(&mut self, node: usize) -> anyhow::Result<()> {
        self.signal(node, Signal::TERM)
    }

    fn stop(&mut self, node: usize) -> anyhow::Result<()> {
        self.signal(node, Signal::STOP)
    }

    fn cont(&mut self, node: usize) -> anyhow::Result<()> {
        self.signal(node, Signal::CONT)
    }

    fn stop_backend(&mut self, _leader: usize) -> anyhow::Result<()> {
        self.server.stop()
    }

    fn cont_backend(&mut self, _leader: usize) -> anyhow::Result<()> {
        self.server.cont()
    }

    fn mend(&mut self) -> anyhow::Result<()> {
        for node in 0..self.contenders.len() {
            if !self.contenders[node].process.is_running()? {
                self.contenders[node] = self.contender(node)?;
            }
        }
        Ok(())
    }
}
