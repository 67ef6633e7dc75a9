//! The calls that engines make all day long, by their short ways.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use kvcm_proto::meta::{
    GetCacheLocationResponse, StartWriteCacheResponse, meta_service_server::MetaServiceServer,
};
use tonic::{
    Status,
    body::Body,
    server::{Grpc, NamedService, UnaryService},
};
use tower::Service;

use super::{MetaRpc, before, see_through, unary};
use crate::{
    hot::{Frame, Framed, Json, Keyed, Protobuf, Requests, Written},
    http::{Answer, CallContext, JsonRoutes, written},
};

/// MetaService over gRPC: the hot calls by short ways ([`crate::hot`]), the others by the
/// generated server. Both serve them by the same functions.
#[derive(Clone, Debug)]
pub(crate) struct HotMeta {
    rpc: MetaRpc,
    generated: MetaServiceServer<MetaRpc>,
    /// Bytes of a request.
    limit: usize,
}

type Answering<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl HotMeta {
    /// Serves `rpc`, with requests of at most so many bytes.
    pub(crate) fn new(rpc: MetaRpc, limit: usize) -> Self {
        Self {
            generated: MetaServiceServer::new(rpc.clone()).max_decoding_message_size(limit),
            rpc,
            limit,
        }
    }
}

impl NamedService for HotMeta {
    const NAME: &'static str = <MetaServiceServer<MetaRpc> as NamedService>::NAME;
}

impl Service<Request<Body>> for HotMeta {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering<Self::Response, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (services, limit) = (self.rpc.0.clone(), self.limit);
        let method = request.uri().path().strip_prefix("/");
        let method = method.and_then(|path| path.strip_prefix(Self::NAME));
        match method {
            Some("/GetCacheLocation") => answer(limit, request, async move |context, message| {
                let context = before(&services, "GetCacheLocation", context).await;
                services.get_cache_location::<Written<Protobuf<2>>>(&context, message)
            }),
            Some("/GetCacheLocationLen") => {
                answer(limit, request, async move |context, message| {
                    let context = before(&services, "GetCacheLocationLen", context).await;
                    services.get_cache_location_len(&context, message)
                })
            }
            Some("/StartWriteCache") => answer(limit, request, async move |context, message| {
                let context = before(&services, "StartWriteCache", context).await;
                see_through(async move {
                    let answer: Written<Protobuf<4>> =
                        services.start_write_cache(&context, message).await;
                    answer
                })
                .await
            }),
            Some("/FinishWriteCache") => answer(limit, request, async move |context, message| {
                let context = before(&services, "FinishWriteCache", context).await;
                see_through(async move { services.finish_write_cache(&context, message).await })
                    .await
            }),
            _ => self.generated.call(request),
        }
    }
}

impl MetaRpc {
    /// The JSON routes of the hot calls, in the place of those that there are.
    pub(crate) fn hot(&self, routes: JsonRoutes) -> JsonRoutes {
        let services = self.0.clone();
        let routes = routes.hot("GetCacheLocation", move |context, message| {
            let services = services.clone();
            async move {
                let context = before(&services, "GetCacheLocation", context).await;
                let answer: Written<Json<GetCacheLocationResponse>> =
                    services.get_cache_location(&context, message);
                written(answer)
            }
        });
        let services = self.0.clone();
        let routes = routes.hot("GetCacheLocationLen", move |context, message| {
            let services = services.clone();
            async move {
                let context = before(&services, "GetCacheLocationLen", context).await;
                written(services.get_cache_location_len(&context, message))
            }
        });
        let services = self.0.clone();
        let routes = routes.hot("StartWriteCache", move |context, message| {
            let services = services.clone();
            async move {
                let context = before(&services, "StartWriteCache", context).await;
                see_through(async move {
                    let answer: Written<Json<StartWriteCacheResponse>> =
                        services.start_write_cache(&context, message).await;
                    written(answer)
                })
                .await
            }
        });
        let services = self.0.clone();
        routes.hot("FinishWriteCache", move |context, message| {
            let services = services.clone();
            async move {
                let context = before(&services, "FinishWriteCache", context).await;
                let finish = async move { services.finish_write_cache(&context, message).await };
                written(see_through(finish).await)
            }
        })
    }
}

/// Reads a request and sends what `call` says to it.
fn answer<Req, Resp, F, Fut>(
    limit: usize,
    request: Request<Body>,
    call: F,
) -> Answering<Response<Body>, Infallible>
where
    Req: Keyed + prost::Name + 'static,
    Resp: Answer + Framed + Send,
    F: FnOnce(CallContext, Req) -> Fut + Send + 'static,
    Fut: Future<Output = Resp> + Send,
{
    Box::pin(async move {
        let mut grpc = Grpc::new(Requests::default()).max_decoding_message_size(limit);
        let mut response = grpc.unary(Once(Some(call)), request).await;
        // A status has a body of its own.
        if let Some(frame) = response.extensions_mut().remove::<Frame>() {
            *response.body_mut() = Body::new(frame);
        }
        Ok(response)
    })
}

/// The service of one request.
struct Once<F>(Option<F>);

impl<Req, Resp, F, Fut> UnaryService<Req> for Once<F>
where
    Req: Keyed + prost::Name + 'static,
    Resp: Answer + Framed + Send,
    F: FnOnce(CallContext, Req) -> Fut + Send + 'static,
    Fut: Future<Output = Resp> + Send,
{
    type Response = ();
    type Future = Answering<tonic::Response<()>, Status>;

    fn call(&mut self, request: tonic::Request<Req>) -> Self::Future {
        let call = self.0.take();
        Box::pin(async move {
            let call = call.ok_or_else(|| Status::internal("a second message"))?;
            let (metadata, answer, mut extensions) = unary(request, call).await?.into_parts();
            extensions.insert(answer.into_frame()?);
            Ok(tonic::Response::from_parts(metadata, (), extensions))
        })
    }
}
