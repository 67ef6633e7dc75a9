//! How much of an instance comes in a snapshot.

use super::codec::{Decoded, Put, Take};
use crate::home::Home;

/// About so many keys of an instance follow: a recovery can make room for them at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) instance: String,
    /// Of the instance's registration.
    pub(crate) fingerprint: u64,
    pub(crate) keys: u64,
}

impl Room {
    pub(crate) fn of(home: &Home) -> Self {
        Self {
            instance: home.id.as_ref().to_owned(),
            fingerprint: home.fingerprint,
            keys: home.index.len() as u64,
        }
    }

    pub(super) fn encode(&self, put: &mut Put<'_>) {
        put.text(&self.instance);
        put.u64(self.fingerprint);
        put.u64(self.keys);
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Decoded<Self> {
        Ok(Self {
            instance: take.text()?.to_owned(),
            fingerprint: take.u64()?,
            keys: take.u64()?,
        })
    }
}
