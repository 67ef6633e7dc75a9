//! Answers that are written at once, beside the generated code's.

use std::{collections::BTreeSet, sync::Arc};

use kvcm_cache::{
    Blocks, CacheManager, FinishRequest, LocateRequest, Mask, QueryType, Skipped, StartRequest,
    Surroundings,
};
use kvcm_clock::ManualClock;
use kvcm_fence::{Claim, Epoch, Incarnation};
use kvcm_journal::{Journal as _, MemoryJournal};
use kvcm_proto::{json::to_json, meta};
use kvcm_registry::{
    FileSpec, Group, LocationSpecGroup, LocationSpecInfo, ModelDeployment, MooncakeSpec,
    Registration, Registry, Storage, StorageSpec,
};
use proptest::{collection::vec, option, prelude::*, sample::subsequence};
use prost::{Message, Name};

use super::*;
use crate::{
    cluster::{Hint, LeaderInfo},
    node::Endpoint,
    reply::{Code, Header, Reply},
};

/// Instances of one group and one storage each.
const INSTANCES: [&str; 3] = ["files", "shared", "mooncake"];
/// One name is more than a length of one byte can tell; others want escapes.
const SPECS: [&str; 4] = ["tp0", "ü\"\\/", LONG, "t p"];
const LONG: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn storage(name: &str) -> Storage {
    let file = |key_count_per_file| {
        StorageSpec::File(FileSpec {
            // An odd name in a directory that is there.
            root_path: format!("{}/kvcm n f\"s \\ü", std::env::temp_dir().display()),
            key_count_per_file,
        })
    };
    let spec = match name {
        "files" => file(1),
        "shared" => file(12),
        _ => StorageSpec::Mooncake(MooncakeSpec {
            local_hostname: "h".into(),
            metadata_connstring: "m".into(),
            protocol: "tcp".into(),
            rdma_device: String::new(),
            master_server_entry: "e".into(),
        }),
    };
    Storage {
        name: name.into(),
        is_available: true,
        check_when_open: false,
        spec,
    }
}

fn group(name: &str) -> Group {
    let mut group = Group {
        name: name.into(),
        storage_candidates: vec![name.into()],
        global_quota_group_name: "q".into(),
        version: 1,
        ..Group::default()
    };
    group.quota.capacity = 1 << 40;
    group.cache_config.cache_prefer_strategy = 2;
    group.cache_config.reclaim_strategy.storage_unique_name = name.into();
    group.cache_config.meta_indexer_config.mutex_shard_num = 1;
    group.cache_config.meta_indexer_config.max_key_count = 1_000_000;
    group
}

fn registration(name: &str, specs: usize) -> Registration {
    let specs = &SPECS[..specs];
    let all = specs.iter().map(|name| (*name).into());
    let spec_group = |name: &str, spec_names: Vec<String>| LocationSpecGroup {
        name: name.into(),
        spec_names,
    };
    Registration {
        group: name.into(),
        id: name.into(),
        block_size: 2,
        location_spec_infos: (1..)
            .zip(specs)
            .map(|(size, name)| LocationSpecInfo {
                name: (*name).into(),
                size: size * 1000,
            })
            .collect(),
        model_deployment: Some(ModelDeployment {
            model_name: "m".into(),
            dtype: "fp8".into(),
            ..Default::default()
        }),
        location_spec_groups: vec![
            spec_group("last", all.clone().next_back().into_iter().collect()),
            spec_group("most", all.skip(usize::from(specs.len() > 1)).collect()),
        ],
        default_query_type: 2,
    }
}

async fn manager(specs: usize) -> CacheManager {
    let claim = Claim {
        cluster: "c".parse().unwrap(),
        epoch: Epoch::new(0xabcd).unwrap(),
        incarnation: Incarnation::from_bits(1),
    };
    let config = kvcm_cache::Config::default();
    let claimed = MemoryJournal::new("registry");
    let writer = claimed.claim(claim.clone(), config.journal_timeout).await;
    let (registry, _) = Registry::open(writer.unwrap()).await.unwrap();
    for name in INSTANCES {
        registry.add_storage(storage(name)).await.unwrap();
        registry.create_group(group(name)).await.unwrap();
        let registered = registry.register_instance(registration(name, specs));
        registered.await.unwrap();
    }
    let claimed = MemoryJournal::new("cache");
    let writer = claimed.claim(claim, config.journal_timeout).await.unwrap();
    let clock = Arc::new(ManualClock::default());
    let surroundings = Surroundings::new(Arc::new(registry), clock, config);
    let opened = CacheManager::open(surroundings, writer);
    opened.await.unwrap().0
}

/// Keys that are written at once, and how.
#[derive(Clone, Debug)]
struct Write {
    instance: usize,
    keys: Vec<i64>,
    /// Number of a spec group for each key, or none for all specs.
    groups: Option<Vec<usize>>,
    replicas: i32,
}

