//! The checks, one file each.

mod epochs;
mod floors;
mod gates;
mod keys;
mod liveness;
mod quiet;
mod redirects;
mod registry;
mod repeats;
mod writes;

use std::collections::BTreeSet;

use crate::{History, Violation};

pub use epochs::stale_answers;

/// Everything that is wrong with `history`, the gravest first.
pub fn check(history: &History) -> Vec<Violation> {
    let checks: [fn(&History) -> Vec<Violation>; 10] = [
        epochs::check,
        gates::check,
        writes::check,
        keys::check,
        registry::check,
        repeats::check,
        redirects::check,
        liveness::check,
        quiet::check,
        floors::check,
    ];
    let mut violations: Vec<_> = checks.iter().flat_map(|check| check(history)).collect();
    violations.sort_by_key(|violation| violation.invariant);
    violations
}

/// The epochs under which somebody served: by the nodes' logs, or else by the answers.
pub(crate) fn served_epochs(history: &History) -> BTreeSet<u64> {
    let gates = history.gate_intervals();
    if gates.is_empty() {
        return history.answered().map(|(_, epoch, _)| epoch).collect();
    }
    gates.into_iter().map(|gate| gate.epoch).collect()
}
