//! AdminService.

use kvcm_proto::admin::{self, admin_service_server::AdminService};

use super::rpcs;

rpcs! {
    /// What operators call.
    AdminRpc is AdminService of admin;

    "AddStorage" add_storage(AddStorageRequest) -> CommonResponse, await;
    "EnableStorage" enable_storage(EnableStorageRequest) -> CommonResponse, await;
    "DisableStorage" disable_storage(DisableStorageRequest) -> CommonResponse, await;
    "RemoveStorage" remove_storage(RemoveStorageRequest) -> CommonResponse, await;
    "UpdateStorage" update_storage(UpdateStorageRequest) -> CommonResponse, await;
    "ListStorage" list_storage(ListStorageRequest) -> ListStorageResponse;
    "CreateInstanceGroup" create_instance_group(CreateInstanceGroupRequest) -> CommonResponse, await;
    "UpdateInstanceGroup" update_instance_group(UpdateInstanceGroupRequest) -> CommonResponse, await;
    "RemoveInstanceGroup" remove_instance_group(RemoveInstanceGroupRequest) -> CommonResponse, await;
    "GetInstanceGroup" get_instance_group(GetInstanceGroupRequest) -> GetInstanceGroupResponse;
    "ListInstanceGroup" list_instance_group(ListInstanceGroupRequest) -> ListInstanceGroupResponse;
    "GetCacheMeta" get_cache_meta by admin_get_cache_meta (GetCacheMetaRequest) -> GetCacheMetaResponse;
    "RemoveCache" remove_cache by admin_remove_cache (RemoveCacheRequest) -> CommonResponse, await;
    "RegisterInstance" register_instance by admin_register_instance (RegisterInstanceRequest) -> CommonResponse, await;
    "RemoveInstance" remove_instance(RemoveInstanceRequest) -> CommonResponse, await;
    "GetInstanceInfo" get_instance_info by admin_get_instance_info (GetInstanceInfoRequest) -> GetInstanceInfoResponse;
    "ListInstanceInfo" list_instance_info(ListInstanceInfoRequest) -> ListInstanceInfoResponse;
    "AddAccount" add_account(AddAccountRequest) -> CommonResponse, await;
    "DeleteAccount" delete_account(DeleteAccountRequest) -> CommonResponse, await;
    "ListAccount" list_account(ListAccountRequest) -> ListAccountResponse;
    "GenConfigSnapshot" gen_config_snapshot(GenConfigSnapshotRequest) -> ConfigSnapShotResponse;
    "LoadConfigSnapshot" load_config_snapshot(LoadConfigSnapshotRequest) -> CommonResponse, await;
    "GetMetrics" get_metrics(GetMetricsRequest) -> GetMetricsResponse;
    "CheckHealth" check_health(CheckHealthRequest) -> CheckHealthResponse;
    "GetManagerClusterInfo" get_manager_cluster_info(GetManagerClusterInfoRequest) -> GetManagerClusterInfoResponse;
    "LeaderDemote" leader_demote(LeaderDemoteRequest) -> CommonResponse, await;
    "GetLeaderElectorConfig" get_leader_elector_config(GetLeaderElectorConfigRequest) -> GetLeaderElectorConfigResponse;
    "UpdateLeaderElectorConfig" update_leader_elector_config(UpdateLeaderElectorConfigRequest) -> CommonResponse, await;
    "SetCandidacy" set_candidacy(SetCandidacyRequest) -> CommonResponse, await;
    "UpdateLogger" update_logger(UpdateLoggerRequest) -> CommonResponse;

    {}
}
