//! Keeps what happened, for those who ask later.

use std::{collections::VecDeque, time::Duration};

use kvcm_clock::wall_clock_ms;
use parking_lot::Mutex;

use crate::{Change, Measures, Record};

/// How many changes of leadership are kept.
const KEPT: usize = 64;

/// The last changes of leadership, and what was measured. Its locks are held for a copy at most.
#[derive(Debug)]
pub(crate) struct Records {
    history: Mutex<VecDeque<Record>>,
    measures: Mutex<Measures>,
}

impl Records {
    pub(crate) fn new() -> Self {
        Self {
            history: Mutex::default(),
            measures: Mutex::new(Measures::new()),
        }
    }

    /// Keeps a change of leadership and logs it as one line.
    pub(crate) fn keep(&self, change: Change) {
        tracing::info!(
            node = %change.owner.node,
            incarnation = %change.owner.incarnation,
            epoch = %change.epoch,
            result = change.turn.result(),
            reason = change.turn.reason(),
            evidence = %change.evidence,
            took = %change.took,
            "leadership changed"
        );
        self.measures.lock().count(&change);
        let mut history = self.history.lock();
        if history.len() == KEPT {
            history.pop_front();
        }
        history.push_back(Record {
            wall_ms: wall_clock_ms(),
            change,
        });
    }

    pub(crate) fn renewed(&self, took: Duration) {
        self.measures.lock().renew.add(took);
    }

    pub(crate) fn timer_was_late(&self, late: Duration, margin: Option<Duration>) {
        let mut measures = self.measures.lock();
        measures.lateness.add(late);
        if let Some(margin) = margin {
            measures.margin = margin;
        }
    }

    pub(crate) fn history(&self) -> Vec<Record> {
        self.history.lock().iter().cloned().collect()
    }

    pub(crate) fn measures(&self) -> Measures {
        self.measures.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use kvcm_clock::Moment;
    use kvcm_fence::{Epoch, Incarnation};

    use super::*;
    use crate::{LossReason, Took, Turn};

    #[test]
    fn the_oldest_change_makes_room_and_all_are_counted() {
        let records = Records::new();
        for value in 1..=KEPT as u64 + 1 {
            records.keep(Change {
                at: Moment::ZERO,
                owner: coordination_core::Owner {
                    node: "a".parse().unwrap(),
                    incarnation: Incarnation::from_bits(1),
                },
                epoch: Epoch::new(value).unwrap(),
                turn: Turn::Ended(LossReason::NotHeld),
                evidence: String::new(),
                took: Took {
                    drain: Some(Duration::from_millis(2)),
                    ..Took::default()
                },
            });
        }
        let history = records.history();
        assert_eq!(history.len(), KEPT);
        assert_eq!(history[0].change.epoch.get(), 2);
        let measures = records.measures();
        assert_eq!(measures.changes[&("lost", "not_held")], 65);
        let drain = measures.parts.iter().find(|(name, _)| *name == "drain");
        assert_eq!(drain.unwrap().1.count(), 65);
    }
}
