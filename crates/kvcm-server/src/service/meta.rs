//! MetaService: what inference engines call.

use kvcm_cache::{
    Blocks, ErrorKind, FinishRequest, LocateLenRequest, LocateRequest, MetaRequest, QueryType,
    RemoveRequest, RequestOutcome, StartRequest, Started, TrimRequest, TrimStrategy,
};
use kvcm_journal::RequestKey;
use kvcm_proto::meta;

use super::{Services, leader_only::said_all};
use crate::{
    convert::{self, blocks, meta::mask},
    hot::{Locations, StartReply},
    http::CallContext,
    reign::Reign,
    reply::{CallError, Header, millis},
    turn::Turn,
};

/// Nodes of a cluster that a client is told of.
const NODES_MAX: usize = 64;

impl Services {
    /// Registers a deployment, or finds it again.
    pub(crate) async fn register_instance(
        &self,
        context: &CallContext,
        request: meta::RegisterInstanceRequest,
    ) -> meta::RegisterInstanceResponse {
        let trace_id = request.trace_id.clone();
        let work = async |reign: Turn, request: meta::RegisterInstanceRequest| {
            let registered = reign
                .registry
                .register_instance(convert::meta::registration(request))
                .await;
            let registered = registered.map_err(|error| reign.registry_error(&error))?;
            Ok(registered_in(&reign, &registered.instance.group))
        };
        let again = |reign: &Reign, request: &meta::RegisterInstanceRequest, _| {
            Ok(registered_in(reign, &request.instance_group))
        };
        self.write(context, "RegisterInstance", &trace_id, request, work, again)
            .await
    }

    /// The description under which a deployment is registered.
    pub(crate) fn get_instance_info(
        &self,
        context: &CallContext,
        request: meta::GetInstanceInfoRequest,
    ) -> meta::GetInstanceInfoResponse {
        self.read(context, &request.trace_id, |reign| {
            let instance = reign.instance(&request.instance_id)?;
            Ok(meta::GetInstanceInfoResponse {
                instance_group: instance.group.clone(),
                instance_info: Some(convert::meta::instance_info(&instance)),
                header: None,
            })
        })
    }

    /// Where the cache of some blocks lives.
    pub(crate) fn get_cache_location<R: Locations>(
        &self,
        context: &CallContext,
        request: meta::GetCacheLocationRequest,
    ) -> R {
        self.read(context, &request.trace_id, |reign| {
            let blocks = blocks(&request.block_keys, &request.token_ids);
            let query = query_type(request.query_type, &request.instance_id, blocks)?;
            let lookup = LocateRequest {
                instance_id: &request.instance_id,
                query,
                blocks,
                mask: mask(request.block_mask.as_ref()),
                window: request.sw_size,
                spec_names: &request.location_spec_names,
            };
            let mut reply = R::default();
            let found = reign
                .cache(&request.instance_id)?
                .locate(&lookup, &mut reply.sink())?;
            self.metrics
                .lookups()
                .count(asked(reign, &request.instance_id, blocks), found);
            Ok(reply)
        })
    }

    /// How many blocks a lookup would find.
    pub(crate) fn get_cache_location_len(
        &self,
        context: &CallContext,
        request: meta::GetCacheLocationLenRequest,
    ) -> meta::GetCacheLocationLenResponse {
        self.read(context, &request.trace_id, |reign| {
            let blocks = blocks(&request.block_keys, &request.token_ids);
            let query = query_type(request.query_type, &request.instance_id, blocks)?;
            let found = reign
                .cache(&request.instance_id)?
                .locate_len(&LocateLenRequest {
                    instance_id: &request.instance_id,
                    query,
                    blocks,
                    window: request.sw_size,
                })?;
            self.metrics
                .lookups()
                .count(asked(reign, &request.instance_id, blocks), found);
            let cache_location_len = i64::try_from(found).unwrap_or(i64::MAX);
            Ok(meta::GetCacheLocationLenResponse {
                cache_location_len,
                header: None,
            })
        })
    }

