//! AdminService: the whole registry as a text, and back.

use kvcm_proto::admin;
use kvcm_registry::Registry;

use super::Services;
use crate::{http::CallContext, reply::CallError};

impl Services {
    /// The whole registry as JSON, without passwords.
    pub(crate) fn gen_config_snapshot(
        &self,
        context: &CallContext,
        request: admin::GenConfigSnapshotRequest,
    ) -> admin::ConfigSnapShotResponse {
        self.read(context, &request.trace_id, |reign| {
            Ok(admin::ConfigSnapShotResponse {
                config_snapshot: reign.registry.config_snapshot(),
                header: None,
            })
        })
    }

    /// Makes the registry what such a text says: all of it, or nothing when anything is wrong.
    pub(crate) async fn load_config_snapshot(
        &self,
        context: &CallContext,
        request: admin::LoadConfigSnapshotRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(context, "LoadConfigSnapshot", &trace_id, request, async |reign, request| {
            if request.config_snapshot.is_empty() {
                return Err(CallError::missing(&["config_snapshot"]));
            }
            let text = &request.config_snapshot;
            let groups = Registry::groups_in_snapshot(text);
            for group in groups.map_err(|error| reign.registry_error(&error))? {
                reign.check_group(&group).await?;
            }
            let loaded = reign.registry.load_config_snapshot(text).await;
            reign.caches.refresh();
            let loaded = loaded.map_err(|error| reign.registry_error(&error))?;
            if !loaded.without_password.is_empty() {
                tracing::warn!(
                    accounts = ?loaded.without_password,
                    "a configuration snapshot brought accounts without passwords: add them again"
                );
            }
            reign.drop_blocks(loaded.dropped.iter().map(String::as_str)).await
        })
        .await
    }
}
