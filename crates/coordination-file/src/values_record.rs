//! All values, as they are written.

use coordination_core::StoredValue;
use kvcm_clock::Moment;
use serde::{Deserialize, Serialize};

/// All values of a directory, in one record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ValuesRecord {
    /// Names the clock of all moments.
    pub(crate) clock: String,
    /// Rises with every change.
    pub(crate) version: u64,
    /// The version that last changed what has to last, or 0: there should be a synced copy of it.
    pub(crate) lasting: u64,
    values: Vec<ValueRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ValueRecord {
    key: String,
    text: String,
    version: u64,
    expires_ns: Option<u64>,
}

impl ValuesRecord {
    /// Brings a record to the clock `clock`, at `now`. What should have been set again on another
    /// clock belongs to a dead process.
    pub(crate) fn bring_to(mut self, clock: &str, now: Moment) -> Self {
        let ours = self.clock == clock;
        clock.clone_into(&mut self.clock);
        self.values.retain(|value| match value.expires_ns {
            Some(ends) => ours && now < Moment::from_nanos(ends),
            None => true,
        });
        self
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<StoredValue> {
        let value = self.values.iter().find(|value| value.key == key)?;
        Some(value.stored())
    }

    /// All values, with their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, StoredValue)> {
        let value = |value: &'_ ValueRecord| value.stored();
        self.values
            .iter()
            .map(move |record| (record.key.as_str(), value(record)))
    }

    /// Sets the value of a key, or removes it.
    pub(crate) fn put(&mut self, key: &str, value: Option<StoredValue>) {
        self.values.retain(|value| value.key != key);
        self.values.extend(value.map(|value| ValueRecord {
            key: key.to_owned(),
            text: value.text,
            version: value.version,
            expires_ns: value.expires.map(Moment::as_nanos),
        }));
    }
}

impl ValueRecord {
    fn stored(&self) -> StoredValue {
        StoredValue {
            text: self.text.clone(),
            version: self.version,
            expires: self.expires_ns.map(Moment::from_nanos),
        }
    }
}
