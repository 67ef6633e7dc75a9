//! What reaches the nodes, and what is made of it.

use std::{fmt, time::Duration};

use super::{END, FAULT_AT, OUTAGE};

/// Width of the finest counts.
const BIN: Duration = Duration::from_millis(50);
const BINS_PER_SECOND: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A connection is made.
    Connection,
    /// A data call; a repeat has the request id of the one before.
    Try { is_repeat: bool },
    /// Who leads? Once, or as a stream.
    Question,
}

/// Counts by time.
#[derive(Debug)]
pub(super) struct Record {
    connections: Vec<u32>,
    tries: Vec<u32>,
    repeats: Vec<u32>,
    questions: Vec<u32>,
    /// The first success of each client after the outage.
    served: Vec<Option<Duration>>,
    errors_after: u64,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub(super) struct Measures {
    /// Requests per second before the fault.
    pub(super) steady: f64,
    /// Most requests of any kind over a second of the outage, relative to that.
    pub(super) amplification: f64,
    /// The same for data calls alone.
    pub(super) tries_amplification: f64,
    /// The fullest 50 ms of retries and questions in the outage, relative to their mean.
    pub(super) spectrum: f64,
    /// The same from the second second on.
    pub(super) late_spectrum: f64,
    /// Most connections made over a second after the fault.
    pub(super) connections_peak: f64,
    /// Most requests over 50 ms after the outage, relative to the steady rate.
    pub(super) burst: f64,
    /// From the end of the outage until 99 of 100 clients were served.
    pub(super) settled_p99: Duration,
    /// The last one.
    pub(super) settled_max: Duration,
    /// Clients that were not served.
    pub(super) unserved: usize,
    /// Calls begun after the outage that failed.
    pub(super) errors_after: u64,
}

fn bin(at: Duration) -> usize {
    usize::try_from(at.as_millis() / BIN.as_millis()).unwrap()
}

impl Record {
    pub(super) fn new(clients: usize) -> Self {
        let bins = || vec![0; bin(END) + 1];
        Self {
            connections: bins(),
            tries: bins(),
            repeats: bins(),
            questions: bins(),
            served: vec![None; clients],
            errors_after: 0,
        }
    }

    pub(super) fn arrived(&mut self, at: Duration, kind: Kind) {
        let bins = match kind {
            Kind::Connection => &mut self.connections,
            Kind::Question => &mut self.questions,
            Kind::Try { is_repeat } => {
                if is_repeat {
                    count(&mut self.repeats, at);
                }
                &mut self.tries
            }
        };
        count(bins, at);
    }

    pub(super) fn call_ended(&mut self, client: usize, begun: Duration, now: Duration, ok: bool) {
        let healed = FAULT_AT + OUTAGE;
        if ok && now >= healed {
            let first = &mut self.served[client];
            *first = first.or(Some(now - healed));
        }
        if !ok && begun >= healed {
            self.errors_after += 1;
        }
    }

    pub(super) fn measures(&self) -> Measures {
        let outage = bin(FAULT_AT)..bin(FAULT_AT + OUTAGE);
        let sum = |bins: &[u32]| f64::from(bins.iter().sum::<u32>());
        let before = bin(FAULT_AT) - BINS_PER_SECOND / 2..bin(FAULT_AT);
        let all: Vec<u32> = (0..self.tries.len())
            .map(|at| self.tries[at] + self.questions[at])
            .collect();
        let steady = sum(&self.tries[before]) * 2.0;
        let peak = |bins: &[u32]| {
            let seconds = bins.windows(BINS_PER_SECOND).map(sum);
            seconds.fold(0.0, f64::max)
        };
        let retries: Vec<u32> = outage
            .clone()
            .map(|at| self.repeats[at] + self.questions[at])
            .collect();
        let spectrum = |bins: &[u32]| {
            let mean = sum(bins) / bins.len() as f64;
            let fullest = f64::from(bins.iter().copied().max().unwrap_or(0));
            fullest / mean.max(f64::MIN_POSITIVE)
        };
        let after = &all[outage.end..];
        let mut served: Vec<_> = self.served.iter().flatten().copied().collect();
        served.sort_unstable();
        let at = |percent: usize| {
            let rank = (served.len() * percent).div_ceil(100).saturating_sub(1);
            served.get(rank).copied().unwrap_or(END)
        };
        Measures {
            steady,
            amplification: peak(&all[outage.clone()]) / steady,
            tries_amplification: peak(&self.tries[outage.clone()]) / steady,
            spectrum: spectrum(&retries),
            late_spectrum: spectrum(&retries[BINS_PER_SECOND..]),
            connections_peak: peak(&self.connections[outage.start..]),
            burst: f64::from(after.iter().copied().max().unwrap_or(0)) * BINS_PER_SECOND as f64
                / steady,
            settled_p99: at(99),
            settled_max: at(100),
            unserved: self.served.len() - served.len(),
            errors_after: self.errors_after,
        }
    }
}

fn count(bins: &mut [u32], at: Duration) {
    if let Some(bin) = bins.get_mut(bin(at)) {
        *bin += 1;
    }
}

impl fmt::Display for Measures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "steady {:.0}/s, amplification {:.2} (data calls {:.2}), spectrum {:.2} (after a second {:.2}), connections \
             peak {:.0}/s, burst after {:.1}, served p99 {:?} max {:?}, unserved {}, errors after \
             {}",
            self.steady,
            self.amplification,
            self.tries_amplification,
            self.spectrum,
            self.late_spectrum,
            self.connections_peak,
            self.burst,
            self.settled_p99,
            self.settled_max,
            self.unserved,
            self.errors_after,
        )
    }
}
