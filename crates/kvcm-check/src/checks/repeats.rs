//! I4: a repeat of a request id has no effect of its own and gets the same answer.

use std::collections::HashMap;

use crate::{Call, History, Invariant, Violation};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut first: HashMap<(&str, Option<u64>), &Call> = HashMap::new();
    let mut violations = Vec::new();
    for (call, epoch, _) in history.answered() {
        let Some(id) = &call.request_id else { continue };
        // Where answers do not outlive their leader, each leader has its own.
        let reign = (!history.run.durable_answers).then_some(epoch);
        let known = *first.entry((id, reign)).or_insert(call);
        // What the store was made to forget may be answered anew.
        let is_lost =
            |loss: &crate::Loss| loss.until >= known.invoke && Some(loss.at) < call.returned;
        if known.op != call.op && !history.losses.iter().any(is_lost) {
            let what = format!("request id {id} got two answers");
            let violation = Violation::new(Invariant::AtMostOnce, what);
            violations.push(violation.shown_by(known).shown_by(call));
        }
    }
    violations
}
