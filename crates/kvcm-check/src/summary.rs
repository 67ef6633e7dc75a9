//! What happened, in numbers.

use std::collections::BTreeMap;

use crate::{History, Op, checks, history::is_calm};

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Calls by kind: how many, and how many of them were OK.
    pub calls: BTreeMap<&'static str, (usize, usize)>,
    /// Errors that a user would see, anywhere in the run.
    pub errors: usize,
    /// Calls that lie outside all fault windows.
    pub calm_calls: usize,
    /// How many of those were errors.
    pub calm_errors: usize,
    /// Reigns that began outside all fault windows, the first of the run left out.
    pub calm_elections: usize,
    /// From one serving leader to another.
    pub leader_changes: usize,
    /// By kind of fault.
    pub faults: BTreeMap<String, FaultLine>,
}

/// What faults of one kind cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultLine {
    /// How many there were.
    pub count: usize,
    /// Errors that a user saw in their windows.
    pub errors: usize,
    /// For each, the longest time without a call that was answered with OK, in nanoseconds,
    /// ascending.
    pub gaps: Vec<u64>,
}

impl Summary {
    /// Counts what is in `history`.
    pub fn of(history: &History) -> Self {
        let mut summary = Self::default();
        let windows = history.windows();
        for call in &history.calls {
            let line = summary.calls.entry(kind(&call.op)).or_default();
            line.0 += 1;
            line.1 += usize::from(call.is_ok());
            summary.errors += usize::from(call.is_error());
            let end = call.returned.unwrap_or(call.invoke);
            if is_calm(&windows, call.invoke, end) {
                summary.calm_calls += 1;
                summary.calm_errors += usize::from(call.is_error());
            }
        }
        let mut opened: Vec<_> = history
            .gate_intervals()
            .iter()
            .map(|gate| gate.open)
            .collect();
        opened.sort_unstable();
        let later = opened.iter().skip(1);
        summary.calm_elections = later.filter(|at| is_calm(&windows, **at, **at)).count();
        let served = checks::served_epochs(history);
        summary.leader_changes = served.len().saturating_sub(1);
        let mut answers: Vec<_> = history.answered().map(|(.., returned)| returned).collect();
        answers.sort_unstable();
        for fault in &history.faults {
            let end = history.window_end(fault);
            let line = summary.faults.entry(fault.kind.clone()).or_default();
            line.count += 1;
            let seen = history.calls.iter().filter(|call| call.is_error());
            line.errors += seen
                .filter(|call| (fault.at..=end).contains(&call.invoke))
                .count();
            line.gaps.extend(gap(&answers, fault.at, end));
        }
        for line in summary.faults.values_mut() {
            line.gaps.sort_unstable();
        }
        summary
    }

    /// Share of calls outside fault windows that were no errors; 0 when there are none.
    pub fn calm_ok_share(&self) -> f64 {
        if self.calm_calls == 0 {
            return 0.0;
        }
        (self.calm_calls - self.calm_errors) as f64 / self.calm_calls as f64
    }
}

/// The longest time between two neighbours of `answers`, of those that reach into `from..=to`.
fn gap(answers: &[u64], from: u64, to: u64) -> Option<u64> {
    let first = answers.partition_point(|at| *at < from).saturating_sub(1);
    let last = answers.partition_point(|at| *at <= to);
    let pairs = answers
        .get(first..(last + 1).min(answers.len()))?
        .windows(2);
    pairs.map(|pair| pair[1] - pair[0]).max()
}

fn kind(op: &Op) -> &'static str {
    match op {
        Op::Lookup { .. } => "lookup",
        Op::Start { .. } => "start",
        Op::Finish { .. } => "finish",
        Op::Remove { .. } => "remove",
        Op::Register { .. } => "register",
        Op::Instance { .. } => "instance",
        Op::Other { .. } => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_reaches_beyond_its_window() {
        let answers = [0, 10, 50, 60, 100];
        assert_eq!(gap(&answers, 20, 30), Some(40));
        assert_eq!(gap(&answers, 51, 59), Some(10));
        assert_eq!(gap(&answers, 11, 70), Some(40));
        assert_eq!(gap(&answers, 55, 200), Some(40));
        assert_eq!(gap(&[], 0, 1), None);
    }
}
