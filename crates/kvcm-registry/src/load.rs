//! Reading the registry back from its journal.

use bytes::Bytes;
use kvcm_journal::{LoadSink, Loaded, Record, Source};

use crate::{
    operation::{KIND, Operation, VERSION},
    state::State,
};

/// How opening a registry went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Storages found.
    pub storages: usize,
    /// Groups found.
    pub groups: usize,
    /// Instances found.
    pub instances: usize,
    /// Whether a startup configuration was taken in before.
    pub initialised: bool,
    /// Entries that could not be used. They stay in the journal.
    pub skipped: Vec<SkippedEntry>,
    /// What the journal reports.
    pub journal: Loaded,
}

/// An entry that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// Where it stands.
    pub place: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Replays a journal into a state. One bad entry costs itself only.
#[derive(Debug, Default)]
pub(crate) struct Loader {
    pub(crate) state: State,
    pub(crate) skipped: Vec<SkippedEntry>,
    chunks: u64,
}

impl Loader {
    fn replay(&mut self, place: &str, version: u16, operations: &[u8]) -> Result<(), Source> {
        if version > VERSION {
            return Err(format!(
                "{place} has version {version}, this program knows up to {VERSION}; let a node \
                 with a newer program lead"
            )
            .into());
        }
        let values: Vec<serde_json::Value> = match serde_json::from_slice(operations) {
            Ok(values) => values,
            Err(error) => {
                self.skip(place, &error);
                return Ok(());
            }
        };
        for (index, value) in values.into_iter().enumerate() {
            match serde_json::from_value(value) {
                Ok(operation) => self.state.apply(operation),
                Err(error) => self.skip(&format!("{place}, operation {index}"), &error),
            }
        }
        Ok(())
    }

    fn skip(&mut self, place: &str, reason: &dyn ToString) {
        self.skipped.push(SkippedEntry {
            place: place.to_owned(),
            reason: reason.to_string(),
        });
    }
}

impl LoadSink for Loader {
    fn snapshot(&mut self, version: u16, chunk: Bytes) -> Result<(), Source> {
        let place = format!("snapshot chunk {}", self.chunks);
        self.chunks += 1;
        self.replay(&place, version, &chunk)
    }

    fn record(&mut self, record: &Record) -> Result<(), Source> {
        let place = format!("record {} of epoch {}", record.seq, record.epoch);
        if record.batch.kind != KIND {
            let reason = format!("its kind is {}, expected {KIND}", record.batch.kind);
            self.skip(&place, &reason);
            return Ok(());
        }
        self.replay(&place, record.batch.version, &record.batch.operations)
    }
}

/// The operations of a state as one snapshot chunk.
pub(crate) fn snapshot_chunk(state: &State) -> Result<Bytes, serde_json::Error> {
    Ok(serde_json::to_vec::<Vec<Operation>>(&state.operations())?.into())
}
