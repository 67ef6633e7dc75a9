//! I1 and I2 as clients see them: an epoch is one node's, and epochs rise in real time.

use std::collections::HashMap;

use crate::{Call, History, Invariant, Violation};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut violations = owners(history);
    let answered: Vec<(&Call, u64, u64)> = history.answered().collect();
    let times = answered
        .iter()
        .map(|(call, epoch, returned)| (call.invoke, *returned, *epoch));
    for (earlier, later) in stale_answers(times) {
        let (newer, older) = (answered[earlier], answered[later]);
        let what = format!(
            "epoch {} answered a call that was sent after epoch {} had answered",
            older.1, newer.1
        );
        let violation = Violation::new(Invariant::NoStaleServe, what);
        violations.push(violation.shown_by(newer.0).shown_by(older.0));
    }
    violations
}

fn owners(history: &History) -> Vec<Violation> {
    let mut owners: HashMap<u64, (&String, &Call)> = HashMap::new();
    let mut violations = Vec::new();
    for (call, epoch, _) in history.answered() {
        let Some(node) = &call.node else { continue };
        let (owner, first) = *owners.entry(epoch).or_insert((node, call));
        if owner != node {
            let what = format!("epoch {epoch} was served by {owner} and by {node}");
            let violation = Violation::new(Invariant::ExclusiveEpoch, what);
            violations.push(violation.shown_by(first).shown_by(call));
        }
    }
    violations
}

/// Of answers `(invoked, returned, epoch)` each whose epoch is below that of an answer that had
/// returned before its call was sent: a superseded leader still served. Gives the places of the
/// newer epoch's answer and of the stale one.
pub fn stale_answers(answers: impl IntoIterator<Item = (u64, u64, u64)>) -> Vec<(usize, usize)> {
    let answers: Vec<_> = answers.into_iter().collect();
    let sorted = |time: fn(&(u64, u64, u64)) -> u64| {
        let mut places: Vec<_> = (0..answers.len()).collect();
        places.sort_by_key(|place| time(&answers[*place]));
        places
    };
    let by_invoke = sorted(|answer| answer.0);
    let mut returned = sorted(|answer| answer.1).into_iter().peekable();
    let mut highest: Option<usize> = None;
    let mut stale = Vec::new();
    for later in by_invoke {
        let (invoked, _, epoch) = answers[later];
        while let Some(place) = returned.next_if(|place| answers[*place].1 < invoked) {
            if highest.is_none_or(|highest| answers[place].2 > answers[highest].2) {
                highest = Some(place);
            }
        }
        if let Some(earlier) = highest.filter(|earlier| answers[*earlier].2 > epoch) {
            stale.push((earlier, later));
        }
    }
    stale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_epoch_after_a_newer_answer_is_caught() {
        assert_eq!(stale_answers([(11, 20, 4), (0, 10, 5)]), [(1, 0)]);
    }

    #[test]
    fn calls_that_overlap_in_time_may_see_either_leader() {
        let calls = [(0, 30, 4), (5, 10, 5), (9, 20, 4), (10, 12, 4), (31, 40, 5)];
        assert_eq!(stale_answers(calls), []);
    }

    #[test]
    fn finds_exactly_what_comparing_all_pairs_finds() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..300 {
            let calls: Vec<_> = (0..random.usize(..25))
                .map(|_| {
                    let from = random.u64(..40);
                    (from, from + random.u64(..10), random.u64(1..4))
                })
                .collect();
            let stale = |later: &&(u64, u64, u64)| {
                calls
                    .iter()
                    .any(|call| call.1 < later.0 && call.2 > later.2)
            };
            let expected = calls.iter().filter(stale).count();
            assert_eq!(stale_answers(calls.iter().copied()).len(), expected);
        }
    }
}
