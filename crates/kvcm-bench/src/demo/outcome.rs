//! Everything that a run saw.

use std::{collections::HashSet, time::Duration};

use kvcm_clock::Moment;

use super::phase::Tally;
use crate::{Change, History, WrongRead, check_reads, reigns};

/// Something done to the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Incident {
    /// When it was done.
    pub(crate) at: Moment,
    /// For people: what, and to whom.
    pub(crate) text: String,
    /// It takes leadership away, so another epoch has to follow.
    pub(crate) ends_a_reign: bool,
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What engines were answered.
    pub(crate) history: History,
    /// Counts by [`Phase`].
    pub(crate) tallies: [Tally; 4],
    /// What was done to the cluster, in order of time.
    pub(crate) incidents: Vec<Incident>,
    /// Calls that engines made.
    pub(crate) calls: u64,
    /// Tries again and moves to another leader inside those calls, which engines do not see.
    pub(crate) retries: u64,
    /// How many errors reached an engine.
    pub(crate) errors: u64,
    /// The texts of some.
    pub(crate) error_texts: Vec<String>,
    /// Write sessions begun again because the leader that kept them is gone.
    pub(crate) sessions_redone: u64,
    /// Registrations made again on a leader that did not know the instance.
    pub(crate) registrations_redone: u64,
    /// When the first request was due.
    pub(crate) start: Moment,
    /// From the first request to the last answer.
    pub(crate) elapsed: Duration,
    /// Addresses of nodes with their names.
    pub(crate) names: Vec<(String, String)>,
}

impl Outcome {
    /// Different blocks that were acknowledged.
    pub(super) fn acknowledged_blocks(&self) -> u64 {
        let keys = self.history.writes().flat_map(|(_, keys)| keys);
        keys.collect::<HashSet<_>>().len() as u64
    }

    /// Different blocks that were acknowledged and missed later.
    pub(super) fn lost_blocks(&self) -> u64 {
        let wrong = check_reads(&self.history);
        let lost = wrong.iter().filter_map(|wrong| match wrong {
            WrongRead::Lost { key, .. } => Some(key),
            WrongRead::Phantom { .. } => None,
        });
        lost.collect::<HashSet<_>>().len() as u64
    }

    /// From each reign that engines saw to the next.
    pub(super) fn changes(&self) -> Vec<Change> {
        let reigns = reigns(&self.history);
        let pairs = reigns.windows(2);
        let changes = pairs.map(|pair| {
            let causes = self
                .incidents
                .iter()
                .rev()
                .filter(|incident| incident.ends_a_reign);
            let cause = causes
                .filter(|incident| (pair[0].first..pair[1].first).contains(&incident.at))
                .map(|incident| (incident.at, incident.text.clone()))
                .next();
            Change {
                from: pair[0].epoch,
                to: pair[1].epoch,
                cause,
            }
        });
        changes.collect()
    }
}

/// Runs for the tests of what is made of them.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Call, What};

    pub(crate) fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    pub(crate) fn call(epoch: u64, node: &str, ms: u64, what: What) -> Call {
        let (invoked, returned) = (at(ms), at(ms + 5));
        Call {
            engine: 1,
            invoked,
            returned,
            epoch,
            node: node.into(),
            what,
        }
    }

    pub(crate) fn written(keys: &[i64]) -> What {
        What::Written {
            keys: keys.to_vec(),
        }
    }

    /// A small run in which everything went well.
    pub(crate) fn good() -> Outcome {
        let lookup = What::Lookup {
            keys: [1, 2].into(),
            hits: 2,
        };
        Outcome {
            history: History {
                calls: vec![
                    call(3, "127.0.0.1:1", 1000, written(&[1, 2])),
                    call(8, "127.0.0.1:2", 2000, lookup),
                    call(8, "127.0.0.1:2", 2100, written(&[1, 2])),
                ],
                unsettled: Vec::new(),
            },
            tallies: [Tally {
                requests: 1,
                blocks: 2,
                hits: 1,
                written: 1,
            }; 4],
            incidents: vec![Incident {
                at: at(1500),
                text: "SIGKILL of node-1".to_owned(),
                ends_a_reign: true,
            }],
            calls: 3,
            start: at(1000),
            elapsed: Duration::from_secs(2),
            names: vec![("127.0.0.1:1".to_owned(), "node-1".to_owned())],
            ..Outcome::default()
        }
    }
}
