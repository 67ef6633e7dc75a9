//! The blocks that are there before anything is measured.

use anyhow::ensure;
use bytes::Bytes;
use kvcm_proto::meta;
use kvcm_testkit::RedisServer;
use kvcm_trace::Expansion;

use crate::serve::{
    Options, Over, body,
    client::{Client, Rpc},
    redis,
    server::Server,
};

/// The instance that they belong to.
pub(super) const INSTANCE: &str = "bench";
/// Keys of a chain, which are written together and asked for together.
pub(super) const CHAIN: usize = 1000;

/// The keys of chain number `chain`: they look like hashes.
pub(super) fn chain(chain: usize) -> Vec<i64> {
    let ids: Vec<u64> = (0..CHAIN).map(|at| (chain * CHAIN + at) as u64).collect();
    // One key for each id is always possible.
    Expansion::new(1).map_or_else(|_| Vec::new(), |one| one.keys(&ids))
}

/// Writes all chains to both.
pub(super) async fn load(
    server: &Server,
    redis: &RedisServer,
    options: &Options,
) -> anyhow::Result<()> {
    server.register(INSTANCE).await?;
    let mut ours = Client::connect(Over::Grpc, server.address(Over::Grpc)).await?;
    let mut other = Client::redis(redis.address()).await?;
    for number in 0..options.keys as usize / CHAIN {
        let keys = chain(number);
        let uris = write(&mut ours, Over::Grpc, INSTANCE, &keys).await?;
        ensure!(uris.len() == keys.len(), "chain {number} was there before");
        other
            .call(Rpc::Start, redis::mset(&keys, |at| &uris[at]), 5)
            .await?;
    }
    Ok(())
}

/// Writes keys from start to finish; the URIs of the new ones.
pub(super) async fn write(
    client: &mut Client,
    over: Over,
    instance_id: &str,
    keys: &[i64],
) -> anyhow::Result<Vec<String>> {
    let answer = client
        .call(Rpc::Start, start(over, instance_id, keys)?, 0)
        .await?;
    let started: meta::StartWriteCacheResponse = body::answer(over, &answer.concat())?;
    body::check(started.header.as_ref())?;
    let request = finish(
        over,
        instance_id,
        started.write_session_id,
        started.locations.len(),
    )?;
    let answer = client.call(Rpc::Finish, request, 0).await?;
    let finished: meta::CommonResponse = body::answer(over, &answer.concat())?;
    body::check(finished.header.as_ref())?;
    let locations = started.locations.into_iter();
    let specs = locations.flat_map(|location| location.location_specs);
    Ok(specs.map(|spec| spec.uri).collect())
}

pub(super) fn start(over: Over, instance_id: &str, keys: &[i64]) -> anyhow::Result<Bytes> {
    let request = meta::StartWriteCacheRequest {
        trace_id: body::trace_id(0),
        instance_id: instance_id.to_owned(),
        block_keys: keys.to_vec(),
        write_timeout_seconds: 60,
        ..Default::default()
    };
    body::request(over, &request)
}

pub(super) fn finish(
    over: Over,
    instance_id: &str,
    write_session_id: String,
    count: usize,
) -> anyhow::Result<Bytes> {
    let info = meta::block_mask::Info::Offset(i32::try_from(count)?);
    let request = meta::FinishWriteCacheRequest {
        trace_id: body::trace_id(0),
        instance_id: instance_id.to_owned(),
        write_session_id,
        success_blocks: Some(meta::BlockMask { info: Some(info) }),
        ..Default::default()
    };
    body::request(over, &request)
}

pub(super) fn lookup(
    over: Over,
    instance_id: &str,
    number: usize,
    keys: Vec<i64>,
) -> anyhow::Result<Bytes> {
    let request = meta::GetCacheLocationRequest {
        trace_id: body::trace_id(number),
        instance_id: instance_id.to_owned(),
        query_type: meta::QueryType::QtPrefixMatch.into(),
        block_keys: keys,
        ..Default::default()
    };
    body::request(over, &request)
}