    /// Locations and state of some blocks, whatever their state.
    pub(crate) fn get_cache_meta(
        &self,
        context: &CallContext,
        request: meta::GetCacheMetaRequest,
    ) -> meta::GetCacheMetaResponse {
        self.read(context, &request.trace_id, |reign| {
            let lookup = MetaRequest {
                instance_id: &request.instance_id,
                blocks: blocks(&request.block_keys, &request.token_ids),
                mask: mask(request.block_mask.as_ref()),
            };
            let mut reply = meta::GetCacheMetaResponse::default();
            reign.cache(&request.instance_id)?.meta(&lookup, |answer| {
                reply.locations.push(convert::meta::location(&answer.view));
                reply.metas.push(answer.to_json());
            })?;
            Ok(reply)
        })
    }

    /// First phase of a write.
    pub(crate) async fn start_write_cache<R: StartReply>(
        &self,
        context: &CallContext,
        request: meta::StartWriteCacheRequest,
    ) -> R {
        let trace_id = request.trace_id.clone();
        let work = async |reign: Turn, request: meta::StartWriteCacheRequest| {
            let cache = reign.cache(&request.instance_id)?;
            let begun = cache
                .start_write(&start_request(&request, reign.request))
                .await;
            Ok(started(begun.map_err(|error| reign.cache_error(error))?))
        };
        let again = |reign: &Reign, request: &meta::StartWriteCacheRequest, outcome| {
            let cache = reign.cache(&request.instance_id)?;
            // Never done without a record of what was granted.
            let outcome = Option::unwrap_or(outcome, RequestOutcome::Done);
            let begun = cache.started_again(&start_request(request, None), &outcome);
            Ok(started(begun.map_err(|error| reign.cache_error(error))?))
        };
        self.write(context, "StartWriteCache", &trace_id, request, work, again)
            .await
    }

    /// Second phase of a write.
    pub(crate) async fn finish_write_cache(
        &self,
        context: &CallContext,
        request: meta::FinishWriteCacheRequest,
    ) -> meta::CommonResponse {
        let trace_id = request.trace_id.clone();
        let work = async |reign: Turn, request: meta::FinishWriteCacheRequest| {
            let finish = FinishRequest {
                instance_id: &request.instance_id,
                session_id: &request.write_session_id,
                success_blocks: request
                    .success_blocks
                    .as_ref()
                    .map(|blocks| mask(Some(blocks))),
                request: reign.request,
            };
            let finished = reign
                .cache(&request.instance_id)?
                .finish_write(&finish)
                .await;
            finished.map_err(|error| reign.cache_error(error))?;
            Ok(meta::CommonResponse::default())
        };
        self.write(
            context,
            "FinishWriteCache",
            &trace_id,
            request,
            work,
            said_all,
        )
        .await
    }

    /// Removes some blocks.
    pub(crate) async fn remove_cache(
        &self,
        context: &CallContext,
        request: meta::RemoveCacheRequest,
    ) -> meta::CommonResponse {
        let trace_id = request.trace_id.clone();
        let work = async |reign: Turn, request: meta::RemoveCacheRequest| {
            let remove = RemoveRequest {
                instance_id: &request.instance_id,
                blocks: blocks(&request.block_keys, &request.token_ids),
                request: reign.request,
            };
            let removed = reign.cache(&request.instance_id)?.remove(&remove).await;
            removed.map_err(|error| reign.cache_error(error))?;
            Ok(meta::CommonResponse::default())
        };
        self.write(context, "RemoveCache", &trace_id, request, work, said_all)
            .await
    }

    /// Removes many blocks of a deployment at once.
    pub(crate) async fn trim_cache(
        &self,
        context: &CallContext,
        request: meta::TrimCacheRequest,
    ) -> meta::CommonResponse {
        let trace_id = request.trace_id.clone();
        let work = async |reign: Turn, request: meta::TrimCacheRequest| {
            let strategy = TrimStrategy::from_number(request.strategy);
            let missing = [
                ("instance_id", request.instance_id.is_empty()),
                ("strategy", is_invalid(&strategy)),
            ];
            let trim = TrimRequest {
                instance_id: &request.instance_id,
                strategy: valid(strategy, &missing)?,
                request: reign.request,
            };
            let trimmed = reign.cache(&request.instance_id)?.trim(&trim).await;
            trimmed.map_err(|error| reign.cache_error(error))?;
            Ok(meta::CommonResponse::default())
        };
        self.write(context, "TrimCache", &trace_id, request, work, said_all)
            .await
    }

