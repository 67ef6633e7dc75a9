//! A group that all writers update, each over the version that it has read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use super::model::Outcome;

/// Who has made which version, as far as writers know.
#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<Versions>);

#[derive(Debug, Default)]
struct Versions {
    /// The mark of each version that was acknowledged, or found.
    made: BTreeMap<u64, String>,
    /// The marks of those without an answer.
    unknown: BTreeMap<u64, BTreeSet<String>>,
}

impl Shared {
    /// A writer asks for this version.
    pub(super) fn begin(&self, version: u64, mark: String) {
        let mut versions = self.lock();
        versions.unknown.entry(version).or_default().insert(mark);
    }

    /// What became of that. The group may have been found meanwhile.
    pub(super) fn answered(&self, version: u64, mark: String, outcome: Outcome) {
        let mut versions = self.lock();
        if outcome == Outcome::Unknown {
            return;
        }
        if let Some(marks) = versions.unknown.get_mut(&version) {
            marks.remove(&mark);
        }
        match outcome {
            Outcome::Done => versions.made(version, mark),
            _ => {
                let made = versions.made.get(&version);
                assert_ne!(
                    made,
                    Some(&mark),
                    "version {version} was refused, and found"
                );
            }
        }
    }

    /// The leader shows the group like that. No later version is there, and none will come.
    pub(super) fn found(&self, shown: &Value) {
        let version = shown["version"].as_u64().unwrap();
        let mark = shown["user_data"].as_str().unwrap().to_owned();
        let mut versions = self.lock();
        if let Some((last, made)) = versions.made.last_key_value() {
            assert!(
                version >= *last,
                "version {last} of {made} is lost: {shown}"
            );
        }
        let is_known = versions.made.contains_key(&version)
            || versions
                .unknown
                .get(&version)
                .is_some_and(|marks| marks.contains(&mark));
        assert!(is_known, "nobody made {shown}: {versions:?}");
        versions.made(version, mark);
        versions.unknown.retain(|unknown, _| *unknown <= version);
    }

    fn lock(&self) -> MutexGuard<'_, Versions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Versions {
    fn made(&mut self, version: u64, mark: String) {
        let before = self.made.insert(version, mark.clone());
        let is_only = before.as_ref().is_none_or(|before| *before == mark);
        assert!(
            is_only,
            "version {version} was made twice: by {before:?} and by {mark}"
        );
    }
}
