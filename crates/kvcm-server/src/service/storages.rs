//! AdminService: data storages.

use kvcm_proto::admin;

use super::Services;
use crate::{convert, http::CallContext, reply::CallError};

impl Services {
    /// Adds a storage.
    pub(crate) async fn add_storage(
        &self,
        context: &CallContext,
        request: admin::AddStorageRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(
            context,
            "AddStorage",
            &trace_id,
            request,
            async |reign, request| {
                let storage = convert::storage(request.storage)?;
                let added = reign.registry.add_storage(storage).await;
                added.map_err(|error| reign.registry_error(&error))
            },
        )
        .await
    }

    /// Lets new blocks go to a storage again.
    pub(crate) async fn enable_storage(
        &self,
        context: &CallContext,
        request: admin::EnableStorageRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(
            context,
            "EnableStorage",
            &trace_id,
            request,
            async |reign, request| {
                let name = named(&request.storage_unique_name)?;
                let set = reign.registry.set_storage_available(name, true).await;
                set.map_err(|error| reign.registry_error(&error))
            },
        )
        .await
    }

    /// Keeps new blocks away from a storage.
    pub(crate) async fn disable_storage(
        &self,
        context: &CallContext,
        request: admin::DisableStorageRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(
            context,
            "DisableStorage",
            &trace_id,
            request,
            async |reign, request| {
                let name = named(&request.storage_unique_name)?;
                let set = reign.registry.set_storage_available(name, false).await;
                set.map_err(|error| reign.registry_error(&error))
            },
        )
        .await
    }

    /// Removes a storage.
    pub(crate) async fn remove_storage(
        &self,
        context: &CallContext,
        request: admin::RemoveStorageRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(
            context,
            "RemoveStorage",
            &trace_id,
            request,
            async |reign, request| {
                let name = named(&request.storage_unique_name)?;
                let removed = reign.registry.remove_storage(name).await;
                removed.map_err(|error| reign.registry_error(&error))
            },
        )
        .await
    }

    /// Replaces the settings of a storage, in one step; whether it is enabled stays as it was.
    pub(crate) async fn update_storage(
        &self,
        context: &CallContext,
        request: admin::UpdateStorageRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(
            context,
            "UpdateStorage",
            &trace_id,
            request,
            async |reign, request| {
                let storage = convert::storage(request.storage)?;
                let updated = reign.registry.update_storage(storage).await;
                updated.map_err(|error| reign.registry_error(&error))
            },
        )
        .await
    }

    /// All storages, sorted by name.
    pub(crate) fn list_storage(
        &self,
        context: &CallContext,
        request: admin::ListStorageRequest,
    ) -> admin::ListStorageResponse {
        self.read(context, &request.trace_id, |reign| {
            let storages = reign.registry.storages();
            let storage = storages.iter().map(|s| convert::storage_config(s));
            Ok(admin::ListStorageResponse {
                storage: storage.collect(),
                header: None,
            })
        })
    }
}

fn named(name: &str) -> Result<&str, CallError> {
    match name {
        "" => Err(CallError::missing(&["storage_unique_name"])),
        name => Ok(name),
    }
}