    /// Who leads. Any node answers, from memory.
    pub(crate) fn get_cluster_info(
        &self,
        _context: &CallContext,
        request: meta::GetClusterInfoRequest,
    ) -> meta::GetClusterInfoResponse {
        let leader = self.cluster.leader();
        let known = !leader.node_id.is_empty();
        let mut header = Header::ok(&request.trace_id);
        header.cluster_id = self.cluster.id().map(|id| id.to_string());
        meta::GetClusterInfoResponse {
            header: Some(header.into()),
            self_node_id: self.cluster.node().endpoint.node_id.clone(),
            leader_epoch: known.then(|| leader.epoch.get()),
            info_age_ms: known.then(|| millis(leader.age)),
            leader_node_id: leader.node_id,
            leader_endpoint: leader.endpoint.map(Into::into),
            self_role: Some(self.cluster.role().as_str().to_owned()),
            nodes: self.living_nodes(),
        }
    }

    /// As many as a client can use.
    fn living_nodes(&self) -> Vec<meta::NodeEndpoint> {
        let roster = self.cluster.members().roster();
        let living = roster.at(self.cluster.now()).filter(|(_, alive)| *alive);
        let own = &self.cluster.node().endpoint;
        let others = living.map(|(member, _)| &member.record.endpoint);
        let others = others.filter(|other| other.node_id != own.node_id);
        let all = std::iter::once(own).chain(others).take(NODES_MAX);
        all.map(|node| node.clone().into()).collect()
    }
}

/// The answer to a registration.
fn registered_in(reign: &Reign, group: &str) -> meta::RegisterInstanceResponse {
    let group = reign.registry.group(group);
    let group = group.as_deref();
    meta::RegisterInstanceResponse {
        storage_configs: group.map_or_else(String::new, |group| {
            let available = |storage: &_| reign.storages.is_available(storage);
            reign.registry.storage_configs_json(group, available)
        }),
        extra_info: group
            .map(|group| group.extra_info.clone())
            .filter(|text| !text.is_empty()),
        header: None,
    }
}

/// What StartWriteCache asks for.
fn start_request(
    request: &meta::StartWriteCacheRequest,
    key: Option<RequestKey>,
) -> StartRequest<'_> {
    StartRequest {
        instance_id: &request.instance_id,
        blocks: blocks(&request.block_keys, &request.token_ids),
        spec_group_names: &request.location_spec_group_names,
        write_timeout_seconds: request.write_timeout_seconds,
        min_replica_count: request.min_replica_count(),
        request: key,
    }
}

/// The answer to it.
fn started<R: StartReply>(started: Started) -> R {
    let mut reply = R::default();
    reply.begin(&started.session_id.to_string(), started.skipped);
    started.granted.write_to(&mut reply.sink());
    reply
}

/// Reads a query type; when other fields are missing too, all of them are named at once.
fn query_type(number: i32, instance_id: &str, blocks: Blocks<'_>) -> Result<QueryType, CallError> {
    let query = QueryType::from_number(number);
    let missing = [
        ("instance_id", instance_id.is_empty()),
        ("query_type", is_invalid(&query)),
        ("block_keys or token_ids", blocks == Blocks::default()),
    ];
    valid(query, &missing)
}

fn is_invalid<T>(result: &kvcm_cache::Result<T>) -> bool {
    let kind = result.as_ref().err().map(kvcm_cache::Error::kind);
    kind == Some(ErrorKind::InvalidArgument)
}

/// The value that was read, unless several fields are missing; alone its own error tells more.
fn valid<T>(
    result: kvcm_cache::Result<T>,
    missing: &[(&'static str, bool)],
) -> Result<T, CallError> {
    let missing = missing.iter().filter(|(_, missing)| *missing);
    let missing: Vec<_> = missing.map(|(field, _)| *field).collect();
    match missing[..] {
        [_, _, ..] => Err(CallError::missing(&missing)),
        _ => result.map_err(Into::into),
    }
}

/// How many keys a lookup asks for.
fn asked(reign: &Reign, instance_id: &str, blocks: Blocks<'_>) -> usize {
    if !blocks.keys.is_empty() {
        return blocks.keys.len();
    }
    let instance = reign.registry.instance(instance_id);
    let block_size = instance.and_then(|instance| usize::try_from(instance.block_size).ok());
    block_size.map_or(0, |size| blocks.tokens.len() / size.max(1))
}
