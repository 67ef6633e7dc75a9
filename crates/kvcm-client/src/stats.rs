//! What a client counts, and how metrics systems read it.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::policy::Failure;

/// What a client did since it was built; clones of a client share their counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls that the application made.
    pub calls: u64,
    /// Calls that ended in an error for the application.
    pub errors: u64,
    /// Calls under way.
    pub in_flight: u64,
    /// Tries that were made again after a wait.
    pub retries: u64,
    /// The same by what had failed: a word of [`Failure::as_str`] and how often. Only those that
    /// occurred.
    pub retries_by: Vec<(&'static str, u64)>,
    /// Moves to a newer leader without a wait.
    pub redirects: u64,
    /// Searches for the leader; searches that calls share count once.
    pub discoveries: u64,
    /// How long all these searches took together.
    pub discovery_time: Duration,
    /// Changes of leader and heartbeats that nodes pushed.
    pub pushes: u64,
    /// Instances registered again on a leader that did not know them.
    pub reregistrations: u64,
    /// Connections that are kept.
    pub connections: u64,
    /// Connections given up.
    pub evictions: u64,
    /// Nodes that are left alone now, because they do not answer.
    pub breakers_open: u64,
    /// How often that began for a node.
    pub breakers_opened: u64,
    /// Replies discarded because a newer epoch had been seen.
    pub stale_replies: u64,
    /// Hints ignored because they were not newer than what was known.
    pub stale_hints: u64,
    /// Repeats delayed or refused because the retry budget was spent.
    pub budget_empty: u64,
    /// Repeats that the retry budget would allow now.
    pub budget: u64,
}

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
}

/// One number of [`Stats`], as a metrics system has it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// `kvcm_client_…`.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
    /// One label, name and value, where there are several of one name.
    pub label: Option<(&'static str, &'static str)>,
    /// The number.
    pub value: f64,
}

impl Stats {
    /// All numbers under the names that documents and dashboards use. Hand them to the metrics
    /// system of the application; a snapshot costs about a microsecond.
    pub fn metrics(&self) -> Vec<Metric> {
        use MetricKind::{Counter, Gauge};
        let one = |name, help, kind, value: u64| Metric {
            name,
            help,
            kind,
            label: None,
            value: value as f64,
        };
        let mut all = vec![
            one(
                "kvcm_client_calls_total",
                "calls of the application",
                Counter,
                self.calls,
            ),
            one(
                "kvcm_client_errors_total",
                "calls that ended in an error",
                Counter,
                self.errors,
            ),
            one(
                "kvcm_client_in_flight",
                "calls under way",
                Gauge,
                self.in_flight,
            ),
            one(
                "kvcm_client_redirects_total",
                "moves to a newer leader without a wait",
                Counter,
                self.redirects,
            ),
            one(
                "kvcm_client_discoveries_total",
                "searches for the leader",
                Counter,
                self.discoveries,
            ),
            Metric {
                value: self.discovery_time.as_secs_f64(),
                ..one(
                    "kvcm_client_discovery_seconds_total",
                    "time that searches for the leader took",
                    Counter,
                    0,
                )
            },
            one(
                "kvcm_client_pushes_total",
                "pushes of who leads",
                Counter,
                self.pushes,
            ),
            one(
                "kvcm_client_reregistrations_total",
                "instances registered again on a leader that did not know them",
                Counter,
                self.reregistrations,
            ),
            one(
                "kvcm_client_connections",
                "connections that are kept",
                Gauge,
                self.connections,
            ),
            one(
                "kvcm_client_evictions_total",
                "connections given up",
                Counter,
                self.evictions,
            ),
            one(
                "kvcm_client_breakers_open",
                "nodes that are left alone because they do not answer",
                Gauge,
                self.breakers_open,
            ),
            one(
                "kvcm_client_breakers_opened_total",
                "how often a node was left alone",
                Counter,
                self.breakers_opened,
            ),
            one(
                "kvcm_client_stale_replies_total",
                "replies of an old epoch that were discarded",
                Counter,
                self.stale_replies,
            ),
            one(
                "kvcm_client_stale_hints_total",
                "hints that were not newer than what was known",
                Counter,
                self.stale_hints,
            ),
            one(
                "kvcm_client_budget_empty_total",
                "repeats delayed or refused by the retry budget",
                Counter,
                self.budget_empty,
            ),
            one(
                "kvcm_client_budget",
                "repeats that the budget allows now",
                Gauge,
                self.budget,
            ),
        ];
        all.extend(self.retries_by.iter().map(|(code, count)| Metric {
            label: Some(("code", code)),
            ..one(
                "kvcm_client_retries_total",
                "tries made again after a wait",
                Counter,
                *count,
            )
        }));
        all
    }

