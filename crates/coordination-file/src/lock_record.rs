//! A lock as it is written.

use std::time::Duration;

use coordination_core::{NodeId, Owner, Phase, Previous, Reign, ReignEnd};
use kvcm_clock::Moment;
use kvcm_fence::Epoch;
use serde::{Deserialize, Serialize};

use crate::host::Process;

/// The present or last reign of a lock. Moments are nanoseconds of the clock that `clock` names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LockRecord {
    pub(crate) key: String,
    pub(crate) clock: String,
    /// The holder's.
    pub(crate) process: Process,
    owner: Owner,
    epoch: Epoch,
    info: String,
    ttl_ns: u64,
    ends_ns: u64,
    phase: PhaseRecord,
    previous: Option<PreviousRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PhaseRecord {
    Held,
    Released { reserved: Option<(NodeId, u64)> },
    Vanished,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PreviousRecord {
    owner: Owner,
    epoch: Epoch,
    end: EndRecord,
    lease_left_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EndRecord {
    Released,
    Expired,
    Dead,
    Unknown,
}

impl LockRecord {
    /// What is to be written.
    pub(crate) fn new(key: &str, clock: &str, process: Process, reign: &Reign) -> Self {
        Self {
            key: key.to_owned(),
            clock: clock.to_owned(),
            process,
            owner: reign.owner.clone(),
            epoch: reign.epoch,
            info: reign.info.clone(),
            ttl_ns: nanos(reign.ttl),
            ends_ns: reign.ends.as_nanos(),
            phase: match &reign.phase {
                Phase::Held => PhaseRecord::Held,
                Phase::Released { reserved } => PhaseRecord::Released {
                    reserved: reserved
                        .as_ref()
                        .map(|(node, until)| (node.clone(), until.as_nanos())),
                },
                Phase::Vanished => PhaseRecord::Vanished,
            },
            previous: reign.previous.as_ref().map(PreviousRecord::new),
        }
    }

    /// The reign, when the record's clock is ours.
    pub(crate) fn into_reign(self) -> Reign {
        Reign {
            owner: self.owner,
            epoch: self.epoch,
            info: self.info,
            ttl: Duration::from_nanos(self.ttl_ns),
            ends: Moment::from_nanos(self.ends_ns),
            phase: match self.phase {
                PhaseRecord::Held => Phase::Held,
                PhaseRecord::Released { reserved } => Phase::Released {
                    reserved: reserved.map(|(node, until)| (node, Moment::from_nanos(until))),
                },
                PhaseRecord::Vanished => Phase::Vanished,
            },
            previous: self.previous.map(PreviousRecord::into_previous),
        }
    }

    /// Whether the end of the lease is of `clock`, as it shows `now`. A lease that would last
    /// longer than it was asked for cannot be.
    pub(crate) fn is_of(&self, clock: &str, now: Moment) -> bool {
        let longest = now + Duration::from_nanos(self.ttl_ns);
        let ends = Moment::from_nanos(self.ends_ns);
        self.clock == clock && (ends <= longest || ends == Moment::NEVER)
    }
}

impl PreviousRecord {
    fn new(previous: &Previous) -> Self {
        Self {
            owner: previous.owner.clone(),
            epoch: previous.epoch,
            end: match previous.end {
                ReignEnd::Released => EndRecord::Released,
                ReignEnd::Expired => EndRecord::Expired,
                ReignEnd::Dead => EndRecord::Dead,
                ReignEnd::Unknown => EndRecord::Unknown,
            },
            lease_left_ns: nanos(previous.lease_left),
        }
    }

    fn into_previous(self) -> Previous {
        Previous {
            owner: self.owner,
            epoch: self.epoch,
            end: match self.end {
                EndRecord::Released => ReignEnd::Released,
                EndRecord::Expired => ReignEnd::Expired,
                EndRecord::Dead => ReignEnd::Dead,
                EndRecord::Unknown => ReignEnd::Unknown,
            },
            lease_left: Duration::from_nanos(self.lease_left_ns),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