#[derive(Clone, Debug)]
struct Look {
    instance: usize,
    query: QueryType,
    keys: Vec<i64>,
    window: usize,
    bools: Option<Vec<bool>>,
    specs: Vec<&'static str>,
}

fn key() -> impl Strategy<Value = i64> {
    // Few, so that they are found; of all lengths in hexadecimal digits.
    prop_oneof![
        3 => (0i64..20).prop_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)),
        1 => (0u32..16).prop_map(|digits| 1i64 << (4 * digits)),
        1 => -2i64..3,
    ]
}

fn write() -> impl Strategy<Value = Write> {
    let keys = vec(key(), 1..40);
    // So many that their entries are not copied all at once.
    let many = vec(any::<i64>(), 100..200);
    let keys = prop_oneof![8 => keys.boxed(), 1 => many.boxed()].prop_map(|keys| {
        let keys: BTreeSet<_> = keys.into_iter().collect();
        keys.into_iter().collect()
    });
    let groups = prop_oneof![2 => Just(None), 1 => vec(0usize..3, 200).prop_map(Some)];
    (0..INSTANCES.len(), keys, groups, 0i32..3).prop_map(|(instance, keys, groups, replicas)| {
        Write {
            instance,
            keys,
            groups,
            replicas,
        }
    })
}

fn look() -> impl Strategy<Value = Look> {
    let query = prop_oneof![
        Just(QueryType::BatchGet),
        Just(QueryType::PrefixMatch),
        Just(QueryType::ReverseRollWindow),
    ];
    let specs = subsequence(vec!["tp0", "t p", "x", LONG], 0..3);
    let keys = vec(key(), 1..60);
    let bools = option::of(vec(any::<bool>(), 0..60));
    (0..INSTANCES.len(), query, keys, 1usize..4, bools, specs).prop_map(
        |(instance, query, keys, window, bools, specs)| Look {
            instance,
            query,
            window: window.min(keys.len()),
            keys,
            bools,
            specs,
        },
    )
}

fn header() -> impl Strategy<Value = Header> {
    let text = "[a-z\"\\\\\u{1}/ü😀\u{7f}]{0,6}";
    let hint = (text, option::of(text), any::<u32>()).prop_map(|(node_id, host, epoch)| Hint {
        leader: LeaderInfo {
            node_id: node_id.clone(),
            endpoint: host.map(|host| Endpoint {
                node_id,
                host,
                meta_rpc_port: 6381,
                ..Endpoint::default()
            }),
            epoch: Epoch::new(epoch.into()).unwrap(),
            phase: "serving",
            age: std::time::Duration::from_millis(7),
        },
        retry_after: std::time::Duration::from_millis(3),
        reason: "follower",
    });
    let epoch = option::of((0u64..1 << 53).prop_map(|epoch| Epoch::new(epoch).unwrap()));
    let code = prop_oneof![Just(Code::Ok), Just(Code::NotLeader), Just(Code::Io)];
    // The long ones need more than the room that is left for them.
    let long = prop_oneof![4 => Just(0), 1 => 300usize..600];
    let cluster = option::of(text);
    (code, text, (text, long), option::of(hint), epoch, cluster).prop_map(
        |(code, message, (request_id, long), hint, epoch, cluster_id)| Header {
            code,
            message,
            request_id: request_id + &"x".repeat(long),
            hint,
            epoch,
            cluster_id,
        },
    )
}

/// The generated message in a frame.
fn framed(message: &impl Message) -> Vec<u8> {
    let message = message.encode_to_vec();
    let mut bytes = vec![0];
    bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&message);
    bytes
}

/// Compares JSON texts.
fn compare_json<T, G>(
    mut written: Written<Json<T>>,
    generated: &mut G,
    header: &Header,
) -> Result<(), TestCaseError>
where
    T: json::Text + Send + Sync + 'static,
    G: Reply + Message + Name,
{
    written.set_header(header.clone());
    generated.set_header(header.clone());
    same_text(&written.into_json(), generated)
}

fn same_text(text: &[u8], generated: &impl Name) -> Result<(), TestCaseError> {
    let expected = String::from_utf8(to_json(generated).unwrap()).unwrap();
    prop_assert_eq!(String::from_utf8_lossy(text), expected);
    Ok(())
}

/// Compares what is left of an answer when its locations are in.
fn compare<const LOCATIONS: u8, G>(
    mut written: Written<Protobuf<LOCATIONS>>,
    mut generated: G,
    header: &Header,
) -> Result<(), TestCaseError>
where
    G: Reply + Message + Default,
{
    written.set_header(header.clone());
    generated.set_header(header.clone());
    let expected = framed(&generated);
    for frame in [written.into_frame(), generated.into_frame()] {
        let frame = frame.unwrap();
        prop_assert_eq!(frame.message(), &expected[..]);
    }
    Ok(())
}

