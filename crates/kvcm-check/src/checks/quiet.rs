//! I8: without a fault there is no election and no error.

use crate::{History, Invariant, Violation};

/// Judges runs without any fault. In others the calm between faults is short, and a busy machine
/// is a fault that nobody wrote down: [`Summary`](crate::Summary) counts what happens there.
pub(super) fn check(history: &History) -> Vec<Violation> {
    if !history.faults.is_empty() {
        return Vec::new();
    }
    let mut violations = Vec::new();
    let mut gates = history.gate_intervals();
    gates.sort_by_key(|gate| gate.open);
    // The first one is how a cluster begins.
    for gate in gates.iter().skip(1) {
        let what = format!("epoch {} began without a fault", gate.epoch);
        violations.push(Violation::new(Invariant::Quiet, what).shown_by(gate));
    }
    for call in history.calls.iter().filter(|call| call.is_error()) {
        let what = format!("client {} got an error without a fault", call.client);
        violations.push(Violation::new(Invariant::Quiet, what).shown_by(call));
    }
    violations
}
