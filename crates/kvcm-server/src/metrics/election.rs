//! The election, as numbers.

use std::{sync::Arc, time::Duration};

use elector::{Role, Turn, View};

use super::families::{Kind, Sink, Source};
use crate::cluster::Cluster;

const ROLES: [Role; 4] = [
    Role::Follower,
    Role::Promoting,
    Role::Leader,
    Role::Demoting,
];

/// The election, as numbers.
#[derive(Debug)]
pub(super) struct Election {
    cluster: Arc<Cluster>,
}

impl Election {
    pub(super) const fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster }
    }

    fn state(&self, view: &View, sink: &mut dyn Sink) {
        let own = self.cluster.role();
        let labels = ROLES.map(|role| [("role", role.as_str())]);
        let samples: Vec<(&[_], f64)> = ROLES
            .iter()
            .zip(&labels)
            .map(|(role, labels)| (&labels[..], number(*role == own)))
            .collect();
        sink.family(Kind::Gauge, "role", "1 for what this node is", &samples);
        let leads = self.cluster.leads();
        let help = "1 while this node serves as leader: its gate is open and its lease lives";
        sink.gauge("leader", help, number(leads));
        let epoch = view.epoch.map_or(0.0, |epoch| epoch.get() as f64);
        sink.gauge(
            "epoch",
            "The epoch that this node holds the lock in, or 0",
            epoch,
        );
        let highest = view.highest.get() as f64;
        sink.gauge(
            "highest_epoch",
            "The highest epoch that this node has seen",
            highest,
        );
        let left = view
            .lease_end
            .filter(|_| leads)
            .map_or(Duration::ZERO, |end| self.cluster.now().until(end));
        let help = "What is left of this node's lease, as it counts; 0 when it does not serve";
        sink.gauge("lease_remaining_seconds", help, left.as_secs_f64());
        if let Some(least) = view.totals.worst_left {
            let help = "The least that was ever left of the lease when it was renewed";
            sink.gauge("lease_remaining_worst_seconds", help, least.as_secs_f64());
        }
        let in_flight = self.cluster.elector().gate().in_flight() as f64;
        sink.gauge(
            "gate_in_flight",
            "Leader-only calls that are being served",
            in_flight,
        );
        let refusals = self.cluster.refusals();
        let labels: Vec<_> = refusals
            .iter()
            .map(|(reason, _)| [("reason", *reason)])
            .collect();
        let samples: Vec<(&[_], f64)> = refusals
            .iter()
            .zip(&labels)
            .map(|((_, count), labels)| (&labels[..], *count as f64))
            .collect();
        let help = "Leader-only calls that were refused with SERVER_NOT_LEADER, by the reason told";
        sink.family(Kind::Counter, "gate_refusals", help, &samples);
    }

    fn backend(&self, view: &View, sink: &mut dyn Sink) {
        let up = view.backend_error.is_none() && view.backend_seen_at.is_some();
        let help = "1 when the coordination backend answered the last call";
        sink.gauge("backend_up", help, number(up));
        if let Some(seen) = view.backend_seen_at {
            let age = self.cluster.age(seen).as_secs_f64();
            let help = "Since the coordination backend last answered";
            sink.gauge("backend_answer_age_seconds", help, age);
        }
        let totals = &view.totals;
        let help = "Renewals of the lease without an answer";
        sink.counter("renew_errors", help, totals.renew_errors);
        let help = "Other calls to the coordination backend without an answer";
        sink.counter("backend_errors", help, totals.call_errors);
    }

    fn changes(&self, view: &View, sink: &mut dyn Sink) {
        let measures = self.cluster.elector().measures();
        let changes = measures.changes.iter();
        let labels: Vec<_> = changes
            .clone()
            .map(|((result, reason), _)| [("result", *result), ("reason", *reason)])
            .collect();
        let samples: Vec<(&[_], f64)> = labels
            .iter()
            .map(|labels| &labels[..])
            .zip(changes.map(|(_, count)| *count as f64))
            .collect();
        let help =
            "Changes of leadership that this node saw: won, seen (another node), released, lost";
        sink.family(Kind::Counter, "elections", help, &samples);
        let help = "Locks won after the end of a reign that nobody can vouch for";
        sink.counter("unproven_acquisitions", help, view.totals.unproven);
        sink.counter(
            "promotions_failed",
            "Promotions that failed",
            view.totals.promote_failed,
        );
        let help = "Time of each part of a change of leadership";
        let labels = measures.parts.each_ref().map(|(part, _)| [("part", *part)]);
        let samples: Vec<(&[_], &elector::Distribution)> = labels
            .iter()
            .map(|labels| &labels[..])
            .zip(measures.parts.iter().map(|(_, times)| times))
            .collect();
        sink.histograms("election_part_seconds", help, &samples);
        let help = "Time from a renewal of the lease to its answer";
        sink.histograms("renew_duration_seconds", help, &[(&[], &measures.renew)]);
        let help = "How late the timer of the election fired: this process's own pauses";
        sink.histograms("timer_lateness_seconds", help, &[(&[], &measures.lateness)]);
        let help = "What a leader keeps off the end of its lease, on account of that lateness";
        sink.gauge("lease_margin_seconds", help, measures.margin.as_secs_f64());
        let history = self.cluster.elector().history();
        let last = history
            .iter()
            .rev()
            .find(|record| matches!(record.change.turn, Turn::Won { .. }));
        if let Some(last) = last {
            let took = last.change.took;
            let parts = [took.detect, took.win, took.recover, took.open];
            let gap: Duration = parts.into_iter().flatten().sum();
            let help = "From the last sign of life of the leader before to this node's open gate, \
                        the last time that this node won";
            sink.gauge("failover_gap_seconds", help, gap.as_secs_f64());
        }
    }
}

impl Source for Election {
    fn read(&self, sink: &mut dyn Sink) {
        // A copy: the election must not wait for a reader.
        let view = self.cluster.elector().view().clone();
        self.state(&view, sink);
        self.backend(&view, sink);
        self.changes(&view, sink);
    }
}

const fn number(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}
