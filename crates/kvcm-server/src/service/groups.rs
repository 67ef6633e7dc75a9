//! AdminService: instance groups.

use kvcm_proto::admin;
use kvcm_registry::Group;

use super::Services;
use crate::{
    convert,
    http::CallContext,
    index_store::{FIELD, IndexStore},
    reign::Reign,
    reply::{CallError, Code},
};

impl Services {
    /// Creates a group.
    pub(crate) async fn create_instance_group(
        &self,
        context: &CallContext,
        request: admin::CreateInstanceGroupRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(
            context,
            "CreateInstanceGroup",
            &trace_id,
            request,
            async |reign, request| {
                let group = convert::group(request.instance_group)?;
                if reign.registry.group(&group.name).is_none() {
                    reign.check_group(&group).await?;
                }
                let created = reign.registry.create_group(group).await;
                reign.caches.refresh();
                created.map_err(|error| reign.registry_error(&error))
            },
        )
        .await
    }

    /// Replaces a group whose version is the one that the caller read.
    pub(crate) async fn update_instance_group(
        &self,
        context: &CallContext,
        request: admin::UpdateInstanceGroupRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(
            context,
            "UpdateInstanceGroup",
            &trace_id,
            request,
            async |reign, request| {
                let current = request.current_version;
                let group = convert::group(request.instance_group)?;
                if reign.registry.group(&group.name).is_some() {
                    reign.check_group(&group).await?;
                }
                let updated = reign.registry.update_group(current, group).await;
                reign.caches.refresh();
                updated.map_err(|error| reign.registry_error(&error))
            },
        )
        .await
    }

    /// Removes a group and, in the same step, its instances; then their blocks.
    pub(crate) async fn remove_instance_group(
        &self,
        context: &CallContext,
        request: admin::RemoveInstanceGroupRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(
            context,
            "RemoveInstanceGroup",
            &trace_id,
            request,
            async |reign, request| {
                let name = named(&request.name)?;
                let removed = reign.registry.remove_group(name).await;
                reign.caches.refresh();
                let removed = removed.map_err(|error| reign.registry_error(&error))?;
                let ids = removed.iter().map(|instance| instance.id.as_str());
                reign.drop_blocks(ids).await
            },
        )
        .await
    }

    /// One group.
    pub(crate) fn get_instance_group(
        &self,
        context: &CallContext,
        request: admin::GetInstanceGroupRequest,
    ) -> admin::GetInstanceGroupResponse {
        self.read(context, &request.trace_id, |reign| {
            let group = reign.registry.group(named(&request.name)?);
            let group = group.ok_or_else(|| {
                let message = format!("instance group `{}` does not exist", request.name);
                CallError::new(Code::Internal, message)
            })?;
            Ok(admin::GetInstanceGroupResponse {
                instance_group: Some(convert::instance_group(&group)),
                header: None,
            })
        })
    }

    /// All groups, sorted by name.
    pub(crate) fn list_instance_group(
        &self,
        context: &CallContext,
        request: admin::ListInstanceGroupRequest,
    ) -> admin::ListInstanceGroupResponse {
        self.read(context, &request.trace_id, |reign| {
            let groups = reign.registry.groups();
            let groups = groups.iter().map(|group| convert::instance_group(group));
            Ok(admin::ListInstanceGroupResponse {
                instance_group: groups.collect(),
                header: None,
            })
        })
    }
}

impl Reign {
    /// That there may be such a group; opens its store, if it is not open. Blocks do not move from
    /// store to store, so a group with instances keeps the one that it has.
    ///
    /// # Errors
    /// Why not.
    pub(super) async fn check_group(&self, group: &Group) -> Result<(), CallError> {
        check(group)?;
        let place = self.caches.place(group)?;
        let known = self.registry.group(&group.name);
        let before = known.and_then(|known| self.caches.configured(&known).ok());
        if before.as_ref().map(IndexStore::identity) == Some(place.identity()) {
            return Ok(());
        }
        if before.is_some() && !self.registry.instances_of(&group.name).is_empty() {
            let message = format!(
                "{FIELD}: instance group `{}` has instances, whose blocks do not move to another \
                 store: make a new group, or remove its instances first",
                group.name
            );
            return Err(CallError::new(Code::InvalidArgument, message));
        }
        self.caches.ensure(group).await
    }

    /// The blocks of instances that are not registered any more go.
    ///
    /// # Errors
    /// Those of the journal, once every instance was tried: the registration is gone all the same.
    pub(super) async fn drop_blocks<'a>(
        &self,
        ids: impl Iterator<Item = &'a str> + Send,
    ) -> Result<(), CallError> {
        let mut result = Ok(());
        for id in ids {
            for cache in self.caches.all() {
                if let Err(error) = cache.drop_instance(id).await {
                    let mut error = self.cache_error(error);
                    error.message = format!(
                        "the registration of instance `{id}` is removed, its blocks may be there: \
                         {}",
                        error.message
                    );
                    result = Err(error);
                }
            }
        }
        result
    }
}

/// That the registry will take the group: before a store is opened for it.
fn check(group: &Group) -> Result<(), CallError> {
    let problems = group.problems("");
    if problems.0.is_empty() {
        return Ok(());
    }
    let error = kvcm_registry::Error::InvalidArgument(problems);
    Err(CallError::new(Code::InvalidArgument, error.to_string()))
}

fn named(name: &str) -> Result<&str, CallError> {
    match name {
        "" => Err(CallError::missing(&["name"])),
        name => Ok(name),
    }
}
