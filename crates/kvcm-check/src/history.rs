//! A history in memory.

use serde::Serialize;

use crate::{Call, Ended, Fault, GateEvent, Loss, Record, Run};

/// Everything that a run left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// What was run.
    pub run: Run,
    /// Calls of clients.
    pub calls: Vec<Call>,
    /// What was done to the cluster.
    pub faults: Vec<Fault>,
    /// When the store was made to forget.
    pub losses: Vec<Loss>,
    /// Ends of processes.
    pub ended: Vec<Ended>,
    /// From the nodes' logs: each node's name with its events, in order.
    pub gates: Vec<(String, Vec<GateEvent>)>,
}

/// The time in which the gate of one node was open for one epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateInterval {
    /// Who served.
    pub node: String,
    /// The epoch.
    pub epoch: u64,
    /// From.
    pub open: u64,
    /// Until; [`u64::MAX`] while it serves.
    pub shut: u64,
}

impl History {
    /// Adds a line.
    pub fn add(&mut self, record: Record) {
        match record {
            Record::Run(run) => self.run = run,
            Record::Call(call) => self.calls.push(call),
            Record::Fault(fault) => self.faults.push(fault),
            Record::Loss(loss) => self.losses.push(loss),
            Record::Ended(ended) => self.ended.push(ended),
        }
    }

    /// Calls that were answered with OK, each with its epoch and when it was answered.
    pub(crate) fn answered(&self) -> impl Iterator<Item = (&Call, u64, u64)> {
        let ok = self.calls.iter().filter(|call| call.is_ok());
        ok.filter_map(|call| Some((call, call.epoch?, call.returned?)))
    }

    /// When which gate was open, in order of epoch. A gate that was never shut was open until its
    /// process ended.
    pub fn gate_intervals(&self) -> Vec<GateInterval> {
        let mut intervals = Vec::new();
        for (node, events) in &self.gates {
            let mut open: Option<(u64, u64)> = None;
            let mut close = |open: &mut Option<(u64, u64)>, shut: u64| {
                if let Some((epoch, open)) = open.take() {
                    let ends = self.ended.iter().filter(|end| end.node == *node);
                    let ended = ends.map(|end| end.at).filter(|at| *at >= open).min();
                    intervals.push(GateInterval {
                        node: node.clone(),
                        epoch,
                        open,
                        shut: ended.map_or(shut, |ended| ended.min(shut)),
                    });
                }
            };
            for event in events {
                match *event {
                    GateEvent::Open { epoch, at } => {
                        close(&mut open, at);
                        open = Some((epoch, at));
                    }
                    GateEvent::Shut { epoch, at } => {
                        if open.is_some_and(|(opened, _)| opened == epoch) {
                            close(&mut open, at);
                        }
                    }
                }
            }
            close(&mut open, u64::MAX);
        }
        intervals.sort_unstable_by_key(|interval| (interval.epoch, interval.open));
        intervals
    }

    /// Fault windows: until a leader served again, and a lease more for those who look for it.
    /// Merged and in order.
    pub fn windows(&self) -> Vec<(u64, u64)> {
        let faults = self.faults.iter();
        let mut windows: Vec<_> = faults
            .map(|fault| (fault.at, self.window_end(fault)))
            .collect();
        windows.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, to) in windows {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        merged
    }

    pub(crate) fn window_end(&self, fault: &Fault) -> u64 {
        let lease = self.run.lease;
        fault.recovered.unwrap_or(fault.until + 3 * lease) + lease
    }
}

/// Whether `from..=to` lies outside all of `windows`, which are merged and in order.
pub(crate) fn is_calm(windows: &[(u64, u64)], from: u64, to: u64) -> bool {
    let after = windows.partition_point(|window| window.1 < from);
    windows.get(after).is_none_or(|window| to < window.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_that_was_not_shut_was_open_until_its_process_ended() {
        let events = vec![
            GateEvent::Open { epoch: 1, at: 10 },
            GateEvent::Open { epoch: 3, at: 50 },
            GateEvent::Shut { epoch: 3, at: 60 },
            GateEvent::Open { epoch: 4, at: 70 },
        ];
        let history = History {
            ended: vec![Ended {
                node: "a".into(),
                at: 20,
            }],
            gates: vec![("a".into(), events)],
            ..History::default()
        };
        let times: Vec<_> = history
            .gate_intervals()
            .into_iter()
            .map(|interval| (interval.epoch, interval.open, interval.shut))
            .collect();
        assert_eq!(times, [(1, 10, 20), (3, 50, 60), (4, 70, u64::MAX)]);
    }

    #[test]
    fn windows_are_merged_and_what_touches_none_is_calm() {
        let fault = |at, until| Fault {
            at,
            until,
            recovered: (at == 50).then_some(until + 1),
            kind: "kill".to_owned(),
            target: "a".to_owned(),
        };
        let history = History {
            faults: vec![fault(50, 51), fault(10, 20), fault(22, 30)],
            run: Run {
                lease: 1,
                ..Run::default()
            },
            ..History::default()
        };
        let windows = history.windows();
        assert_eq!(windows, [(10, 34), (50, 53)]);
        assert!(is_calm(&windows, 0, 9) && is_calm(&windows, 35, 49) && is_calm(&windows, 55, 99));
        assert!(!is_calm(&windows, 0, 10) && !is_calm(&windows, 33, 40));
        assert!(!is_calm(&windows, 0, 99));
    }
}
