//! I3, what needs no search: nobody reads what was never written, given up or refused, and no
//! place is granted twice.

use std::collections::HashMap;

use crate::{Call, History, Invariant, Op, Outcome, Violation};

/// What is known of a place.
#[derive(Default)]
struct Place<'a> {
    granted: Option<&'a Call>,
    /// Its earliest confirmation that may have happened.
    finish: Option<&'a Call>,
    /// Its refusal, or its end unwritten.
    refused: Option<&'a Call>,
}

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut places: HashMap<&str, Place<'_>> = HashMap::new();
    for call in &history.calls {
        match &call.op {
            Op::Start { granted, .. } if call.is_ok() => {
                for uri in granted.iter().flatten() {
                    let place = places.entry(uri).or_default();
                    match place.granted {
                        Some(other) if !is_repeat(other, call) => {
                            let what = format!("{uri} was granted twice");
                            let violation = Violation::new(Invariant::AtMostOnce, what);
                            violations.push(violation.shown_by(other).shown_by(call));
                        }
                        _ => place.granted = Some(call),
                    }
                }
            }
            Op::Finish {
                uris,
                written,
                gone,
                ..
            } => {
                for (uri, written) in uris.iter().zip(written) {
                    let place = places.entry(uri).or_default();
                    let is_refused = *gone || (call.is_ok() && !written);
                    if is_refused && place.refused.is_none_or(|known| call.invoke < known.invoke) {
                        place.refused = Some(call);
                    }
                    let is_sent = *written && (call.outcome != Outcome::Fail || call.attempts > 1);
                    if is_sent && place.finish.is_none_or(|known| call.invoke < known.invoke) {
                        place.finish = Some(call);
                    }
                }
            }
            _ => {}
        }
    }
    let lookups = history.calls.iter().filter(|call| call.is_ok());
    for call in lookups {
        let Op::Lookup { uris, .. } = &call.op else {
            continue;
        };
        violations.extend(
            uris.iter()
                .flatten()
                .filter_map(|uri| wrong(history, &places, call, uri)),
        );
    }
    violations
}

fn wrong(
    history: &History,
    places: &HashMap<&str, Place<'_>>,
    call: &Call,
    uri: &String,
) -> Option<Violation> {
    let place = places.get(&**uri);
    let finish = place.and_then(|place| place.finish);
    let refused = place.and_then(|place| place.refused).filter(|refused| {
        let is_before = refused
            .returned
            .is_some_and(|returned| returned < call.invoke);
        // Private memory may come back with its node.
        is_before && (history.run.durable_blocks || refused.epoch == call.epoch)
    });
    if let Some(refused) = refused {
        let what = format!("{uri} is served although its end was refused or unwritten");
        let violation = Violation::new(Invariant::NoLostAck, what);
        return Some(violation.shown_by(refused).shown_by(call));
    }
    if finish.is_none_or(|finish| {
        call.returned
            .is_some_and(|returned| finish.invoke > returned)
    }) {
        let what = format!("{uri} is served although nobody had confirmed it");
        return Some(Violation::new(Invariant::NoLostAck, what).shown_by(call));
    }
    None
}

fn is_repeat(one: &Call, other: &Call) -> bool {
    one.request_id.is_some() && one.request_id == other.request_id
}
