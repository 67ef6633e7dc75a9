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
    GetCacheLocationLenRequest, GetCacheLocationLenResponse, RegisterInstanceResponse,
    RemoveCacheRequest, TrimCacheRequest, TrimStrategy,
};
use parking_lot::Mutex;
use prost::Message;
use tokio::time::Instant;

use crate::{
    call::{Answer, Call},
    core::Core,
    error::{Error, ErrorKind, Outcome},
    locations::Locations,
    query::Query,
    reply::Reply,
    spec::InstanceSpec,
    stats::count,
    write::{WriteOptions, WriteSession},
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

    /// Where the longest stored prefix of `keys` lies: as many entries as blocks are stored.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn locate(&self, keys: &[i64]) -> Result<Locations, Error> {
        self.locate_with(keys, &Query::prefix()).await
    }

    /// Where `keys` lie, by the rules of `query`.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn locate_with(&self, keys: &[i64], query: &Query) -> Result<Locations, Error> {
        let request = query.to_wire(self.id(), keys);
        let answer = self.call(LOCATE, request.encode_to_vec()).await?;
        Locations::read(answer.body, 2, answer.meta).map_err(|_| garbled(LOCATE))
    }

    /// How many of `keys` are stored, by the rules of `query`; cheaper than their locations.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn locate_len(&self, keys: &[i64], query: &Query) -> Result<Reply<u64>, Error> {
        let request = GetCacheLocationLenRequest {
            instance_id: self.id().to_owned(),
            query_type: query.query_type(),
            block_keys: keys.to_vec(),
            sw_size: query.window(),
            ..GetCacheLocationLenRequest::default()
        };
        let answer = self.call(LOCATE_LEN, request.encode_to_vec()).await?;
        let response =
            GetCacheLocationLenResponse::decode(answer.body).map_err(|_| garbled(LOCATE_LEN))?;
        let len = u64::try_from(response.cache_location_len).map_err(|_| garbled(LOCATE_LEN))?;
        Ok(Reply::new(len, answer.meta))
    }

    /// Reserves places for those of `keys` that are neither stored nor being written.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn begin_write(&self, keys: &[i64]) -> Result<WriteSession, Error> {
        self.begin_write_with(keys, &WriteOptions::default()).await
    }

    /// As [`begin_write`](Self::begin_write), with options.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn begin_write_with(
        &self,
        keys: &[i64],
        options: &WriteOptions,
    ) -> Result<WriteSession, Error> {
        let request = options.to_wire(self.id(), keys);
        let answer = self.call(START_WRITE, request.encode_to_vec()).await?;
        WriteSession::open(self.clone(), keys.len(), answer)
    }

    /// Forgets `keys`. The server answers before their bytes are gone.
    ///
    /// # Errors
    /// As any call: see [`ErrorKind`].
    pub async fn remove(&self, keys: &[i64]) -> Result<Reply<()>, Error> {
        let request = RemoveCacheRequest {
            instance_id: self.id().to_owned(),
            block_keys: keys.to_vec(),
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
