//! An instance and its calls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use kvcm_proto::meta::{
    GetCacheLocationLenRequest, GetCacheLocationLenResponse, GetCacheMetaRequest,
    GetInstanceInfoRequest, GetInstanceInfoResponse, RegisterInstanceResponse, RemoveCacheRequest,
    TrimCacheRequest, TrimStrategy,
};
use parking_lot::Mutex;
use prost::Message;
use tokio::time::Instant;

use crate::{
    block_states::BlockStates,
    blocks::Blocks,
    call::{Answer, Call, Service},
    core::Core,
    error::{Error, ErrorKind, Outcome},
    locations::Locations,
    query::Query,
    reply::Reply,
    spec::InstanceSpec,
    stats::count,
    write::{WriteOptions, WriteSession, Written},
    write_blocks::{NewBlocks, WriteReport, write_blocks},
};

/// How often one call registers the instance again before it gives up: each time the leader may
/// have changed once more.
const REREGISTRATIONS_MAX: u32 = 3;

/// A registered instance. Clones are cheap.
///
/// A leader that does not know the instance, because its knowledge did not survive the change of
/// leader, gets it registered again, transparently; [`Stats`](crate::Stats) counts it.
#[derive(Clone, Debug)]
pub struct Instance {
    shared: Arc<Shared>,
    deadline: Duration,
}

#[derive(Debug)]
struct Shared {
    core: Arc<Core>,
    spec: InstanceSpec,
    storage_configs: Mutex<Arc<str>>,
    /// One registration at a time, however many calls want one.
    registering: tokio::sync::Mutex<()>,
    registrations: AtomicU64,
}

/// One rpc of the meta service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rpc {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) mutating: bool,
}

macro_rules! rpc {
    ($name:literal, mutating: $mutating:literal) => {
        Rpc {
            name: $name,
            path: concat!("/kv_cache_manager.proto.meta.MetaService/", $name),
            mutating: $mutating,
        }
    };
}

const REGISTER: Rpc = rpc!("RegisterInstance", mutating: true);
const LOCATE: Rpc = rpc!("GetCacheLocation", mutating: false);
const LOCATE_LEN: Rpc = rpc!("GetCacheLocationLen", mutating: false);
const STATES: Rpc = rpc!("GetCacheMeta", mutating: false);
const INFO: Rpc = rpc!("GetInstanceInfo", mutating: false);
const REMOVE: Rpc = rpc!("RemoveCache", mutating: true);
const TRIM: Rpc = rpc!("TrimCache", mutating: true);
pub(crate) const START_WRITE: Rpc = rpc!("StartWriteCache", mutating: true);
pub(crate) const FINISH_WRITE: Rpc = rpc!("FinishWriteCache", mutating: true);

impl Instance {
    pub(crate) async fn register(
        core: Arc<Core>,
        spec: InstanceSpec,
        deadline: Duration,
    ) -> Result<Self, Error> {
        let instance = Self {
            shared: Arc::new(Shared {
                core,
                spec,
                storage_configs: Mutex::new("".into()),
                registering: tokio::sync::Mutex::default(),
                registrations: AtomicU64::new(0),
            }),
            deadline,
        };
        let result = instance.shared.register(Instant::now() + deadline).await;
        instance.counted(result)?;
        Ok(instance)
    }

