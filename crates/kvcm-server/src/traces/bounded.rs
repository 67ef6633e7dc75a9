//! A queue of spans that counts what it does not take.

use std::{sync::Arc, time::Duration};

use opentelemetry::Context;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanProcessor},
};

use super::SpanCounts;

/// Hands at most so many spans to another processor before they are exported. That one has as much
/// room, and would drop the next ones without a count.
#[derive(Debug)]
pub(super) struct Bounded<P> {
    inner: P,
    limit: usize,
    counts: Arc<SpanCounts>,
}

impl<P> Bounded<P> {
    /// Hands spans to `inner`.
    pub(super) const fn new(inner: P, limit: usize, counts: Arc<SpanCounts>) -> Self {
        Self {
            inner,
            limit,
            counts,
        }
    }
}

impl<P: SpanProcessor> SpanProcessor for Bounded<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.counts.admit(self.limit) {
            self.inner.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
