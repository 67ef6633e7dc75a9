//! An exporter that says rarely how it fares.

use std::{sync::Arc, time::Duration};

use kvcm_clock::{BootClock, Clock as _, Moment};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter},
};
use parking_lot::Mutex;

use super::SpanCounts;

/// Failures are told at most so often.
const QUIET: Duration = Duration::from_secs(60);

/// Exports by another exporter, and counts. Tells the first failure, then one line a minute while
/// it fails.
#[derive(Debug)]
pub(super) struct Reporting<E> {
    inner: E,
    counts: Arc<SpanCounts>,
    reports: Mutex<Reports>,
}

/// What was told and what is still to be told.
#[derive(Debug, Default)]
struct Reports {
    /// Since the last line.
    lost: usize,
    told: Option<Moment>,
}

impl<E> Reporting<E> {
    /// Exports by `inner`.
    pub(super) fn new(inner: E, counts: Arc<SpanCounts>) -> Self {
        Self {
            inner,
            counts,
            reports: Mutex::default(),
        }
    }
}

impl Reports {
    /// Spans were lost; how many to tell of, if it is time to.
    fn lost(&mut self, spans: usize, now: Moment) -> Option<usize> {
        self.lost += spans;
        if self.told.is_some_and(|told| now.since(told) < QUIET) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.lost))
    }
}

impl<E: SpanExporter> SpanExporter for Reporting<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.inner.export(batch).await;
        self.counts.sent(spans, result.is_ok());
        if let Err(error) = &result {
            let lost = self.reports.lock().lost(spans, BootClock.now());
            if let Some(lost) = lost {
                tracing::warn!(lost, %error, "spans cannot be exported; calls are not affected");
            }
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.inner.shutdown()
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_added_up_and_told_once_a_minute() {
        let begun = Moment::ZERO;
        let almost = begun + (QUIET - Duration::from_millis(1));
        let mut reports = Reports::default();
        assert_eq!(reports.lost(3, begun), Some(3));
        assert_eq!(reports.lost(4, almost), None);
        assert_eq!(reports.lost(5, begun + QUIET), Some(9));
    }
}
