//! Writing the history.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context;
use kvcm_check::{Call, Ended, Loss, Outcome, Record};
use kvcm_clock::{BootClock, Clock};

/// Writes records into `history.jsonl`; clones share the file.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    file: Arc<Mutex<BufWriter<File>>>,
    epochs: Arc<Mutex<BTreeSet<u64>>>,
}

impl Recorder {
    pub(super) fn create(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("history.jsonl");
        let file =
            File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let file = Arc::new(Mutex::new(BufWriter::new(file)));
        let epochs = Arc::default();
        Ok(Self { file, epochs })
    }

    pub(super) fn add(&self, record: &Record) -> anyhow::Result<()> {
        if let Record::Call(Call {
            epoch: Some(epoch),
            outcome: Outcome::Ok,
            ..
        }) = record
        {
            let mut epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
            epochs.insert(*epoch);
        }
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).context("cannot write the history")
    }

    /// How many changes of leader clients have seen.
    pub(super) fn changes(&self) -> usize {
        let epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        epochs.len().saturating_sub(1)
    }

    /// The process of `node` is about to be killed.
    pub(super) fn ends(&self, node: &str) -> anyhow::Result<()> {
        let node = node.to_owned();
        self.add(&Record::Ended(Ended { node, at: now() }))
    }

    /// The store has lost something, since `at`.
    pub(super) fn lost(&self, at: u64) -> anyhow::Result<()> {
        self.add(&Record::Loss(Loss { at, until: now() }))
    }

    pub(super) fn flush(&self) -> anyhow::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.flush().context("cannot write the history")
    }
}

/// The clock of the history, which is that of the nodes.
pub(super) fn now() -> u64 {
    BootClock.now().as_nanos()
}
