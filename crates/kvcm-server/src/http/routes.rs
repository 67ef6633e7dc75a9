//! JSON routes from functions over messages.

use std::{collections::BTreeMap, convert::Infallible, panic::AssertUnwindSafe};

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::Response,
    routing::{MethodRouter, post},
};
use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt as _};
use http::{HeaderValue, Method, StatusCode, Uri, header::CONTENT_TYPE};
use kvcm_proto::{
    json::{from_json, to_json},
    meta::ErrorCode,
};
use prost::{Message, Name};
use tracing::error;

use super::{
    Answer, BodyLimits, CallContext, Refusal, body,
    refusal::{UNPRINTABLE, json_response},
};
use crate::{
    audit,
    hot::{FromJson, IntoJson, read_json},
};

/// One line of JSON per answer.
const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// Builds the routes of a service, `POST /api/<rpc with a small first letter>` each.
///
/// Every request that a function gets is answered with 200, whatever the function says in its
/// header; everything that is no such request gets a [`Refusal`] with a status of its own.
#[derive(Debug)]
pub struct JsonRoutes {
    /// By their paths.
    calls: BTreeMap<String, MethodRouter>,
    others: Router,
    limits: BodyLimits,
}

impl JsonRoutes {
    /// No routes yet.
    pub fn new(limits: BodyLimits) -> Self {
        Self {
            calls: BTreeMap::new(),
            others: Router::new(),
            limits,
        }
    }

    /// Serves the rpc named `rpc` (`GetCacheLocation`) by `call`.
    #[must_use]
    pub fn call<Req, Resp, F, Fut>(self, rpc: &str, call: F) -> Self
    where
        Req: Message + Name + Default + 'static,
        Resp: Message + Name + Answer + 'static,
        F: Fn(CallContext, Req) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Resp> + Send,
    {
        self.route(rpc, move |context, body| {
            let call = call.clone();
            async move {
                let request = request(&body)?;
                // Not needed any more, and possibly megabytes.
                drop(body);
                let subject = audit::subject(&request);
                let answer = call(context, request).await;
                let mut response = print(&answer);
                response.extensions_mut().insert(answer.outcome(subject));
                Ok(response)
            }
        })
    }

    /// Serves the rpc named `rpc` by `call` in the place of what served it before; requests are read
    /// by a short way, and `call` prints its answer itself ([`written`]).
    #[must_use]
    pub(crate) fn hot<Req, F, Fut>(self, rpc: &str, call: F) -> Self
    where
        Req: FromJson + 'static,
        F: Fn(CallContext, Req) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response> + Send,
    {
        self.route(rpc, move |context, body| {
            let call = call.clone();
            async move {
                let request = read_json(&body);
                drop(body);
                let request = request.map_err(|error| Refusal::bad_request(error.to_string()))?;
                Ok(call(context, request).await)
            }
        })
    }

    /// Serves the rpc named `rpc` by a stream of answers, one line of JSON each
    /// (`application/x-ndjson`).
    #[must_use]
    pub fn lines<Req, Resp, F, S>(self, rpc: &str, call: F) -> Self
    where
        Req: Message + Name + Default + 'static,
        Resp: Message + Name + 'static,
        F: Fn(CallContext, Req) -> S + Clone + Send + Sync + 'static,
        S: Stream<Item = Resp> + Send + 'static,
    {
        self.route(rpc, move |context, body| {
            let answers = request(&body).map(|request| call(context, request));
            async move {
                let lines = answers?.map(|answer| {
                    let mut line = to_json(&answer)?;
                    line.push(b'\n');
                    Ok::<_, kvcm_proto::json::Error>(Bytes::from(line))
                });
                let mut response = json_response(StatusCode::OK, Body::from_stream(lines));
                response.headers_mut().insert(CONTENT_TYPE, LINES);
                Ok(response)
            }
        })
    }

    /// Serves the rpc named `rpc` by a function that reads and writes JSON itself.
    #[must_use]
    pub fn raw<F, Fut>(self, rpc: &str, call: F) -> Self
    where
        F: Fn(CallContext, Bytes) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Bytes, Refusal>> + Send,
    {
        self.route(rpc, move |context, body| {
            let answer = call(context, body);
            async move { Ok(json_response(StatusCode::OK, answer.await?)) }
        })
    }

    fn route<F, Fut>(mut self, rpc: &str, call: F) -> Self
    where
        F: Fn(CallContext, Bytes) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Response, Refusal>> + Send,
    {
        let limits = self.limits;
        let handler = move |request: Request| {
            let call = call.clone();
            async move {
                // A panic would take all streams of the connection along.
                let answer = AssertUnwindSafe(answer(request, limits, call)).catch_unwind();
                answer.await.unwrap_or_else(|_| Err(panicked()))
            }
        };
        self.calls.insert(path(rpc), post(handler));
        self
    }

    /// Adds other routes to the same port: metrics, health.
    #[must_use]
    pub fn merge(mut self, router: Router) -> Self {
        self.others = self.others.merge(router);
        self
    }

    /// The router, which answers unknown paths and methods in JSON too.
    pub fn finish(self) -> Router {
        let add = |router: Router, (path, call): (String, _)| router.route(&path, call);
        let router = self.calls.into_iter().fold(self.others, add);
        router
            .method_not_allowed_fallback(wrong_method)
            .fallback(unknown_path)
    }
}

/// `GetCacheLocation` → `/api/getCacheLocation`.
pub(crate) fn path(rpc: &str) -> String {
    let mut letters = rpc.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    let first = first.map(String::from).unwrap_or_default();
    format!("/api/{first}{}", letters.as_str())
}

async fn answer<F, Fut>(request: Request, limits: BodyLimits, call: F) -> Result<Response, Refusal>
where
    F: Fn(CallContext, Bytes) -> Fut,
    Fut: Future<Output = Result<Response, Refusal>>,
{
    let (head, body) = request.into_parts();
    let context = CallContext::read(&head.headers, &head.extensions)?;
    let body = body::read(&head.headers, body, limits).await?;
    call(context, body).await
}

fn request<Req: Message + Name + Default>(body: &[u8]) -> Result<Req, Refusal> {
    from_json(body).map_err(|error| Refusal::bad_request(error.to_string()))
}

/// An answer of an engine's call that is JSON text already.
pub(crate) fn written<Resp: Answer + IntoJson>(answer: Resp) -> Response {
    let outcome = answer.outcome(None);
    let mut response = json_response(StatusCode::OK, answer.into_json());
    response.extensions_mut().insert(outcome);
    response
}

fn print<Resp: Message + Name>(response: &Resp) -> Response {
    match to_json(response) {
        Ok(json) => json_response(StatusCode::OK, json),
        Err(error) => {
            error!(%error, "answer cannot be printed");
            json_response(StatusCode::INTERNAL_SERVER_ERROR, UNPRINTABLE)
        }
    }
}

fn panicked() -> Refusal {
    Refusal::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::InternalError,
        "the call failed by a mistake in the server; see its log",
    )
}

async fn unknown_path(uri: Uri) -> Result<Infallible, Refusal> {
    Err(Refusal::new(
        StatusCode::NOT_FOUND,
        ErrorCode::Unsupported,
        format!(
            "there is no {} on this port; calls are POST /api/<name>, the meta and the admin \
             service have ports of their own",
            uri.path()
        ),
    ))
}

async fn wrong_method(method: Method, uri: Uri) -> Result<Infallible, Refusal> {
    Err(Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::Unsupported,
        format!(
            "{} is not called with {method}; see the header allow",
            uri.path()
        ),
    ))
}
