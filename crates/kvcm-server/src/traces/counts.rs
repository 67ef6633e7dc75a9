//! What becomes of spans.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Spans that wait to be sent, and what became of the others.
#[derive(Debug, Default)]
pub(crate) struct SpanCounts {
    waiting: AtomicUsize,
    exported: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

impl SpanCounts {
    /// How many there were of each outcome since the process began.
    pub(crate) fn outcomes(&self) -> [(&'static str, u64); 3] {
        [
            ("exported", &self.exported),
            ("failed", &self.failed),
            ("dropped", &self.dropped),
        ]
        .map(|(outcome, count)| (outcome, count.load(Relaxed)))
    }

    /// One span more waits, unless `limit` of them do already: then it is dropped.
    pub(super) fn admit(&self, limit: usize) -> bool {
        let more = |waiting| (waiting < limit).then_some(waiting + 1);
        let admitted = self.waiting.fetch_update(Relaxed, Relaxed, more).is_ok();
        if !admitted {
            self.dropped.fetch_add(1, Relaxed);
        }
        admitted
    }

    /// So many do not wait any more: the collector has them, or never will.
    pub(super) fn sent(&self, spans: usize, is_exported: bool) {
        self.waiting.fetch_sub(spans, Relaxed);
        let count = if is_exported {
            &self.exported
        } else {
            &self.failed
        };
        count.fetch_add(spans as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_queue_does_not_hold_is_dropped_and_counted() {
        let counts = SpanCounts::default();
        let admitted: Vec<_> = (0..3).map(|_| counts.admit(2)).collect();
        assert_eq!(admitted, [true, true, false]);
        counts.sent(1, true);
        assert!(counts.admit(2));
        counts.sent(2, false);
        assert_eq!(counts.outcomes().map(|(_, count)| count), [1, 2, 1]);
    }
}