async fn start(cache: &CacheManager, write: &Write, header: &Header) -> Result<(), TestCaseError> {
    let groups = ["", "last", "most"];
    let groups: Vec<String> = match &write.groups {
        None => Vec::new(),
        Some(of) => {
            let of = of.iter().zip(&write.keys);
            of.map(|(group, _)| groups[*group].to_owned()).collect()
        }
    };
    let instance_id = INSTANCES[write.instance];
    let request = StartRequest {
        instance_id,
        blocks: Blocks::keys(&write.keys),
        spec_group_names: &groups,
        write_timeout_seconds: 60,
        min_replica_count: write.replicas,
        request: None,
    };
    let started = cache.start_write(&request).await.unwrap();
    let id = started.session_id.to_string();
    fn answer<R: StartReply>(id: &str, started: &kvcm_cache::Started) -> R {
        let mut answer = R::default();
        answer.begin(id, started.skipped.clone());
        started.granted.write_to(&mut answer.sink());
        answer
    }
    let mut generated: meta::StartWriteCacheResponse = answer(&id, &started);
    prop_assert_eq!(generated.locations.len(), started.granted.len());
    let written: Written<Json<meta::StartWriteCacheResponse>> = answer(&id, &started);
    compare_json(written, &mut generated, header)?;
    compare(
        answer::<Written<Protobuf<4>>>(&id, &started),
        generated,
        header,
    )?;
    let mask = Mask::Offset(i32::try_from(started.granted.len()).unwrap());
    let finish = FinishRequest {
        instance_id,
        session_id: &id,
        success_blocks: Some(mask),
        request: None,
    };
    cache.finish_write(&finish).await.unwrap();
    Ok(())
}

fn locate(cache: &CacheManager, look: &Look, header: &Header) -> Result<usize, TestCaseError> {
    let specs: Vec<String> = look.specs.iter().map(|name| (*name).to_owned()).collect();
    let request = LocateRequest {
        instance_id: INSTANCES[look.instance],
        query: look.query,
        blocks: Blocks::keys(&look.keys),
        mask: look
            .bools
            .as_ref()
            .map_or(Mask::None, |bools| Mask::Bools(bools)),
        window: i32::try_from(look.window).unwrap(),
        spec_names: &specs,
    };
    fn answer<R: Locations>(cache: &CacheManager, request: &LocateRequest<'_>) -> (R, usize) {
        let mut answer = R::default();
        // Among replicas all choose the same.
        fastrand::seed(1);
        let hits = cache.locate(request, &mut answer.sink()).unwrap();
        (answer, hits)
    }
    let (mut generated, hits) = answer::<meta::GetCacheLocationResponse>(cache, &request);
    let (written, _) = answer::<Written<Json<meta::GetCacheLocationResponse>>>(cache, &request);
    compare_json(written, &mut generated, header)?;
    let (written, _) = answer::<Written<Protobuf<2>>>(cache, &request);
    compare(written, generated, header)?;
    Ok(hits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_answer_has_the_bytes_of_the_generated_code(
        specs in 1..=SPECS.len(),
        writes in vec((write(), header()), 1..6),
        looks in vec((look(), header()), 1..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(async {
            let cache = manager(specs).await;
            for (write, header) in &writes {
                start(&cache, write, header).await?;
            }
            // What was written is asked for as well as what comes.
            for ((write, header), (look, _)) in writes.iter().zip(&looks) {
                let (instance, keys) = (write.instance, write.keys.clone());
                let look = Look { instance, keys, window: 1, ..look.clone() };
                let hits = locate(&cache, &look, header)?;
                prop_assert!(hits > 0 || look.query == QueryType::PrefixMatch);
            }
            for (look, header) in &looks {
                locate(&cache, look, header)?;
            }
            Ok(())
        })?;
    }
}

proptest! {
    #[test]
    fn answers_without_locations_are_those_of_the_generated_code(
        header in header(), length: i64, bools in vec(any::<bool>(), 0..5)
    ) {
        let mut located = meta::GetCacheLocationResponse::default();
        compare_json(Written::<Json<meta::GetCacheLocationResponse>>::default(), &mut located, &header)?;
        compare(Written::<Protobuf<2>>::default(), located, &header)?;
        let mut started = meta::StartWriteCacheResponse::default();
        let mut written = Written::<Json<meta::StartWriteCacheResponse>>::default();
        compare_json(written, &mut started, &header)?;
        // A mask can have no values, and a write no new keys.
        written = Written::default();
        let mut sink_only = Written::<Protobuf<4>>::default();
        let skipped = Skipped::Bools(bools);
        written.begin("s", skipped.clone());
        started.begin("s", skipped.clone());
        sink_only.begin("s", skipped);
        drop((written.sink(), sink_only.sink()));
        compare_json(written, &mut started, &header)?;
        compare(sink_only, started, &header)?;
        let mut finished = meta::CommonResponse::default();
        finished.set_header(header.clone());
        same_text(&finished.clone().into_json(), &finished)?;
        let mut counted = meta::GetCacheLocationLenResponse {
            cache_location_len: length,
            header: None,
        };
        counted.set_header(header);
        same_text(&counted.clone().into_json(), &counted)?;
    }
}
