//! AdminService.

use kvcm_proto::admin::{self, admin_service_server::AdminService};

use super::rpcs;

rpcs! {
    /// What operators call.
    AdminRpc is AdminService of admin;

    "CheckHealth" check_health(CheckHealthRequest) -> CheckHealthResponse;
    "GetManagerClusterInfo" get_manager_cluster_info(GetManagerClusterInfoRequest) -> GetManagerClusterInfoResponse;
    "LeaderDemote" leader_demote(LeaderDemoteRequest) -> CommonResponse, await;
    "GetLeaderElectorConfig" get_leader_elector_config(GetLeaderElectorConfigRequest) -> GetLeaderElectorConfigResponse;
    "UpdateLeaderElectorConfig" update_leader_elector_config(UpdateLeaderElectorConfigRequest) -> CommonResponse, await;
}
