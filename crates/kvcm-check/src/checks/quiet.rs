//! I8: without a fault there is no election and no error.

use crate::{History, Invariant, Violation, history::is_calm};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let windows = history.windows();
    let mut violations = Vec::new();
    let mut gates = history.gate_intervals();
    gates.sort_by_key(|gate| gate.open);
    // The first one is how a cluster begins.
    for gate in gates.iter().skip(1) {
        if is_calm(&windows, gate.open, gate.open) {
            let what = format!("epoch {} began without a fault", gate.epoch);
            violations.push(Violation::new(Invariant::Quiet, what).shown_by(gate));
        }
    }
    if history.faults.is_empty() {
        for call in history.calls.iter().filter(|call| call.is_error()) {
            let what = format!("client {} got an error without a fault", call.client);
            violations.push(Violation::new(Invariant::Quiet, what).shown_by(call));
        }
    }
    violations
}
