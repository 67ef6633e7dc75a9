//! The tables of calls: each row becomes a gRPC method and a JSON route over the same function.

mod admin;
mod meta;

use std::{future::Future, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;
use tonic::{Request, Response, Status};

pub(crate) use self::{admin::AdminRpc, meta::MetaRpc};
use crate::http::CallContext;

/// Makes a service of a table. A row: the name of the rpc, the function of
/// [`Services`](crate::service::Services), its messages, and `await` if it waits for anything.
macro_rules! rpcs {
    (
        $(#[$doc:meta])*
        $rpcs:ident is $service:ident of $package:ident;
        $($name:literal $rpc:ident($request:ident) -> $response:ident $(, $wait:tt)?;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $rpcs(pub(crate) std::sync::Arc<crate::service::Services>);

        impl $rpcs {
            /// The JSON routes.
            pub(crate) fn routes(&self, routes: crate::http::JsonRoutes) -> crate::http::JsonRoutes {
                $(
                    let services = self.0.clone();
                    let routes = routes.call(
                        $name,
                        move |context: crate::http::CallContext, message: $package::$request| {
                            let services = services.clone();
                            async move { services.$rpc(&context, message)$(.$wait)? }
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
                        services.$rpc(&context, message)$(.$wait)?
                    })
                    .await
                }
            )*
        }
    };
}
use rpcs;

/// Reads the context of a gRPC request and answers it. A panic becomes a status instead of a
/// reset connection.
async fn unary<Req, Resp, Fut>(
    request: Request<Req>,
    call: impl FnOnce(CallContext, Req) -> Fut,
) -> Result<Response<Resp>, Status>
where
    Fut: Future<Output = Resp> + Send,
{
    let (metadata, extensions, message) = request.into_parts();
    let context = CallContext::read(&metadata.into_headers(), &extensions)
        .map_err(|error| Status::invalid_argument(error.to_string()))?;
    let answer = AssertUnwindSafe(call(context, message))
        .catch_unwind()
        .await;
    answer
        .map(Response::new)
        .map_err(|_| Status::internal("the call panicked; see the log"))
}
