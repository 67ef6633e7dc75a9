//! Spans of calls, for an OpenTelemetry collector. A build without the feature `otlp` has none.

#[cfg(feature = "otlp")]
mod exporter;
#[cfg(not(feature = "otlp"))]
mod none;
#[cfg(feature = "otlp")]
mod otlp;

#[cfg(not(feature = "otlp"))]
pub(crate) use none::{CallSpan, Traces};
#[cfg(feature = "otlp")]
pub(crate) use otlp::{CallSpan, Traces};

/// Whether this build can export spans.
pub(crate) const BUILT: bool = cfg!(feature = "otlp");
