//! I1 and I2 as the nodes' logs tell them: never two gates open.

use crate::{History, Invariant, Violation};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let intervals = history.gate_intervals();
    let mut violations = Vec::new();
    // In order of epoch: each has to begin after all before have ended.
    let mut latest: Option<&crate::GateInterval> = None;
    for interval in &intervals {
        if let Some(before) = latest {
            if before.epoch == interval.epoch && before.node != interval.node {
                let (a, b) = (&before.node, &interval.node);
                let what = format!("epoch {} opened the gates of {a} and {b}", interval.epoch);
                let violation = Violation::new(Invariant::ExclusiveEpoch, what);
                violations.push(violation.shown_by(before).shown_by(interval));
            }
            if interval.open < before.shut {
                let end = before.shut.min(interval.shut);
                let together = end.saturating_sub(before.open.max(interval.open)) / 1000;
                let what = format!(
                    "the gate of epoch {} opened before that of epoch {} was shut for good; \
                     both were open for {together} us",
                    interval.epoch, before.epoch
                );
                let violation = Violation::new(Invariant::NoStaleServe, what);
                violations.push(violation.shown_by(before).shown_by(interval));
            }
        }
        if latest.is_none_or(|before| before.shut <= interval.shut) {
            latest = Some(interval);
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GateEvent::{self, Open, Shut};

    fn found(nodes: &[(&str, &[GateEvent])]) -> Vec<Invariant> {
        let gates = nodes
            .iter()
            .map(|(node, events)| ((*node).into(), events.to_vec()));
        let history = History {
            gates: gates.collect(),
            ..History::default()
        };
        check(&history)
            .iter()
            .map(|violation| violation.invariant)
            .collect()
    }

    fn interval(epoch: u64, from: u64, to: u64) -> [GateEvent; 2] {
        [Open { epoch, at: from }, Shut { epoch, at: to }]
    }

    #[test]
    fn gates_one_after_the_other_are_fine() {
        let (a, b) = (interval(1, 0, 10), interval(2, 10, 20));
        assert_eq!(found(&[("a", &a), ("b", &b)]), []);
        assert_eq!(found(&[("a", &[a, interval(2, 30, 40)].concat())]), []);
    }

    #[test]
    fn gates_that_are_open_together_are_caught() {
        let (a, b) = (interval(1, 0, 10), interval(2, 9, 20));
        assert_eq!(found(&[("a", &a), ("b", &b)]), [Invariant::NoStaleServe]);
        // A later epoch before an earlier one, too.
        let (a, b) = (interval(2, 0, 10), interval(1, 20, 30));
        assert_eq!(found(&[("a", &a), ("b", &b)]), [Invariant::NoStaleServe]);
        // Long ago, but never shut.
        let (b, c) = (interval(2, 10, 20), interval(3, 30, 40));
        let a = [Open { epoch: 1, at: 0 }];
        assert_eq!(found(&[("a", &a), ("b", &b), ("c", &c)]).len(), 2);
    }

    #[test]
    fn one_epoch_at_two_nodes_is_caught() {
        let (a, b) = (interval(1, 0, 10), interval(1, 20, 30));
        assert_eq!(found(&[("a", &a), ("b", &b)]), [Invariant::ExclusiveEpoch]);
    }
}
