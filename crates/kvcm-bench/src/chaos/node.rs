//! Asking a node over HTTP, or over gRPC with nothing but the generated code.

use std::{net::SocketAddr, time::Duration};

use anyhow::bail;
use kvcm_proto::{
    json::{from_json, to_json},
    meta::meta_service_client::MetaServiceClient,
};
use kvcm_testkit::http_post_with;
use serde_json::Value;
use tonic::{
    Request,
    transport::{Channel, Endpoint},
};

/// By which a repeat is known, as a header of HTTP and in the metadata of gRPC.
const REQUEST_ID: &str = "x-kvcm-request-id";
/// Of a connection. Without being asked, an idle connection does not notice that it leads nowhere.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

/// A node, and how it is spoken to.
#[derive(Clone, Debug)]
pub(super) struct Node {
    address: SocketAddr,
    /// None: over HTTP.
    grpc: Option<Channel>,
}

impl Node {
    pub(super) fn http(address: SocketAddr) -> Self {
        Self {
            address,
            grpc: None,
        }
    }

    /// Connects with the first request, and anew after each failure.
    pub(super) fn grpc(address: SocketAddr) -> anyhow::Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?
            .connect_timeout(KEEP_ALIVE)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        Ok(Self {
            address,
            grpc: Some(endpoint.connect_lazy()),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The answer, as JSON. An error: there is none, and what became of the request is not known.
    pub(super) async fn ask(
        &self,
        call: &str,
        body: &Value,
        id: Option<&str>,
    ) -> anyhow::Result<Value> {
        match &self.grpc {
            Some(channel) => ask_by_grpc(channel.clone(), call, body, id).await,
            None => {
                let headers: Vec<_> = id.map(|id| (REQUEST_ID, id)).into_iter().collect();
                let (path, text) = (format!("/api/{call}"), body.to_string());
                let reply = http_post_with(self.address, &path, &headers, text.as_bytes());
                Ok(reply.await?.json()?)
            }
        }
    }
}

async fn ask_by_grpc(
    channel: Channel,
    call: &str,
    body: &Value,
    id: Option<&str>,
) -> anyhow::Result<Value> {
    let mut client = MetaServiceClient::new(channel);
    let body = body.to_string();
    macro_rules! ask {
        ($method:ident) => {{
            let mut request = Request::new(from_json(body.as_bytes())?);
            if let Some(id) = id {
                request.metadata_mut().insert(REQUEST_ID, id.parse()?);
            }
            to_json(client.$method(request).await?.get_ref())?
        }};
    }
    let answer = match call {
        "getCacheLocation" => ask!(get_cache_location),
        "startWriteCache" => ask!(start_write_cache),
        "finishWriteCache" => ask!(finish_write_cache),
        "registerInstance" => ask!(register_instance),
        "getInstanceInfo" => ask!(get_instance_info),
        other => bail!("nobody asks for {other} over gRPC"),
    };
    Ok(serde_json::from_slice(&answer)?)
}
