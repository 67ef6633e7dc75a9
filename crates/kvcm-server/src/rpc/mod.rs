//! The tables of calls: each row becomes a gRPC method and a JSON route over the same function.

mod admin;
mod debug;
mod hot;
mod meta;

use std::{future::Future, panic::AssertUnwindSafe, task::Poll};

use futures_util::FutureExt as _;
use prost::{Message, Name};
use tonic::{Request, Response, Status};
use tracing::Instrument as _;

pub(crate) use self::{admin::AdminRpc, debug::DebugRpc, hot::HotMeta, meta::MetaRpc};
use crate::{
    audit,
    http::{Answer, CallContext},
    reply::{Header, Reply},
    service::Services,
};

/// Makes a service of a table. A row: the name of the rpc, the gRPC method, `by` the function of
/// [`Services`] when it has another name, the messages, and `await` if it waits for anything.
/// The braces at the end hold what the gRPC service has beside.
macro_rules! rpcs {
    (
        $(#[$doc:meta])*
        $rpcs:ident is $service:ident of $package:ident;
        $(
            $name:literal $rpc:ident $(by $function:ident)? ($request:ident) -> $response:ident
            $(, $wait:tt)?;
        )*
        { $($more:tt)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $rpcs(pub(crate) std::sync::Arc<crate::service::Services>);

        impl $rpcs {
            /// The names of its calls.
            pub(crate) const NAMES: &[&str] = &[$($name),*];

            /// The JSON routes.
            pub(crate) fn routes(&self, routes: crate::http::JsonRoutes) -> crate::http::JsonRoutes {
                $(
                    let services = self.0.clone();
                    let routes = routes.call(
                        $name,
                        move |context: crate::http::CallContext, message: $package::$request| {
                            let services = services.clone();
                            async move {
                                let answer: $package::$response =
                                    rpcs!(@serve $name services context message
                                        [$rpc $($function)?] [$($wait)?]);
                                answer
                            }
                        },
                    );
                )*
                routes
            }
        }

        #[tonic::async_trait]
        impl $service for $rpcs {
            $(
                async fn $rpc(
                    &self,
                    request: tonic::Request<$package::$request>,
                ) -> Result<tonic::Response<$package::$response>, tonic::Status> {
                    let services = self.0.clone();
                    super::unary(request, |context, message| async move {
                        rpcs!(@serve $name services context message
                            [$rpc $($function)?] [$($wait)?])
                    })
                    .await
                }
            )*
            $($more)*
        }
    };
    (@serve $name:literal $services:ident $context:ident $message:ident
        [$rpc:ident $function:ident] [$($wait:tt)?]
    ) => {
        rpcs!(@serve $name $services $context $message [$function] [$($wait)?])
    };
    (@serve $name:literal $services:ident $context:ident $message:ident
        [$function:ident] [$($wait:tt)?]
    ) => {{
        let context = super::before(&$services, $name, $context).await;
        match super::struck($name, &context, &$message.trace_id) {
            Some(answer) => answer,
            None => rpcs!(@call $services context $message [$function] [$($wait)?]),
        }
    }};
    (@call $services:ident $context:ident $message:ident [$function:ident] []) => {
        $services.$function(&$context, $message)
    };
    (@call $services:ident $context:ident $message:ident [$function:ident] [await]) => {
        super::see_through(async move { $services.$function(&$context, $message).await }).await
    };
}
use rpcs;

/// The calls that any node answers. The others look at an injected fault when the node turns out
/// to lead: a follower answers as a follower.
const ANY_NODE: [&str; 9] = [
    "GetClusterInfo",
    "GetMetrics",
    "CheckHealth",
    "GetManagerClusterInfo",
    "LeaderDemote",
    "GetLeaderElectorConfig",
    "UpdateLeaderElectorConfig",
    "SetCandidacy",
    "UpdateLogger",
];

/// Before every call of either protocol: finds the fault that was injected into it.
async fn before(services: &Services, rpc: &str, mut context: CallContext) -> CallContext {
    context.fault = services.faults.strike(rpc).await;
    context
}

/// Serves a call to its end even when nobody waits for the answer any more: a change that has begun
/// is in flight until the store has it, so a drain waits for it, and its request id keeps its answer.
/// What has to wait goes on in a task of its own; with everything in memory nothing does.
async fn see_through<R: Send + 'static>(work: impl Future<Output = R> + Send + 'static) -> R {
    let mut work = Box::pin(work.in_current_span());
    if let Poll::Ready(answer) = futures_util::poll!(work.as_mut()) {
        return answer;
    }
    // Nobody can drop it between the two, since nothing is awaited.
    match tokio::spawn(work).await {
        Ok(answer) => answer,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going away, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// The answer of a call that any node answers and that a fault has struck.
fn struck<R: Reply>(rpc: &str, context: &CallContext, trace_id: &str) -> Option<R> {
    let error = context.fault.as_ref()?;
    let is_any = ANY_NODE.contains(&rpc);
    is_any.then(|| R::only(Header::refused(trace_id, error.clone())))
}

/// Reads the context of a gRPC request and answers it. A panic becomes a status instead of a
/// reset connection.
async fn unary<Req, Resp, Fut>(
    request: Request<Req>,
    call: impl FnOnce(CallContext, Req) -> Fut,
) -> Result<Response<Resp>, Status>
where
    Req: Message + Name,
    Resp: Answer,
    Fut: Future<Output = Resp> + Send,
{
    let (context, message) = open(request)?;
    let subject = audit::subject(&message);
    let answer = AssertUnwindSafe(call(context, message))
        .catch_unwind()
        .await;
    answer
        .map(|answer| {
            let outcome = answer.outcome(subject);
            let mut response = Response::new(answer);
            response.extensions_mut().insert(outcome);
            response
        })
        .map_err(|_| Status::internal("the call panicked; see the log"))
}

/// The context of a gRPC request, and its message.
fn open<Req>(request: Request<Req>) -> Result<(CallContext, Req), Status> {
    let (metadata, extensions, message) = request.into_parts();
    let context = CallContext::read(&metadata.into_headers(), &extensions)
        .map_err(|error| Status::invalid_argument(error.to_string()))?;
    Ok((context, message))
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_call_that_changes_something_ends_although_its_caller_has_gone() {
        let (resume, waits) = oneshot::channel::<()>();
        let (done, ended) = oneshot::channel();
        let mut call = Box::pin(see_through(async move {
            waits.await.unwrap();
            done.send(()).unwrap();
        }));
        assert!(futures_util::poll!(&mut call).is_pending());
        drop(call);
        resume.send(()).unwrap();
        ended.await.unwrap();
    }

    #[tokio::test]
    #[should_panic(expected = "in the call")]
    async fn a_panic_in_a_call_reaches_who_waits_for_it() {
        let call = async {
            tokio::task::yield_now().await;
            panic!("in the call")
        };
        see_through(call).await
    }

    #[tokio::test]
    async fn a_call_that_waits_for_nothing_needs_no_task() {
        let mut call = Box::pin(see_through(async { 7 }));
        assert_eq!(futures_util::poll!(&mut call), Poll::Ready(7));
    }
}
