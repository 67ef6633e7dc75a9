//! What a holder stores with the lock.

use serde::{Deserialize, Serialize};

/// How far a leader has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It holds the lock and recovers its stores; its gate is shut.
    Recovering,
    /// Its gate is open, or opens with the answer to this renewal.
    Serving,
    /// It finishes what it has begun and will release the lock.
    Draining,
}

impl Phase {
    /// The word for people and for the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recovering => "recovering",
            Self::Serving => "serving",
            Self::Draining => "draining",
        }
    }
}

/// What a holder stores with the lock, as JSON: so that a hint never names another life of the
/// node than the one that leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockInfo {
    /// How far it has come.
    pub phase: Phase,
    /// How to reach it; the election does not read it.
    pub endpoint: serde_json::Value,
}

impl LockInfo {
    /// The text for the backend.
    pub fn encode(&self) -> String {
        // Two plain fields cannot fail to serialize.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what another node stored; none when it is not ours to understand.
    pub fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
