//! What is wrong, with its evidence.

use std::fmt;

/// What the cluster promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// I1: an epoch has one owner.
    ExclusiveEpoch,
    /// I2: nobody answers after a later leader has.
    NoStaleServe,
    /// I3: what was acknowledged is not lost, and reads agree with one order of all calls.
    NoLostAck,
    /// I4: a request id takes effect once.
    AtMostOnce,
    /// I6: a healthy cluster has a leader.
    Liveness,
    /// I7: hints do not lead back.
    BoundedHint,
    /// I8: without a fault nothing happens.
    Quiet,
    /// The run has shown enough.
    Floor,
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// In one sentence.
    pub what: String,
    /// The records that show it, as few as do.
    pub evidence: Vec<String>,
}

impl Violation {
    pub(crate) fn new(invariant: Invariant, what: String) -> Self {
        Self {
            invariant,
            what,
            evidence: Vec::new(),
        }
    }

    /// With a record that shows it.
    pub(crate) fn shown_by(mut self, record: &impl serde::Serialize) -> Self {
        let line = serde_json::to_string(record);
        self.evidence
            .push(line.unwrap_or_else(|error| error.to_string()));
        self
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExclusiveEpoch => "I1 ExclusiveEpoch",
            Self::NoStaleServe => "I2 NoStaleServe",
            Self::NoLostAck => "I3 NoLostAck",
            Self::AtMostOnce => "I4 AtMostOnce",
            Self::Liveness => "I6 Liveness",
            Self::BoundedHint => "I7 BoundedHint",
            Self::Quiet => "I8 Quiet",
            Self::Floor => "floor",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)?;
        self.evidence
            .iter()
            .try_for_each(|line| write!(f, "\n    {line}"))
    }
}
