//! What becomes of the spans of calls.

use super::families::{Kind, Sink, Source};
use crate::traces::SpanCounts;

impl Source for SpanCounts {
    fn read(&self, sink: &mut dyn Sink) {
        let outcomes = self.outcomes();
        let outcomes = outcomes.iter();
        let samples: Vec<_> = outcomes
            .map(|(outcome, count)| ([("outcome", *outcome)], *count as f64))
            .collect();
        let samples = samples.iter().map(|(label, count)| (&label[..], *count));
        let samples: Vec<_> = samples.collect();
        let help =
            "Spans of calls: sent to the collector, refused by it, dropped as too many waited";
        sink.family(Kind::Counter, "spans", help, &samples);
    }
}
