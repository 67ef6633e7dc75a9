//! I6: once a fault is over, a leader serves soon.

use crate::{History, Invariant, Violation};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let limit = history.run.recovery;
    let slow = history.faults.iter().filter(|fault| {
        let in_time = |at: u64| at.saturating_sub(fault.until) <= limit;
        limit > 0 && !fault.recovered.is_some_and(in_time)
    });
    let violations = slow.map(|fault| {
        let what = format!(
            "no leader served within {} ms of the end of: {}",
            limit / 1_000_000,
            fault.kind
        );
        Violation::new(Invariant::Liveness, what).shown_by(fault)
    });
    violations.collect()
}
