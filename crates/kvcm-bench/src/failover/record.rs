//! What is kept of every round, a line of JSON each.

use std::{
    env, fmt,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{Fault, Kind, Lane};
use crate::machine;

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub(super) enum Line {
    /// The rounds that follow are of this run.
    Run(Run),
    /// One fault.
    Round(Round),
}

/// What was started, and on what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    command: String,
    machine: String,
    load: String,
    versions: Vec<(Kind, String)>,
}

/// One fault, and what the prober saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) system: Kind,
    pub(super) lane: Lane,
    /// Asked for.
    pub(super) lease_ms: u64,
    /// Granted.
    pub(super) granted_ms: u64,
    pub(super) fault: Fault,
    /// Counted from 0.
    pub(super) round: u32,
    /// The longest time without an acknowledged write.
    pub(super) gap_us: u64,
    /// False when nobody wrote again for so long that it was given up.
    pub(super) recovered: bool,
    /// Whether another node led in the end.
    pub(super) changed: bool,
    /// Writes that the old leader acknowledged after the new one had.
    pub(super) stale: u64,
    /// Writes to a leader after the fault whose outcome nobody knows.
    pub(super) unknown: u64,
    /// Writes that were acknowledged, before the fault and after.
    pub(super) writes: u64,
}

/// The file.
pub(super) struct Log {
    path: PathBuf,
    file: File,
}

impl Run {
    pub(super) fn now(versions: &[(Kind, String)]) -> Self {
        let args: Vec<_> = env::args().skip(1).collect();
        Self {
            command: format!("cargo xtask bench failover {}", args.join(" ")),
            machine: machine::conditions(),
            load: machine::load(),
            versions: versions.to_vec(),
        }
    }

    pub(super) fn versions(&self) -> &[(Kind, String)] {
        &self.versions
    }
}

impl Log {
    pub(super) fn open(path: &Path, fresh: bool) -> anyhow::Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        if fresh {
            file.set_len(0)?;
        }
        let path = path.to_owned();
        Ok(Self { path, file })
    }

    pub(super) fn add_run(&mut self, run: &Run) -> anyhow::Result<()> {
        self.write(&Line::Run(run.clone()))
    }

    pub(super) fn add(&mut self, round: &Round) -> anyhow::Result<()> {
        self.write(&Line::Round(round.clone()))
    }

    /// Whole lines, so that two runs may write into one file.
    fn write(&mut self, line: &Line) -> anyhow::Result<()> {
        let text = format!("{}\n", serde_json::to_string(line)?);
        Ok(self.file.write_all(text.as_bytes())?)
    }

    /// All lines, those of earlier runs included.
    pub(super) fn read(&self) -> anyhow::Result<Vec<Line>> {
        let text = fs::read_to_string(&self.path)?;
        let lines = text.lines().enumerate().map(|(place, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("{}: line {}", self.path.display(), place + 1))
        });
        lines.collect()
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "$ {}\n  {}, load {}",
            self.command, self.machine, self.load
        )
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, round, gap) = (self.fault.title(), self.round, self.gap_us as f64 / 1000.0);
        write!(f, "{title}, round {round}: {gap:.1} ms")?;
        if !self.recovered {
            write!(f, ", given up")?;
        }
        if self.fault.is_outage() && self.changed {
            write!(f, ", another leader")?;
        }
        if self.stale > 0 {
            write!(f, ", {} stale writes", self.stale)?;
        }
        if self.unknown > 0 {
            write!(f, ", {} unknown", self.unknown)?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn round(system: Kind, fault: Fault, gap_us: u64) -> Round {
        Round {
            system,
            lane: Lane::Tuned,
            lease_ms: 1000,
            granted_ms: 1000,
            fault,
            round: 0,
            gap_us,
            recovered: true,
            changed: true,
            stale: 0,
            unknown: 0,
            writes: 100,
        }
    }

    #[test]
    fn rounds_of_two_runs_are_read_together_unless_told_to_forget() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rounds.jsonl");
        let run = Run::now(&[(Kind::Etcd, "etcd 3".to_owned())]);
        let mut log = Log::open(&path, true).unwrap();
        log.add_run(&run).unwrap();
        let one = round(Kind::Etcd, Fault::Kill, 7);
        log.add(&one).unwrap();
        let mut log = Log::open(&path, false).unwrap();
        log.add(&one).unwrap();
        let all = [Line::Run(run), Line::Round(one.clone()), Line::Round(one)];
        assert_eq!(log.read().unwrap(), all);
        assert!(Log::open(&path, true).unwrap().read().unwrap().is_empty());
    }

    #[test]
    fn a_broken_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rounds.jsonl");
        fs::write(&path, "{\"line\":\"round\"}\n").unwrap();
        let error = Log::open(&path, false).unwrap().read().unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }
}
