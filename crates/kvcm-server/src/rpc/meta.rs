//! MetaService.

use kvcm_proto::meta::{self, meta_service_server::MetaService};

use super::rpcs;

rpcs! {
    /// What inference engines call.
    MetaRpc is MetaService of meta;

    "RegisterInstance" register_instance(RegisterInstanceRequest) -> RegisterInstanceResponse, await;
    "GetInstanceInfo" get_instance_info(GetInstanceInfoRequest) -> GetInstanceInfoResponse;
    "GetCacheLocation" get_cache_location(GetCacheLocationRequest) -> GetCacheLocationResponse;
    "GetCacheLocationLen" get_cache_location_len(GetCacheLocationLenRequest) -> GetCacheLocationLenResponse;
    "GetCacheMeta" get_cache_meta(GetCacheMetaRequest) -> GetCacheMetaResponse;
    "StartWriteCache" start_write_cache(StartWriteCacheRequest) -> StartWriteCacheResponse, await;
    "FinishWriteCache" finish_write_cache(FinishWriteCacheRequest) -> CommonResponse, await;
    "RemoveCache" remove_cache(RemoveCacheRequest) -> CommonResponse, await;
    "TrimCache" trim_cache(TrimCacheRequest) -> CommonResponse, await;
    "GetClusterInfo" get_cluster_info(GetClusterInfoRequest) -> GetClusterInfoResponse;

    {
        type WatchClusterInfoStream = tonic::codegen::BoxStream<meta::GetClusterInfoResponse>;

        async fn watch_cluster_info(
            &self,
            request: tonic::Request<meta::WatchClusterInfoRequest>,
        ) -> Result<tonic::Response<Self::WatchClusterInfoStream>, tonic::Status> {
            use futures_util::StreamExt as _;
            let (_, message) = super::open(request)?;
            let changes = self.0.clone().watch_cluster_info(message);
            Ok(tonic::Response::new(Box::pin(changes.map(Ok))))
        }
    }
}

impl MetaRpc {
    /// The JSON routes that answer with a stream of lines.
    pub(crate) fn streams(&self, routes: crate::http::JsonRoutes) -> crate::http::JsonRoutes {
        let services = self.0.clone();
        routes.lines("WatchClusterInfo", move |_, message| {
            services.clone().watch_cluster_info(message)
        })
    }
}