    /// The same instance with another deadline per call.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            deadline,
        }
    }

    /// The instance's id.
    pub fn id(&self) -> &str {
        &self.shared.spec.id
    }

    /// What was registered.
    pub fn spec(&self) -> &InstanceSpec {
        &self.shared.spec
    }

    /// The stores that blocks may lie in: a JSON array, as the server gave it at the last
    /// registration.
    pub fn storage_configs(&self) -> Arc<str> {
        Arc::clone(&self.shared.storage_configs.lock())
    }

    /// What the cluster knows of the instance, which may have been registered by another process
    /// with the same values.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn registered(&self) -> Result<Reply<InstanceSpec>, Error> {
        let request = GetInstanceInfoRequest {
            instance_id: self.id().to_owned(),
            ..GetInstanceInfoRequest::default()
        };
        let answer = self.call(INFO, request.encode_to_vec()).await?;
        let response = GetInstanceInfoResponse::decode(answer.body).map_err(|_| garbled(INFO))?;
        let info = response.instance_info.ok_or_else(|| garbled(INFO))?;
        let spec = InstanceSpec::from_wire(response.instance_group, info);
        Ok(Reply::new(spec, answer.meta))
    }

    /// Where the longest stored prefix of `blocks` lies: as many entries as blocks are stored.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn locate<'a>(&self, blocks: impl Into<Blocks<'a>>) -> Result<Locations, Error> {
        self.locate_with(blocks, &Query::prefix()).await
    }

    /// Where `blocks` lie, by the rules of `query`.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn locate_with<'a>(
        &self,
        blocks: impl Into<Blocks<'a>>,
        query: &Query,
    ) -> Result<Locations, Error> {
        let request = query.to_wire(self.id(), blocks.into());
        let answer = self.call(LOCATE, request.encode_to_vec()).await?;
        Locations::read(answer.body, 2, answer.meta).map_err(|_| garbled(LOCATE))
    }

    /// How many of `blocks` are stored, by the rules of `query`; cheaper than their locations.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn locate_len<'a>(
        &self,
        blocks: impl Into<Blocks<'a>>,
        query: &Query,
    ) -> Result<Reply<u64>, Error> {
        let (block_keys, token_ids) = blocks.into().to_wire();
        let request = GetCacheLocationLenRequest {
            instance_id: self.id().to_owned(),
            query_type: query.query_type(),
            block_keys,
            token_ids,
            sw_size: query.window(),
            ..GetCacheLocationLenRequest::default()
        };
        let answer = self.call(LOCATE_LEN, request.encode_to_vec()).await?;
        let response =
            GetCacheLocationLenResponse::decode(answer.body).map_err(|_| garbled(LOCATE_LEN))?;
        let len = u64::try_from(response.cache_location_len).map_err(|_| garbled(LOCATE_LEN))?;
        Ok(Reply::new(len, answer.meta))
    }

    /// Locations and states of `blocks`, whatever their states; one entry per block.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn states<'a>(&self, blocks: impl Into<Blocks<'a>>) -> Result<BlockStates, Error> {
        let (block_keys, token_ids) = blocks.into().to_wire();
        let request = GetCacheMetaRequest {
            instance_id: self.id().to_owned(),
            block_keys,
            token_ids,
            ..GetCacheMetaRequest::default()
        };
        let answer = self.call(STATES, request.encode_to_vec()).await?;
        BlockStates::read(answer).map_err(|_| garbled(STATES))
    }

    /// Stores blocks: reserves places for those of `blocks` that are not stored, has `write` write
    /// there, and confirms what it says it has written.
    ///
    /// `write` gets the places, and is not called when there is nothing to write. It is called
    /// again, with new places, when the leader that kept the session is gone and the session with
    /// it. When the future is dropped, or `write` says that it wrote nothing, the places are given
    /// up.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn write_blocks<'a, F>(
        &self,
        blocks: impl Into<Blocks<'a>>,
        options: &WriteOptions,
        write: impl FnMut(NewBlocks) -> F,
    ) -> Result<WriteReport, Error>
    where
        F: Future<Output = Written>,
    {
        write_blocks(self, blocks.into(), options, write).await
    }

    /// Reserves places for those of `blocks` that are neither stored nor being written.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn begin_write<'a>(
        &self,
        blocks: impl Into<Blocks<'a>>,
    ) -> Result<WriteSession, Error> {
        self.begin_write_with(blocks, &WriteOptions::default())
            .await
    }

    /// As [`begin_write`](Self::begin_write), with options.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn begin_write_with<'a>(
        &self,
        blocks: impl Into<Blocks<'a>>,
        options: &WriteOptions,
    ) -> Result<WriteSession, Error> {
        let blocks = blocks.into();
        let request = options.to_wire(self.id(), blocks);
        let answer = self.call(START_WRITE, request.encode_to_vec()).await?;
        let count = blocks.count(self.shared.spec.block_size);
        WriteSession::open(self.clone(), count, answer)
    }

    /// Forgets `blocks`. The server answers before their bytes are gone.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn remove<'a>(&self, blocks: impl Into<Blocks<'a>>) -> Result<Reply<()>, Error> {
        let (block_keys, token_ids) = blocks.into().to_wire();
        let request = RemoveCacheRequest {
            instance_id: self.id().to_owned(),
            block_keys,
            token_ids,
            ..RemoveCacheRequest::default()
        };
        let answer = self.call(REMOVE, request.encode_to_vec()).await?;
        Ok(Reply::new((), answer.meta))
    }

    /// Forgets every block of the instance. Blocks written meanwhile may stay.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn trim(&self) -> Result<Reply<()>, Error> {
        let request = TrimCacheRequest {
            instance_id: self.id().to_owned(),
            strategy: TrimStrategy::TsRemoveAllCache.into(),
            ..TrimCacheRequest::default()
        };
        let answer = self.call(TRIM, request.encode_to_vec()).await?;
        Ok(Reply::new((), answer.meta))
    }

    /// Calls the leader, and registers the instance there first when it turns out unknown.
    pub(crate) async fn call(&self, rpc: Rpc, body: Vec<u8>) -> Result<Answer, Error> {
        let result = self.shared.call(rpc, body.into(), self.deadline).await;
        self.counted(result)
    }

    fn counted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        let counters = &self.shared.core.counters;
        count(&counters.calls);
        if result.is_err() {
            count(&counters.errors);
        }
        result
    }
}

