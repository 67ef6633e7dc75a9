//! The tables for people.

use std::{collections::BTreeMap, fmt::Write};

use crate::{History, Invariant, Summary, Violation};

/// What happened and what is wrong: faults, calls, violations with their evidence, of each
/// invariant the first `shown`.
pub fn report(history: &History, violations: &[Violation], shown: usize) -> String {
    let summary = Summary::of(history);
    let mut text = String::new();
    let mut rows = vec![row(&[
        "fault",
        "count",
        "errors",
        "gap p50 ms",
        "p90 ms",
        "max ms",
    ])];
    for (kind, line) in &summary.faults {
        let gap = |percent| ms(percentile(&line.gaps, percent));
        let [count, errors] = [line.count, line.errors].map(|count| count.to_string());
        rows.push(vec![
            kind.clone(),
            count,
            errors,
            gap(50),
            gap(90),
            gap(100),
        ]);
    }
    text += &table(&rows);
    text.push('\n');
    let mut rows = vec![row(&["call", "count", "ok"])];
    for (kind, (count, ok)) in &summary.calls {
        rows.push(vec![(*kind).to_owned(), count.to_string(), ok.to_string()]);
    }
    text += &table(&rows);
    text.push('\n');
    let faults: usize = summary.faults.values().map(|line| line.count).sum();
    let calls: usize = summary.calls.values().map(|(count, _)| count).sum();
    let lines = [
        ("faults", faults.to_string()),
        ("calls", calls.to_string()),
        ("changes of leader", summary.leader_changes.to_string()),
        (
            "of them outside fault windows",
            summary.calm_elections.to_string(),
        ),
        ("errors that a client saw", summary.errors.to_string()),
        (
            "OK outside fault windows",
            format!(
                "{:.2} % of {}",
                summary.calm_ok_share() * 100.0,
                summary.calm_calls
            ),
        ),
        ("violations", violations.len().to_string()),
    ];
    let rows: Vec<_> = lines.map(|(what, much)| row(&[what, &much])).into();
    text += &table(&rows);
    let mut seen: BTreeMap<Invariant, usize> = BTreeMap::new();
    for violation in violations {
        let count = seen.entry(violation.invariant).or_default();
        *count += 1;
        if *count <= shown {
            let _ = writeln!(text, "\n{violation}");
        }
    }
    for (invariant, count) in seen.into_iter().filter(|(_, count)| *count > shown) {
        let _ = writeln!(text, "\n{invariant}: {} more", count - shown);
    }
    text
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// The first column to the left, the others to the right.
fn table(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for row in rows {
        for (place, cell) in row.iter().enumerate() {
            let width = rows.iter().filter_map(|row| row.get(place));
            let width = width.map(|cell| cell.chars().count()).max().unwrap_or(0);
            let _ = match place {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}

/// By nearest rank, of what is sorted.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

fn ms(nanos: Option<u64>) -> String {
    nanos.map_or_else(|| "-".to_owned(), |nanos| (nanos / 1_000_000).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Run};

    #[test]
    fn it_counts_and_shows_some_of_each_kind() {
        let history = History {
            run: Run::default(),
            faults: vec![Fault {
                at: 5,
                until: 6,
                recovered: Some(7),
                kind: "kill the leader".to_owned(),
                target: "node-1".to_owned(),
            }],
            ..History::default()
        };
        let wrong = |n: u32| Violation {
            invariant: Invariant::NoLostAck,
            what: format!("key {n}"),
            evidence: vec!["{}".to_owned()],
        };
        let text = report(&history, &[wrong(1), wrong(2), wrong(3)], 2);
        for part in [
            "kill the leader      1",
            "violations",
            "key 2\n    {}",
            "NoLostAck: 1 more",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("key 3"), "{text}");
    }
}
