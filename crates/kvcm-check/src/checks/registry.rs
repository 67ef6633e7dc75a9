//! I3 of the registry: a registered instance stays known.

use std::collections::HashMap;

use crate::{Call, History, Invariant, Op, Violation};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut registered: HashMap<&String, Vec<&Call>> = HashMap::new();
    for (call, ..) in history.answered() {
        if let Op::Register { instance } = &call.op {
            registered.entry(instance).or_default().push(call);
        }
    }
    let lost = |(call, _, returned): (&Call, u64, u64)| {
        let Op::Instance {
            instance,
            known: false,
        } = &call.op
        else {
            return None;
        };
        let due = registered.get(instance)?.iter().find(|register| {
            let is_before = register.returned.is_some_and(|at| at < call.invoke);
            let is_lost = |loss: &crate::Loss| register.invoke < loss.until && loss.at < returned;
            let outlives = history.run.durable_registry || register.epoch == call.epoch;
            // What is in a store that was made to forget may show as lost until somebody writes.
            is_before && outlives && !history.losses.iter().any(is_lost)
        })?;
        let what = format!("instance {instance} was registered and is unknown");
        let violation = Violation::new(Invariant::NoLostAck, what);
        Some(violation.shown_by(*due).shown_by(call))
    };
    history.answered().filter_map(lost).collect()
}
