//! A storage gets its number.

use super::codec::{Decoded, Put, Take};
use crate::storages::Known;

/// From here on `number` stands for the storage with this configuration. A storage whose
/// configuration changes gets another number, so that old locations keep their URIs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefineStorage {
    pub(crate) number: u16,
    /// The registry's JSON of the storage.
    pub(crate) config: String,
}

impl DefineStorage {
    pub(crate) fn of(known: &Known) -> Self {
        Self {
            number: known.number,
            // Texts, numbers and booleans always have a JSON form.
            config: serde_json::to_string(&known.storage).unwrap_or_default(),
        }
    }

    pub(super) fn encode(&self, put: &mut Put<'_>) {
        put.u16(self.number);
        put.text(&self.config);
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Decoded<Self> {
        Ok(Self {
            number: take.u16()?,
            config: take.text()?.to_owned(),
        })
    }
}
