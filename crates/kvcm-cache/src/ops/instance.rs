//! An instance has blocks.

use super::codec::{Decoded, Put, Take};
use crate::home::Home;

/// From here on locations may belong to this registration of an instance. With it the bytes of a
/// registration that is gone can still be found and deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefineInstance {
    /// The registry's JSON of the instance.
    pub(crate) config: String,
}

impl DefineInstance {
    pub(crate) fn of(home: &Home) -> Self {
        Self {
            // Texts, numbers and booleans always have a JSON form.
            config: serde_json::to_string(&*home.instance).unwrap_or_default(),
        }
    }

    pub(super) fn encode(&self, put: &mut Put<'_>) {
        put.text(&self.config);
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Decoded<Self> {
        Ok(Self {
            config: take.text()?.to_owned(),
        })
    }
}
