//! Spans of calls, sent over OTLP/gRPC in batches, by a thread of their own.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use coordination_core::NodeId;
use http::HeaderMap;
use kvcm_proto::meta::ErrorCode;
use kvcm_uri::Uri;
use opentelemetry::{
    Context, KeyValue,
    propagation::{Extractor, TextMapPropagator},
    trace::{Span as _, SpanBuilder, SpanKind, Status, Tracer as _, TracerProvider as _},
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, Span},
};
use tonic::transport::Endpoint;

use super::{SpanCounts, bounded::Bounded, exporter::Reporting};
use crate::{
    config::TracingSettings,
    metrics::{Ending, Method},
    node::VERSION,
};

/// Spans that wait to be sent; more are dropped.
const QUEUE: usize = 4096;
/// Spans of one request to the collector.
const BATCH: usize = 512;
/// How long a span waits for others to fill its batch.
const BATCH_DELAY: Duration = Duration::from_secs(2);
/// Longest wait for the collector's connection, and for its answer.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes spans of calls and sends them, if a collector is configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces {
    open: Option<Open>,
}

#[derive(Clone, Debug)]
struct Open {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
    counts: Arc<SpanCounts>,
}

/// The span of a call that is traced. Dropping it ends it too, without code: the caller went away.
#[derive(Debug)]
pub(crate) struct CallSpan(Span);

impl Traces {
    /// Connects to the collector when there is something to send; the connection's task lives on
    /// the present runtime.
    ///
    /// # Errors
    /// When the endpoint can never be used.
    pub(crate) fn open(settings: &TracingSettings, node: &NodeId) -> anyhow::Result<Self> {
        let Some(endpoint) = &settings.otlp_endpoint else {
            return Ok(Self::default());
        };
        let channel = Endpoint::from_shared(url(endpoint))
            .context("kvcm.tracing.otlp_endpoint cannot be connected to")?
            .connect_timeout(EXPORT_TIMEOUT)
            .timeout(EXPORT_TIMEOUT)
            .connect_lazy();
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_channel(channel)
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .context("cannot make the exporter of spans")?;
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(BATCH_DELAY)
            .build();
        let counts = Arc::new(SpanCounts::default());
        let batches = BatchSpanProcessor::builder(Reporting::new(exporter, counts.clone()))
            .with_batch_config(config)
            .build();
        let batches = Bounded::new(batches, QUEUE, counts.clone());
        let ratio = f64::from(settings.sample_millionths) / 1e6;
        let root = Sampler::TraceIdRatioBased(ratio);
        // More attributes come from the environment, by the variable that all SDKs read.
        let resource = Resource::builder()
            .with_service_name("kvcm-server")
            .with_attribute(KeyValue::new("service.version", VERSION))
            .with_attribute(KeyValue::new("service.instance.id", node.to_string()))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(batches)
            .with_sampler(Sampler::ParentBased(Box::new(root)))
            .with_resource(resource)
            .build();
        let open = Open {
            tracer: provider.tracer("kvcm-server"),
            provider,
            propagator: TraceContextPropagator::new(),
            counts,
        };
        Ok(Self { open: Some(open) })
    }

    /// What becomes of spans, if there are any.
    pub(crate) fn counts(&self) -> Option<Arc<SpanCounts>> {
        self.open.as_ref().map(|open| open.counts.clone())
    }

    /// The span of a call that begins, if it is traced. A malformed `traceparent` is as good as
    /// none.
    pub(crate) fn start(&self, method: &Method, headers: &HeaderMap) -> Option<CallSpan> {
        let open = self.open.as_ref()?;
        let headers = Headers(headers);
        let parent = open
            .propagator
            .extract_with_context(&Context::new(), &headers);
        let builder = SpanBuilder::from_name("call").with_kind(SpanKind::Server);
        let mut span = open.tracer.build_with_context(builder, &parent);
        // Most calls are not traced: a name and attributes are not made for them.
        if !span.is_recording() {
            return None;
        }
        let (service, name) = (method.service(), method.name());
        span.update_name(format!("{service}/{name}"));
        span.set_attributes([
            KeyValue::new("rpc.service", service.to_owned()),
            KeyValue::new("rpc.method", name.to_owned()),
            KeyValue::new("kvcm.transport", method.transport().as_str()),
        ]);
        Some(CallSpan(span))
    }

    /// Sends what has not been sent, within this time. There are no spans afterwards.
    pub(crate) async fn flush(self, limit: Duration) {
        let Some(open) = self.open else {
            return;
        };
        let flush = move || open.provider.shutdown_with_timeout(limit);
        match tokio::task::spawn_blocking(flush).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last spans were not exported"),
            Err(error) => tracing::error!(%error, "the export of the last spans failed"),
        }
    }
}

impl CallSpan {
    /// The call has ended.
    pub(crate) fn end(mut self, ending: Ending, request_id: &str) {
        let span = &mut self.0;
        span.set_attribute(KeyValue::new("kvcm.code", ending.name()));
        if !request_id.is_empty() {
            span.set_attribute(KeyValue::new("kvcm.request_id", request_id.to_owned()));
        }
        if is_fault(ending) {
            span.set_status(Status::error(""));
        }
        span.end();
    }
}

/// Whether the server is to blame. Refusals, which tell a caller what to do, are no faults.
fn is_fault(ending: Ending) -> bool {
    match ending {
        Ending::Answered(code) => matches!(
            ErrorCode::try_from(code),
            Ok(ErrorCode::InternalError | ErrorCode::IoError | ErrorCode::UnknownError)
        ),
        // By OpenTelemetry's conventions: unknown, deadline exceeded, unimplemented, internal,
        // unavailable, data loss.
        Ending::Grpc(status) => matches!(status, 2 | 4 | 12..=15),
        Ending::Http(status) => status >= 500,
    }
}

/// The configuration was checked to have a host and a port.
fn url(endpoint: &Uri) -> String {
    let host = endpoint.host().unwrap_or_default();
    let port = endpoint.port().unwrap_or_default();
    format!("http://{host}:{port}")
}

/// Request headers, which gRPC calls metadata.
struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_server_is_to_blame_for_is_a_fault() {
        let not_leader = ErrorCode::ServerNotLeader as i32;
        for fine in [
            Ending::Answered(ErrorCode::Ok as i32),
            Ending::Answered(not_leader),
            Ending::Grpc(16),
            Ending::Http(404),
        ] {
            assert!(!is_fault(fine), "{fine:?}");
        }
        for fault in [
            Ending::Answered(ErrorCode::IoError as i32),
            Ending::Grpc(13),
            Ending::Http(503),
        ] {
            assert!(is_fault(fault), "{fault:?}");
        }
    }

    #[test]
    fn an_address_of_version_6_stays_in_brackets() {
        let endpoint = Uri::parse("http://[::1]:4317").unwrap();
        assert_eq!(url(&endpoint), "http://[::1]:4317");
    }
}
