//! Spans of calls, for an OpenTelemetry collector. A build without the feature `otlp` has none.

#[cfg(feature = "otlp")]
mod bounded;
#[cfg(feature = "otlp")]
mod counts;
#[cfg(feature = "otlp")]
mod exporter;
#[cfg(not(feature = "otlp"))]
mod none;
#[cfg(feature = "otlp")]
mod otlp;

#[cfg(feature = "otlp")]
pub(crate) use self::{
    counts::SpanCounts,
    otlp::{CallSpan, Traces},
};
#[cfg(not(feature = "otlp"))]
pub(crate) use none::{CallSpan, SpanCounts, Traces};

/// Whether this build can export spans.
pub(crate) const BUILT: bool = cfg!(feature = "otlp");
