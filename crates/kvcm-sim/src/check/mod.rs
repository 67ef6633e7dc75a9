//! An independent judge: reads what happened in a run and says which invariants were broken. It
//! shares no code with the cluster.

mod callbacks;
mod epochs;
mod hints;
mod lists;
mod liveness;
mod operators;
mod races;
mod serving;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

pub use races::Race;

use crate::{
    event::{Event, Life, Told},
    fault::Fault,
    run::History,
};

/// The invariants, by the names that every layer of tests uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// I1: an epoch has one owner, and epochs rise in real-time order of acquisition.
    ExclusiveEpoch,
    /// I2: nothing is served in an epoch after something was admitted in a later one.
    NoStaleServe,
    /// I3: an acknowledged write is visible to every later acknowledged read.
    NoLostAck,
    /// I4: a request has its effect once, and the same answer each time.
    AtMostOnce,
    /// I5: promote and demote callbacks alternate, with the same epoch, and never overlap.
    HandlerAlternation,
    /// I6: where nothing is wrong there is a leader that serves.
    Liveness,
    /// I7: clients are sent forward only, at most once per epoch.
    BoundedHint,
    /// I8: where nothing is wrong nothing happens.
    Quiet,
    /// What operators were told is so: a node that is kept out serves nothing, a transfer has
    /// reached its successor, and what was taken back goes on.
    OperatorsObeyed,
    /// So much must have gone well that the rest means something.
    Floor,
}

/// An invariant that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// When, in nanoseconds of the run.
    pub at: u64,
    /// How.
    pub text: String,
}

/// What the judge found in a run.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// What was broken.
    pub violations: Vec<Violation>,
    /// Faults that had an effect, and how often.
    pub faults: BTreeMap<Fault, u64>,
    /// Races that came about, and how often.
    pub races: BTreeMap<Race, u64>,
    /// Reigns that served.
    pub reigns: u64,
    /// Locks won after an end that nobody could vouch for.
    pub unproven: u64,
    /// Calls of clients that have ended.
    pub calls: u64,
    /// Those that were answered.
    pub answered: u64,
    /// How often one process was given the lock within a tenth of a lease, at most.
    pub busiest: u64,
    /// How long it took from the end of all faults to the first answer.
    pub healed_after: Option<u64>,
}

/// Judges a run.
pub fn judge(history: &History) -> Verdict {
    let mut verdict = Verdict {
        races: races::find(history),
        ..Verdict::default()
    };
    let out = &mut verdict.violations;
    epochs::check(history, out);
    serving::check(history, out);
    lists::check(history, out);
    callbacks::check(history, out);
    hints::check(history, out);
    operators::check(history, out);
    verdict.healed_after = liveness::check(history, out);
    count(history, &mut verdict);
    if verdict.answered < 20 {
        verdict.violations.push(Violation {
            invariant: Invariant::Floor,
            at: history.end,
            text: format!("{} calls were answered", verdict.answered),
        });
    }
    verdict
}

fn count(history: &History, verdict: &mut Verdict) {
    let mut served = BTreeSet::new();
    let mut given: BTreeMap<Life, VecDeque<u64>> = BTreeMap::new();
    let tenth = u64::try_from(history.lease.as_nanos() / 10).unwrap_or(u64::MAX);
    for entry in &history.entries {
        match &entry.event {
            Event::FaultBegan { fault, .. } | Event::FaultHit { fault } => {
                *verdict.faults.entry(*fault).or_default() += 1;
            }
            Event::Confirmed { epoch, life, .. } | Event::Appended { epoch, life, .. } => {
                served.insert((*epoch, *life));
            }
            Event::Acquired { life, .. } => {
                let given = given.entry(*life).or_default();
                given.push_back(entry.at);
                while given.front().is_some_and(|first| first + tenth < entry.at) {
                    given.pop_front();
                }
                verdict.busiest = verdict.busiest.max(given.len() as u64);
            }
            Event::Unproven { .. } => verdict.unproven += 1,
            Event::Returned { told, .. } => {
                verdict.calls += 1;
                verdict.answered += u64::from(*told != Told::Nothing);
            }
            _ => {}
        }
    }
    verdict.reigns = served.len() as u64;
}

impl Told {
    /// The epoch of the answer.
    pub(crate) const fn epoch(&self) -> Option<u64> {
        match self {
            Self::Written { epoch, .. } | Self::Values { epoch, .. } => Some(*epoch),
            Self::Nothing => None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.at / 1_000_000;
        write!(f, "{:?} at {ms} ms: {}", self.invariant, self.text)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::event::Entry;

    /// A history in which each event comes a millisecond after the one before.
    pub(crate) fn history(events: impl IntoIterator<Item = Event>) -> History {
        let entry = |(ms, event): (u64, Event)| Entry {
            at: 1_000_000 * ms,
            event,
        };
        History {
            entries: (0..).zip(events).map(entry).collect(),
            lease: std::time::Duration::from_secs(1),
            chaos_at: 0,
            heals_at: u64::MAX / 2,
            end: u64::MAX / 2,
            nodes: 3,
        }
    }

    pub(crate) fn life(node: usize) -> Life {
        Life { node, life: 0 }
    }

    pub(crate) fn broken(
        check: fn(&History, &mut Vec<Violation>),
        events: impl IntoIterator<Item = Event>,
    ) -> Vec<Invariant> {
        let mut out = Vec::new();
        check(&history(events), &mut out);
        out.into_iter()
            .map(|violation| violation.invariant)
            .collect()
    }
}
