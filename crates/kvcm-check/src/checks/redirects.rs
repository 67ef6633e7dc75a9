//! I7: hints do not lead back, and an epoch costs a client one redirect at most.

use std::collections::{BTreeSet, HashMap};

use crate::{Call, History, Invariant, Route, Violation};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut by_client: HashMap<u32, Vec<&Call>> = HashMap::new();
    for call in &history.calls {
        by_client.entry(call.client).or_default().push(call);
    }
    let epochs = epochs(history);
    let mut violations = Vec::new();
    let mut clients: Vec<_> = by_client.into_iter().collect();
    clients.sort_unstable_by_key(|(client, _)| *client);
    for (_, mut calls) in clients {
        calls.sort_by_key(|call| call.invoke);
        violations.extend(falling(&calls));
        violations.extend(repeated(&calls, &epochs));
    }
    violations
}

/// Between two calls of a client it has followed one hint at most for each epoch that it has learned of
/// in between.
fn repeated(calls: &[&Call], epochs: &BTreeSet<u64>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut before: Option<(&Call, Route)> = None;
    for call in calls {
        let Some(route) = call.route.filter(|route| route.epoch > 0) else {
            continue;
        };
        let (from, done) = before.map_or((0, 0), |(_, route)| (route.epoch, route.redirects));
        let news = match from < route.epoch {
            true => epochs.range(from + 1..=route.epoch).count() as u64,
            false => 0,
        };
        let followed = route.redirects.saturating_sub(done);
        if followed > news {
            let what = format!(
                "client {} followed {followed} hints, and learned of {news} epochs meanwhile",
                call.client
            );
            let violation = Violation::new(Invariant::BoundedHint, what);
            violations.push(match before {
                Some((before, _)) => violation.shown_by(before).shown_by(*call),
                None => violation.shown_by(*call),
            });
        }
        before = Some((call, route));
    }
    violations
}

/// What a client knows never gets older, and no node's hints do.
fn falling(calls: &[&Call]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut route: Option<&Call> = None;
    let mut hints: HashMap<&str, &Call> = HashMap::new();
    let epoch = |call: &Call| call.route.map_or(0, |route| route.epoch);
    for call in calls {
        if epoch(call) > 0 {
            if let Some(before) = route.filter(|before| epoch(before) > epoch(call)) {
                let what = format!("client {} went back to an older leader", call.client);
                let violation = Violation::new(Invariant::BoundedHint, what);
                violations.push(violation.shown_by(before).shown_by(*call));
            }
            route = Some(call);
        }
        if let (Some(node), Some(hint)) = (&call.node, call.hint.filter(|hint| *hint > 0)) {
            let before = hints.insert(node, call);
            if let Some(before) = before.filter(|before| before.hint > Some(hint)) {
                let what = format!("the hints of {node} fell");
                let violation = Violation::new(Invariant::BoundedHint, what);
                violations.push(violation.shown_by(before).shown_by(*call));
            }
        }
    }
    violations
}

/// All epochs that anybody heard of.
pub(super) fn epochs(history: &History) -> BTreeSet<u64> {
    let answers = history.answered().map(|(_, epoch, _)| epoch);
    let hints = history.calls.iter().filter_map(|call| call.hint);
    let routes = history
        .calls
        .iter()
        .filter_map(|call| Some(call.route?.epoch));
    let gates = history.gate_intervals().into_iter().map(|gate| gate.epoch);
    let all = answers.chain(hints).chain(routes).chain(gates);
    all.filter(|epoch| *epoch > 0).collect()
}
