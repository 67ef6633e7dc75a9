//! What the backend keeps.

use std::collections::{BTreeMap, HashMap};

use coordination_core::{DeleteOutcome, Expect, LockState, SetOutcome, StoredValue, Value};
use kvcm_clock::Moment;

/// All locks and values.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) locks: HashMap<String, LockState>,
    pub(crate) values: BTreeMap<String, StoredValue>,
    /// One counter for all keys: versions rise across deletion for nothing.
    pub(crate) last_version: u64,
}

impl Store {
    /// The lock `key`; one of which nothing is known comes into being.
    pub(crate) fn lock(&mut self, key: &str) -> &mut LockState {
        self.locks.entry(key.to_owned()).or_default()
    }

    pub(crate) fn get(&self, key: &str, now: Moment) -> Option<Value> {
        self.values.get(key)?.view(now)
    }

    pub(crate) fn set(
        &mut self,
        key: &str,
        text: &str,
        expires: Option<Moment>,
        expect: Expect,
        now: Moment,
    ) -> SetOutcome {
        let present = self.version(key, now);
        if !expect.admits(present) {
            return SetOutcome::Conflict(present);
        }
        self.last_version += 1;
        let version = self.last_version;
        let stored = StoredValue {
            text: text.to_owned(),
            version,
            expires,
        };
        self.values.insert(key.to_owned(), stored);
        SetOutcome::Stored(version)
    }

    pub(crate) fn delete(&mut self, key: &str, expect: Expect, now: Moment) -> DeleteOutcome {
        match self.version(key, now) {
            None => {
                self.values.remove(key);
                DeleteOutcome::Absent
            }
            present @ Some(_) if expect.admits(present) => {
                self.values.remove(key);
                DeleteOutcome::Deleted
            }
            Some(version) => DeleteOutcome::Conflict(version),
        }
    }

    /// Also drops what has expired under `prefix`: nothing else does.
    pub(crate) fn list(&mut self, prefix: &str, now: Moment) -> Vec<(String, Value)> {
        self.values
            .retain(|key, value| !key.starts_with(prefix) || value.is_live(now));
        self.values
            .range(prefix.to_owned()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter_map(|(key, value)| Some((key.clone(), value.view(now)?)))
            .collect()
    }

    fn version(&self, key: &str, now: Moment) -> Option<u64> {
        let value = self.values.get(key)?;
        value.is_live(now).then_some(value.version)
    }
}
