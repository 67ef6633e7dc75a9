//! Locations are on their way out, or gone.

use kvcm_index::Grant;

use super::codec::{Decoded, Put, Take};

/// Locations of an instance that are on their way out, or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remove {
    pub(crate) instance: String,
    pub(crate) removed: Vec<Removed>,
}

/// Those of one grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removed {
    pub(crate) grant: Grant,
    pub(crate) keys: Vec<i64>,
}

impl Remove {
    pub(super) fn encode(&self, put: &mut Put<'_>) {
        put.text(&self.instance);
        put.len(self.removed.len());
        for removed in &self.removed {
            put.u64(removed.grant.epoch);
            put.u64(removed.grant.counter);
            put.keys(&removed.keys);
        }
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Decoded<Self> {
        let instance = take.text()?.to_owned();
        let removed = |take: &mut Take<'_>| {
            Ok(Removed {
                grant: Grant {
                    epoch: take.u64()?,
                    counter: take.u64()?,
                },
                keys: take.keys()?,
            })
        };
        Ok(Self {
            instance,
            removed: take.list(removed, 20)?,
        })
    }

    /// Nothing of that instance yet.
    pub(crate) fn of(instance: &str) -> Self {
        Self {
            instance: instance.to_owned(),
            removed: Vec::new(),
        }
    }

    /// Its locations by key and grant, in order.
    pub(crate) fn locations(&self) -> impl Iterator<Item = (i64, Grant)> + '_ {
        self.removed
            .iter()
            .flat_map(|part| part.keys.iter().map(|key| (*key, part.grant)))
    }

    /// Adds a location; those of one grant share an entry when they come one after another.
    pub(crate) fn push(&mut self, key: i64, grant: Grant) {
        match self.removed.last_mut() {
            Some(last) if last.grant == grant => last.keys.push(key),
            _ => self.removed.push(Removed {
                grant,
                keys: vec![key],
            }),
        }
    }
}
