//! A process of ours, ended when it is dropped.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

/// A running process. Dropping it kills it, and waits for its end.
#[derive(Debug)]
pub(super) struct Daemon {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Daemon {
    /// Starts `command`, whose errors, and output if it is not taken, go to the file `log`.
    pub(super) fn start(name: &str, command: &mut Command, log: PathBuf) -> anyhow::Result<Self> {
        let file =
            File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            log,
            child,
        })
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(super) fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    pub(super) fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        // Once waited for, the id may belong to another process.
        if !self.is_running()? {
            return Err(self.ended());
        }
        kill_process(Pid::from_child(&self.child), signal)?;
        Ok(())
    }

    /// An error with the end of its log.
    pub(super) fn ended(&self) -> anyhow::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(10)..].join("\n");
        anyhow::anyhow!("{} has ended; end of its log:\n{end}", self.name)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Both fail only when the process has ended, which is what is wanted.
        if self.child.kill().is_ok() {
            let _status = self.child.wait();
        }
    }
}
