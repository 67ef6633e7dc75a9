//! A run that refuses everything, or in which nothing happens, must not pass.

use crate::{History, Invariant, Summary, Violation};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let floors = history.run.floors;
    let summary = Summary::of(history);
    let mut violations = Vec::new();
    if summary.leader_changes < floors.leader_changes {
        let what = format!(
            "{} changes of leader, fewer than {}",
            summary.leader_changes, floors.leader_changes
        );
        violations.push(Violation::new(Invariant::Floor, what));
    }
    if summary.calm_ok_share() < floors.ok_share {
        let what = format!(
            "{:.2} % of {} calls outside fault windows went well, less than {:.2} %",
            summary.calm_ok_share() * 100.0,
            summary.calm_calls,
            floors.ok_share * 100.0
        );
        let errors = history.calls.iter().filter(|call| call.is_error());
        let windows = history.windows();
        let calm = |call: &&crate::Call| {
            let end = call.returned.unwrap_or(call.invoke);
            crate::history::is_calm(&windows, call.invoke, end)
        };
        let mut violation = Violation::new(Invariant::Floor, what);
        for call in errors.filter(calm).take(3) {
            violation = violation.shown_by(call);
        }
        violations.push(violation);
    }
    violations
}
