//! What stands for traces in a build without them.

use std::{sync::Arc, time::Duration};

use coordination_core::NodeId;
use http::HeaderMap;

use crate::{
    config::TracingSettings,
    metrics::{Ending, Method},
};

/// No spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces(());

/// The span of a call: there is none.
#[derive(Debug)]
pub(crate) enum CallSpan {}

/// What becomes of spans: there are none.
#[derive(Debug)]
pub(crate) enum SpanCounts {}

impl SpanCounts {
    /// Never called.
    pub(crate) const fn outcomes(&self) -> [(&'static str, u64); 0] {
        match *self {}
    }
}

impl Traces {
    /// Nothing to open: the configuration was checked to ask for nothing.
    pub(crate) const fn open(_: &TracingSettings, _: &NodeId) -> anyhow::Result<Self> {
        Ok(Self(()))
    }

    /// Nothing to count.
    pub(crate) const fn counts(&self) -> Option<Arc<SpanCounts>> {
        None
    }

    /// No call has a span.
    pub(crate) const fn start(&self, _: &Method, _: &HeaderMap) -> Option<CallSpan> {
        None
    }

    /// Nothing to send.
    pub(crate) async fn flush(self, _: Duration) {}
}

impl CallSpan {
    /// Never called.
    pub(crate) const fn end(self, _: Ending, _: &str) {
        match self {}
    }
}
