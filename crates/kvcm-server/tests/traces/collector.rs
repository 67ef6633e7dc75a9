//! A collector that keeps what it is sent.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, Span},
};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Request, Response, Status, service::Routes};

type Kept = Arc<Mutex<Vec<ResourceSpans>>>;

/// Serves until it is dropped.
pub(crate) struct Collector {
    address: SocketAddr,
    kept: Kept,
    _serving: AbortOnDropHandle<()>,
}

struct Service(Kept);

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let spans = request.into_inner().resource_spans;
        self.0.lock().unwrap().extend(spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// On a free port.
    pub(crate) async fn start() -> Self {
        let kept = Kept::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = TraceServiceServer::new(Service(kept.clone()));
        let router = Routes::new(service).into_axum_router();
        let serving = async move { axum::serve(listener, router).await.unwrap() };
        Self {
            address,
            kept,
            _serving: AbortOnDropHandle::new(tokio::spawn(serving)),
        }
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// All spans, in the order of their arrival.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let kept = self.kept.lock().unwrap();
        let scopes = kept.iter().flat_map(|spans| &spans.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// What the first of the senders says of itself.
    pub(crate) fn resource(&self) -> Vec<KeyValue> {
        let kept = self.kept.lock().unwrap();
        let resource = kept.first().and_then(|spans| spans.resource.clone());
        resource.expect("a resource").attributes
    }
}

/// The text of an attribute; empty when there is none.
pub(crate) fn text<'a>(attributes: &'a [KeyValue], name: &str) -> &'a str {
    let attribute = attributes.iter().find(|attribute| attribute.key == name);
    match attribute.and_then(|found| found.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        _ => "",
    }
}
