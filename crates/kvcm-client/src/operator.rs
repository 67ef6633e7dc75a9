//! Calls of the admin service that only the leader serves.

use std::{sync::Arc, time::Duration};

use kvcm_proto::admin as proto;
use prost::Message;
use tokio::time::Instant;

use crate::{
    call::{Call, Service},
    core::Core,
    error::{Error, ErrorKind, Outcome},
    reply::Reply,
    stats::count,
};

/// What an operator changes and looks at: stores, instance groups, instances, accounts, the whole
/// configuration. Made by [`Client::operator`](crate::Client::operator).
///
/// These calls follow the leader as data calls do: a failover does not show, and what changes
/// something is done once. Stores and groups have many settings, which are those of the protocol:
/// its messages are in [`kvcm_proto::admin`](crate::proto::admin), and [`call`](Self::call) sends
/// any of them.
#[derive(Clone, Debug)]
pub struct Operator {
    core: Arc<Core>,
    deadline: Duration,
}

/// A request of the admin service that only the leader serves.
pub trait LeaderRequest: Message + sealed::Sealed {
    /// What is answered.
    type Response: Message + Default;
    #[doc(hidden)]
    const NAME: &'static str;
    #[doc(hidden)]
    const PATH: &'static str;
    #[doc(hidden)]
    const MUTATING: bool;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! requests {
    ($($name:literal $request:ident -> $response:ident, mutating: $mutating:literal;)*) => {$(
        impl sealed::Sealed for proto::$request {}

        impl LeaderRequest for proto::$request {
            type Response = proto::$response;
            const NAME: &'static str = $name;
            const PATH: &'static str =
                concat!("/kv_cache_manager.proto.admin.AdminService/", $name);
            const MUTATING: bool = $mutating;
        }
    )*};
}

requests! {
    "AddStorage" AddStorageRequest -> CommonResponse, mutating: true;
    "EnableStorage" EnableStorageRequest -> CommonResponse, mutating: true;
    "DisableStorage" DisableStorageRequest -> CommonResponse, mutating: true;
    "RemoveStorage" RemoveStorageRequest -> CommonResponse, mutating: true;
    "UpdateStorage" UpdateStorageRequest -> CommonResponse, mutating: true;
    "ListStorage" ListStorageRequest -> ListStorageResponse, mutating: false;
    "CreateInstanceGroup" CreateInstanceGroupRequest -> CommonResponse, mutating: true;
    "UpdateInstanceGroup" UpdateInstanceGroupRequest -> CommonResponse, mutating: true;
    "RemoveInstanceGroup" RemoveInstanceGroupRequest -> CommonResponse, mutating: true;
    "GetInstanceGroup" GetInstanceGroupRequest -> GetInstanceGroupResponse, mutating: false;
    "ListInstanceGroup" ListInstanceGroupRequest -> ListInstanceGroupResponse, mutating: false;
    "GetCacheMeta" GetCacheMetaRequest -> GetCacheMetaResponse, mutating: false;
    "RemoveCache" RemoveCacheRequest -> CommonResponse, mutating: true;
    "RegisterInstance" RegisterInstanceRequest -> CommonResponse, mutating: true;
    "RemoveInstance" RemoveInstanceRequest -> CommonResponse, mutating: true;
    "GetInstanceInfo" GetInstanceInfoRequest -> GetInstanceInfoResponse, mutating: false;
    "ListInstanceInfo" ListInstanceInfoRequest -> ListInstanceInfoResponse, mutating: false;
    "AddAccount" AddAccountRequest -> CommonResponse, mutating: true;
    "DeleteAccount" DeleteAccountRequest -> CommonResponse, mutating: true;
    "ListAccount" ListAccountRequest -> ListAccountResponse, mutating: false;
    "GenConfigSnapshot" GenConfigSnapshotRequest -> ConfigSnapShotResponse, mutating: false;
    "LoadConfigSnapshot" LoadConfigSnapshotRequest -> CommonResponse, mutating: true;
}

/// What an account may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Data calls.
    User,
    /// Admin calls too.
    Admin,
}

impl Operator {
    pub(crate) fn new(core: Arc<Core>, deadline: Duration) -> Self {
        Self { core, deadline }
    }

