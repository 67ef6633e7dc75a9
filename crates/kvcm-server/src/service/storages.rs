//! AdminService: data storages.

use std::sync::Arc;

use kvcm_proto::admin;
use kvcm_registry::Storage;

use super::Services;
use crate::{
    convert,
    http::CallContext,
    reign::Reign,
    reply::{CallError, Code},
};

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
                let checked = checked(&reign, &storage).await?;
                let added = reign.registry.add_storage(storage).await;
                reign.storages.refresh();
                drop(checked);
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
                let checked = checked(&reign, &storage).await?;
                let updated = reign.registry.update_storage(storage).await;
                reign.storages.refresh();
                drop(checked);
                updated.map_err(|error| reign.registry_error(&error))
            },
        )
        .await
    }

    /// All storages, sorted by name. Available is what is enabled and works.
    pub(crate) fn list_storage(
        &self,
        context: &CallContext,
        request: admin::ListStorageRequest,
    ) -> admin::ListStorageResponse {
        self.read(context, &request.trace_id, |reign| {
            let storages = reign.registry.storages();
            let shown = |storage: &Arc<Storage>| {
                let mut shown = convert::storage_config(storage);
                shown.is_available = Some(reign.storages.is_available(storage));
                shown
            };
            Ok(admin::ListStorageResponse {
                storage: storages.iter().map(shown).collect(),
                header: None,
            })
        })
    }
}

/// Checks a storage that wants it (`check_storage_available_when_open`) before it is registered.
/// What it found is known as long as the result lives, or the storage is registered.
async fn checked(reign: &Reign, storage: &Storage) -> Result<impl Sized + use<>, CallError> {
    let checked = reign.storages.first_check(storage).await;
    checked.map_err(|problem| {
        let name = &storage.name;
        let message = format!(
            "storage `{name}` does not work ({problem}); repair it, or leave \
             check_storage_available_when_open out"
        );
        CallError::new(Code::Internal, message)
    })
}

fn named(name: &str) -> Result<&str, CallError> {
    match name {
        "" => Err(CallError::missing(&["storage_unique_name"])),
        name => Ok(name),
    }
}