impl Shared {
    async fn call(&self, rpc: Rpc, body: Bytes, time: Duration) -> Result<Answer, Error> {
        let started = Instant::now();
        let deadline = started + time;
        let mut registrations_left = REREGISTRATIONS_MAX;
        loop {
            let seen = self.registrations.load(Ordering::Acquire);
            let call = Call::new(rpc, body.clone(), deadline);
            match self.core.call(&call).await {
                Ok(mut answer) => {
                    answer.meta.elapsed = started.elapsed();
                    return Ok(answer);
                }
                Err(error)
                    if error.kind() == ErrorKind::InstanceNotExist && registrations_left > 0 =>
                {
                    registrations_left -= 1;
                    self.register_again(seen, deadline).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Registers unless somebody did so since registration number `seen`.
    async fn register_again(&self, seen: u64, deadline: Instant) -> Result<(), Error> {
        let _turn = self.registering.lock().await;
        if self.registrations.load(Ordering::Acquire) != seen {
            return Ok(());
        }
        tracing::info!(
            instance = self.spec.id,
            "registering again on a leader that lost it"
        );
        self.register(deadline).await?;
        count(&self.core.counters.reregistrations);
        Ok(())
    }

    async fn register(&self, deadline: Instant) -> Result<(), Error> {
        let body = self.spec.to_wire().encode_to_vec().into();
        let answer = self.core.call(&Call::new(REGISTER, body, deadline)).await?;
        let response =
            RegisterInstanceResponse::decode(answer.body).map_err(|_| garbled(REGISTER))?;
        *self.storage_configs.lock() = response.storage_configs.into();
        self.registrations.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

impl Call {
    fn new(rpc: Rpc, body: Bytes, deadline: Instant) -> Self {
        Self {
            service: Service::Meta,
            name: rpc.name,
            path: rpc.path,
            body,
            mutating: rpc.mutating,
            deadline,
        }
    }
}

/// The server said OK, but what it said otherwise cannot be read.
pub(crate) fn garbled(rpc: Rpc) -> Error {
    let outcome = if rpc.mutating {
        Outcome::Unknown
    } else {
        Outcome::NotDone
    };
    let why = "the reply cannot be read: server and client do not fit";
    Error::new(ErrorKind::Transport, outcome, rpc.name, why)
}