    /// The same with another deadline per call.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self {
            core: Arc::clone(&self.core),
            deadline,
        }
    }

    /// Sends any request of the admin service that only the leader serves.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn call<R: LeaderRequest>(&self, request: &R) -> Result<Reply<R::Response>, Error> {
        let call = Call {
            service: Service::Admin,
            name: R::NAME,
            path: R::PATH,
            body: request.encode_to_vec().into(),
            mutating: R::MUTATING,
            deadline: Instant::now() + self.deadline,
        };
        let counters = &self.core.counters;
        count(&counters.calls);
        let result = match self.core.call(&call).await {
            Ok(answer) => R::Response::decode(answer.body)
                .map(|response| Reply::new(response, answer.meta))
                .map_err(|_| {
                    let outcome = if R::MUTATING {
                        Outcome::Unknown
                    } else {
                        Outcome::NotDone
                    };
                    let why = "the reply cannot be read: server and client do not fit";
                    Error::new(ErrorKind::Transport, outcome, R::NAME, why)
                }),
            Err(error) => Err(error),
        };
        if result.is_err() {
            count(&counters.errors);
        }
        result
    }

    /// All stores.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn storages(&self) -> Result<Vec<proto::StorageConfig>, Error> {
        let reply = self.call(&proto::ListStorageRequest::default()).await?;
        Ok(reply.into_value().storage)
    }

    /// Adds a store.
    ///
    /// # Errors
    /// [`ErrorKind::Duplicate`] when one of that name exists; otherwise as any call.
    pub async fn add_storage(&self, storage: proto::StorageConfig) -> Result<(), Error> {
        let request = proto::AddStorageRequest {
            storage: Some(storage),
            ..Default::default()
        };
        self.call(&request).await.map(|_| ())
    }

    /// Lets new blocks go to a store, or keeps them away.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn enable_storage(&self, name: &str, enabled: bool) -> Result<(), Error> {
        let storage_unique_name = name.to_owned();
        if enabled {
            let request = proto::EnableStorageRequest {
                storage_unique_name,
                ..Default::default()
            };
            self.call(&request).await.map(|_| ())
        } else {
            let request = proto::DisableStorageRequest {
                storage_unique_name,
                ..Default::default()
            };
            self.call(&request).await.map(|_| ())
        }
    }

    /// All instance groups.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn instance_groups(&self) -> Result<Vec<proto::InstanceGroup>, Error> {
        let reply = self
            .call(&proto::ListInstanceGroupRequest::default())
            .await?;
        Ok(reply.into_value().instance_group)
    }

    /// Adds an instance group.
    ///
    /// # Errors
    /// [`ErrorKind::Duplicate`] when one of that name exists; otherwise as any call.
    pub async fn create_instance_group(&self, group: proto::InstanceGroup) -> Result<(), Error> {
        let request = proto::CreateInstanceGroupRequest {
            instance_group: Some(group),
            ..Default::default()
        };
        self.call(&request).await.map(|_| ())
    }

    /// The instances of one group, or of all.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn instances(&self, group: Option<&str>) -> Result<Vec<proto::InstanceInfo>, Error> {
        let request = proto::ListInstanceInfoRequest {
            instance_group_name: group.unwrap_or_default().to_owned(),
            ..Default::default()
        };
        Ok(self.call(&request).await?.into_value().instance_info)
    }

    /// Removes an instance and its blocks.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn remove_instance(&self, group: &str, id: &str) -> Result<(), Error> {
        let request = proto::RemoveInstanceRequest {
            instance_group: group.to_owned(),
            instance_id: id.to_owned(),
            ..Default::default()
        };
        self.call(&request).await.map(|_| ())
    }

    /// Adds an account.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn add_account(&self, user: &str, password: &str, role: Role) -> Result<(), Error> {
        let role = match role {
            Role::User => proto::AccountRole::RoleUser,
            Role::Admin => proto::AccountRole::RoleAdmin,
        };
        let request = proto::AddAccountRequest {
            user_name: user.to_owned(),
            password: password.to_owned(),
            role: role.into(),
            ..Default::default()
        };
        self.call(&request).await.map(|_| ())
    }

    /// Removes an account.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn delete_account(&self, user: &str) -> Result<(), Error> {
        let request = proto::DeleteAccountRequest {
            user_name: user.to_owned(),
            ..Default::default()
        };
        self.call(&request).await.map(|_| ())
    }

    /// The whole registry as JSON.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn config_snapshot(&self) -> Result<String, Error> {
        let reply = self
            .call(&proto::GenConfigSnapshotRequest::default())
            .await?;
        Ok(reply.into_value().config_snapshot)
    }

    /// Replaces the whole registry by such a text: all of it or nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming what is wrong with the text; otherwise as any call.
    pub async fn load_config_snapshot(&self, json: &str) -> Result<(), Error> {
        let request = proto::LoadConfigSnapshotRequest {
            config_snapshot: json.to_owned(),
            ..Default::default()
        };
        self.call(&request).await.map(|_| ())
    }
}
