//! AdminService: instances and their blocks. Most of it is what MetaService has.

use kvcm_proto::admin;

use super::Services;
use crate::{
    convert::{self, admin as own},
    http::CallContext,
    reply::CallError,
};

impl Services {
    /// Registers an instance, or finds it again.
    pub(crate) async fn admin_register_instance(
        &self,
        context: &CallContext,
        request: admin::RegisterInstanceRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(
            context,
            "RegisterInstance",
            &trace_id,
            request,
            async |reign, request| {
                let registration = own::registration(request);
                let registered = reign.registry.register_instance(registration).await;
                registered
                    .map(drop)
                    .map_err(|error| reign.registry_error(&error))
            },
        )
        .await
    }

    /// Removes an instance and its blocks. The group is not compared: ids are unique.
    pub(crate) async fn remove_instance(
        &self,
        context: &CallContext,
        request: admin::RemoveInstanceRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(
            context,
            "RemoveInstance",
            &trace_id,
            request,
            async |reign, request| {
                let id = request.instance_id.as_str();
                if id.is_empty() {
                    return Err(CallError::missing(&["instance_id"]));
                }
                let removed = reign.registry.remove_instance(id).await;
                let removed = removed.map_err(|error| reign.registry_error(&error));
                // Also when it is not registered: an earlier removal may not have come so far.
                let dropped = reign.drop_blocks([id].into_iter()).await;
                removed.map(drop).and(dropped)
            },
        )
        .await
    }

    /// One instance.
    pub(crate) fn admin_get_instance_info(
        &self,
        context: &CallContext,
        request: admin::GetInstanceInfoRequest,
    ) -> admin::GetInstanceInfoResponse {
        self.read(context, &request.trace_id, |reign| {
            let instance = reign.instance(&request.instance_id)?;
            Ok(admin::GetInstanceInfoResponse {
                instance_info: Some(own::instance_info(&instance)),
                header: None,
            })
        })
    }

    /// The instances of a group, or all; none of a group that does not exist.
    pub(crate) fn list_instance_info(
        &self,
        context: &CallContext,
        request: admin::ListInstanceInfoRequest,
    ) -> admin::ListInstanceInfoResponse {
        self.read(context, &request.trace_id, |reign| {
            let instances = match request.instance_group_name.as_str() {
                "" => reign.registry.instances(),
                group => reign.registry.instances_of(group),
            };
            let infos = instances.iter().map(|i| own::instance_info(i));
            Ok(admin::ListInstanceInfoResponse {
                instance_info: infos.collect(),
                header: None,
            })
        })
    }

    /// Locations and state of some blocks, whatever their state.
    pub(crate) fn admin_get_cache_meta(
        &self,
        context: &CallContext,
        request: admin::GetCacheMetaRequest,
    ) -> admin::GetCacheMetaResponse {
        self.read(context, &request.trace_id, |reign| {
            let lookup = kvcm_cache::MetaRequest {
                instance_id: &request.instance_id,
                blocks: convert::blocks(&request.block_keys, &request.token_ids),
                mask: own::mask(request.block_mask.as_ref()),
            };
            let mut reply = admin::GetCacheMetaResponse::default();
            reign.cache(&request.instance_id)?.meta(&lookup, |answer| {
                reply.locations.push(own::location(&answer.view));
                reply.metas.push(answer.to_json());
            })?;
            Ok(reply)
        })
    }

    /// Removes some blocks.
    pub(crate) async fn admin_remove_cache(
        &self,
        context: &CallContext,
        request: admin::RemoveCacheRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(
            context,
            "RemoveCache",
            &trace_id,
            request,
            async |reign, request| {
                let remove = kvcm_cache::RemoveRequest {
                    instance_id: &request.instance_id,
                    blocks: convert::blocks(&request.block_keys, &request.token_ids),
                    request: reign.request,
                };
                let removed = reign.cache(&request.instance_id)?.remove(&remove).await;
                removed.map(drop).map_err(|error| reign.cache_error(error))
            },
        )
        .await
    }
}
