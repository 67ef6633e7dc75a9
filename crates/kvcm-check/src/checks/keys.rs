//! I3: all answers about a key agree with one order of all calls on it.

use std::sync::Mutex;

use crate::{
    History, Invariant, Violation,
    key::{Partition, Verdict, project, search, shrink},
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let partitions = project(history);
    let violations = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for part in partitions.chunks(partitions.len().div_ceil(workers).max(1)) {
            let violations = &violations;
            scope.spawn(move || {
                for partition in part {
                    if let Some(violation) = check_one(history, partition)
                        && let Ok(mut violations) = violations.lock()
                    {
                        violations.push((partition.key, violation));
                    }
                }
            });
        }
    });
    let mut violations = violations.into_inner().unwrap_or_default();
    violations.sort_by_key(|(key, _)| *key);
    violations
        .into_iter()
        .map(|(_, violation)| violation)
        .collect()
}

fn check_one(history: &History, partition: &Partition) -> Option<Violation> {
    let (first, removed) = (partition.first, partition.may_be_removed);
    let key = partition.key;
    let reign = match partition.epoch {
        Some(epoch) => format!(" in epoch {epoch}"),
        None => String::new(),
    };
    match search(first, &partition.entries, removed) {
        Verdict::Linearizable => None,
        Verdict::Undecided => {
            let calls = partition.entries.len();
            let what = format!("key {key}{reign}: {calls} calls that could not be decided");
            Some(Violation::new(Invariant::NoLostAck, what))
        }
        Verdict::Wrong => {
            let what = format!("key {key}{reign}: no order of the calls explains these answers");
            let mut violation = Violation::new(Invariant::NoLostAck, what);
            let mut shown: Vec<_> = shrink(first, &partition.entries, removed);
            shown.sort_by_key(|place| partition.entries[*place].invoke);
            let mut calls: Vec<_> = shown
                .iter()
                .filter_map(|place| partition.calls[*place])
                .collect();
            calls.dedup();
            for number in calls {
                violation = violation.shown_by(&history.calls[number]);
            }
            Some(violation)
        }
    }
}
