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
}