    /// [`metrics`](Self::metrics) in the text format of Prometheus.
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        let mut last = "";
        for metric in self.metrics() {
            let Metric {
                name,
                help,
                kind,
                label,
                value,
            } = metric;
            if name != last {
                let kind = match kind {
                    MetricKind::Counter => "counter",
                    MetricKind::Gauge => "gauge",
                };
                // Writing to a string does not fail.
                let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
                last = name;
            }
            let _ = match label {
                Some((label, of)) => writeln!(text, "{name}{{{label}=\"{of}\"}} {value}"),
                None => writeln!(text, "{name} {value}"),
            };
        }
        text
    }
}

/// Every failure that can be followed by a retry.
const RETRIED: [Failure; 10] = [
    Failure::NotLeader {
        retry_after: Duration::ZERO,
    },
    Failure::StaleReply,
    Failure::Superseded,
    Failure::Unreachable,
    Failure::Broken,
    Failure::Silent,
    Failure::Busy {
        retry_after: Duration::ZERO,
    },
    Failure::NoLeader,
    Failure::LeaderUnreachable,
    Failure::NoNode,
];

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) calls: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) redirects: AtomicU64,
    pub(crate) discoveries: AtomicU64,
    pub(crate) pushes: AtomicU64,
    pub(crate) reregistrations: AtomicU64,
    pub(crate) breakers_opened: AtomicU64,
    pub(crate) stale_replies: AtomicU64,
    pub(crate) stale_hints: AtomicU64,
    pub(crate) budget_empty: AtomicU64,
    retries: [AtomicU64; RETRIED.len()],
    discovery_us: AtomicU64,
}

/// Counts one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    pub(crate) fn retried(&self, after: Failure) {
        let same = |other: &Failure| other.as_str() == after.as_str();
        if let Some(at) = RETRIED.iter().position(same) {
            count(&self.retries[at]);
        }
    }

    pub(crate) fn discovery_took(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.discovery_us.fetch_add(us, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Stats {
        let retries = self.retries.each_ref().map(|count| count.load(Relaxed));
        let by = RETRIED.iter().zip(retries).filter(|(_, count)| *count > 0);
        Stats {
            calls: self.calls.load(Relaxed),
            errors: self.errors.load(Relaxed),
            retries: retries.iter().sum(),
            retries_by: by
                .map(|(failure, count)| (failure.as_str(), count))
                .collect(),
            redirects: self.redirects.load(Relaxed),
            discoveries: self.discoveries.load(Relaxed),
            discovery_time: Duration::from_micros(self.discovery_us.load(Relaxed)),
            pushes: self.pushes.load(Relaxed),
            reregistrations: self.reregistrations.load(Relaxed),
            breakers_opened: self.breakers_opened.load(Relaxed),
            stale_replies: self.stale_replies.load(Relaxed),
            stale_hints: self.stale_hints.load(Relaxed),
            budget_empty: self.budget_empty.load(Relaxed),
            ..Stats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_that_is_retried_has_its_counter() {
        let counters = Counters::default();
        for failure in RETRIED {
            counters.retried(failure);
        }
        counters.retried(Failure::Busy {
            retry_after: Duration::from_secs(1),
        });
        counters.retried(Failure::Final);
        let stats = counters.snapshot();
        assert_eq!(stats.retries, 11, "{stats:?}");
        assert_eq!(stats.retries_by.len(), RETRIED.len());
        assert!(stats.retries_by.contains(&("busy", 2)));
    }

    #[test]
    fn the_text_for_prometheus_has_every_name_once_and_all_its_labels() {
        let counters = Counters::default();
        counters.retried(Failure::Silent);
        counters.retried(Failure::NoNode);
        counters.discovery_took(Duration::from_millis(1500));
        let text = counters.snapshot().to_prometheus();
        for line in [
            "# TYPE kvcm_client_retries_total counter",
            "kvcm_client_retries_total{code=\"silent\"} 1",
            "kvcm_client_retries_total{code=\"no_node\"} 1",
            "kvcm_client_discovery_seconds_total 1.5",
            "# TYPE kvcm_client_budget gauge",
        ] {
            let found = text.lines().filter(|found| *found == line).count();
            assert_eq!(found, 1, "{line}: {text}");
        }
    }
}
