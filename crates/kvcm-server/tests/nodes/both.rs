//! One call over either protocol, and the comparison of answers.

use std::collections::BTreeMap;

use kvcm_proto::{
    admin::admin_service_client::AdminServiceClient,
    debug::debug_service_client::DebugServiceClient,
    json::{from_json, to_json},
    meta::meta_service_client::MetaServiceClient,
};
use kvcm_testkit::Ports;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tonic::transport::Channel;

use crate::{raw::exchange, support::channel};

/// A client that speaks JSON to the test and one of the protocols to the server.
pub(crate) enum Caller {
    Http(Ports),
    Grpc(Box<Clients>),
}

pub(crate) struct Clients {
    meta: MetaServiceClient<Channel>,
    admin: AdminServiceClient<Channel>,
    debug: DebugServiceClient<Channel>,
}

impl Caller {
    pub(crate) async fn grpc(ports: &Ports) -> Self {
        let admin = channel(ports.admin_rpc()).await;
        Self::Grpc(Box::new(Clients {
            meta: MetaServiceClient::new(channel(ports.rpc()).await),
            debug: DebugServiceClient::new(admin.clone()),
            admin: AdminServiceClient::new(admin),
        }))
    }

    /// The protocol's name, which is part of the instance ids: the two see nothing of each other.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Grpc(_) => "grpc",
        }
    }

    pub(crate) async fn call(&mut self, rpc: &str, body: &Value) -> Value {
        self.try_call(rpc, body, None).await.unwrap()
    }

    /// The same with a request id, of a server that may die: an error is a call that was not
    /// answered.
    pub(crate) async fn try_call(
        &mut self,
        rpc: &str,
        body: &Value,
        request_id: Option<&str>,
    ) -> Result<Value, Unanswered> {
        let Clients { meta, admin, debug } = match self {
            Self::Http(ports) => {
                let address = match Service::of(rpc) {
                    Service::Meta => ports.http(),
                    Service::Admin => ports.admin_http(),
                    Service::Debug => ports.debug_http().unwrap(),
                };
                let path = format!("/api/{}", rpc.trim_start_matches(ADMIN));
                let id = request_id.map(|id| format!("{REQUEST_ID}: {id}\r\n"));
                let mut stream = TcpStream::connect(address).await?;
                let head = id.unwrap_or_default();
                let answer = exchange(&mut stream, "POST", &path, &head, &body.to_string()).await?;
                assert_eq!(answer.status, 200, "{rpc}: {answer:?}");
                return Ok(serde_json::from_str(&answer.body)?);
            }
            Self::Grpc(clients) => &mut **clients,
        };
        let body = body.to_string();
        macro_rules! calls {
            ($($name:literal $client:ident $method:ident;)*) => {
                match rpc {
                    $($name => {
                        let mut request = tonic::Request::new(from_json(body.as_bytes()).unwrap());
                        if let Some(id) = request_id {
                            let headers = request.metadata_mut();
                            headers.insert(REQUEST_ID, id.parse().unwrap());
                        }
                        to_json(&$client.$method(request).await?.into_inner()).unwrap()
                    })*
                    other => panic!("no such call: {other}"),
                }
            };
        }
        let answer = calls! {
            "registerInstance" meta register_instance;
            "getInstanceInfo" meta get_instance_info;
            "getCacheLocation" meta get_cache_location;
            "getCacheLocationLen" meta get_cache_location_len;
            "getCacheMeta" meta get_cache_meta;
            "startWriteCache" meta start_write_cache;
            "finishWriteCache" meta finish_write_cache;
            "removeCache" meta remove_cache;
            "trimCache" meta trim_cache;
            "getClusterInfo" meta get_cluster_info;
            "addStorage" admin add_storage;
            "enableStorage" admin enable_storage;
            "disableStorage" admin disable_storage;
            "removeStorage" admin remove_storage;
            "updateStorage" admin update_storage;
            "listStorage" admin list_storage;
            "createInstanceGroup" admin create_instance_group;
            "updateInstanceGroup" admin update_instance_group;
            "removeInstanceGroup" admin remove_instance_group;
            "getInstanceGroup" admin get_instance_group;
            "listInstanceGroup" admin list_instance_group;
            "admin/getCacheMeta" admin get_cache_meta;
            "admin/removeCache" admin remove_cache;
            "admin/registerInstance" admin register_instance;
            "removeInstance" admin remove_instance;
            "admin/getInstanceInfo" admin get_instance_info;
            "listInstanceInfo" admin list_instance_info;
            "addAccount" admin add_account;
            "deleteAccount" admin delete_account;
            "listAccount" admin list_account;
            "genConfigSnapshot" admin gen_config_snapshot;
            "loadConfigSnapshot" admin load_config_snapshot;
            "getMetrics" admin get_metrics;
            "updateLogger" admin update_logger;
            "setCandidacy" admin set_candidacy;
            "injectFault" debug inject_fault;
            "removeFault" debug remove_fault;
            "clearFaults" debug clear_faults;
            "checkHealth" admin check_health;
            "getManagerClusterInfo" admin get_manager_cluster_info;
            "leaderDemote" admin leader_demote;
            "getLeaderElectorConfig" admin get_leader_elector_config;
            "updateLeaderElectorConfig" admin update_leader_elector_config;
        };
        Ok(serde_json::from_slice(&answer).unwrap())
    }
}

/// Why a call was not answered.
pub(crate) type Unanswered = Box<dyn std::error::Error + Send + Sync>;

const REQUEST_ID: &str = "x-kvcm-request-id";

/// In front of the calls of AdminService that MetaService has as well.
pub(crate) const ADMIN: &str = "admin/";

/// Whose a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Meta,
    Admin,
    Debug,
}

impl Service {
    pub(crate) fn of(rpc: &str) -> Self {
        match rpc {
            "injectFault" | "removeFault" | "clearFaults" => Self::Debug,
            "registerInstance"
            | "getInstanceInfo"
            | "getCacheLocation"
            | "getCacheLocationLen"
            | "getCacheMeta"
            | "startWriteCache"
            | "finishWriteCache"
            | "removeCache"
            | "trimCache"
            | "getClusterInfo" => Self::Meta,
            _ => Self::Admin,
        }
    }
}

/// Whether any node answers.
pub(crate) fn is_any_node(rpc: &str) -> bool {
    let any = [
        "getClusterInfo",
        "getMetrics",
        "checkHealth",
        "getManagerClusterInfo",
        "leaderDemote",
        "getLeaderElectorConfig",
        "updateLeaderElectorConfig",
        "setCandidacy",
        "updateLogger",
    ];
    any.contains(&rpc) || Service::of(rpc) == Service::Debug
}

/// Answers by the name they were kept under.
pub(crate) type Kept = BTreeMap<&'static str, Value>;

/// Where storages of these tests have their files: `$d`.
pub(crate) const FILES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/cases");

/// Fills in `$p`, the protocol's name, `$d`, the directory for files, and `$<kept>/<json pointer>`.
pub(crate) fn fill(value: &Value, protocol: &str, kept: &Kept) -> Value {
    let fill = |value| fill(value, protocol, kept);
    match value {
        Value::String(text) => {
            let reference = text.strip_prefix('$').and_then(|text| text.split_once('/'));
            let found = reference.and_then(|(name, path)| {
                let path = format!("/{path}");
                Some(kept.get(name)?.pointer(&path).cloned().unwrap_or_default())
            });
            found.unwrap_or_else(|| json!(text.replace("$p", protocol).replace("$d", FILES)))
        }
        Value::Array(values) => values.iter().map(fill).collect(),
        Value::Object(members) => {
            let filled = members
                .iter()
                .map(|(name, value)| (name.clone(), fill(value)));
            Value::Object(filled.collect())
        }
        other => other.clone(),
    }
}

/// Whether an answer is as expected: members that are not expected may be anything, `null` means
/// that there must be none, `*` in a text stands for anything.
pub(crate) fn check(expected: &Value, found: &Value, place: &str) -> Result<(), String> {
    let differs = || Err(format!("{place} is {found}, expected {expected}"));
    match (expected, found) {
        (Value::Object(members), Value::Object(all)) => {
            for (name, expected) in members {
                let place = format!("{place}.{name}");
                match all.get(name) {
                    None if expected.is_null() => {}
                    None => return Err(format!("{place} is missing, expected {expected}")),
                    Some(found) => check(expected, found, &place)?,
                }
            }
            Ok(())
        }
        (Value::Array(expected), Value::Array(all)) if expected.len() == all.len() => {
            let mut pairs = expected.iter().zip(all).enumerate();
            pairs.try_for_each(|(at, (e, f))| check(e, f, &format!("{place}[{at}]")))
        }
        (Value::String(pattern), Value::String(text)) if matches(pattern, text) => Ok(()),
        (Value::String(_), _) => differs(),
        _ if expected == found => Ok(()),
        _ => differs(),
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    let parts: Vec<_> = rest.split('*').collect();
    let (last, middle) = parts.split_last().unwrap();
    for part in middle {
        match text.split_once(part) {
            Some((_, after)) => text = after,
            None => return false,
        }
    }
    text.ends_with(last)
}

/// What differs between two runs by nature.
const VOLATILE: [&str; 10] = [
    "at_ms",
    "metrics",
    "timestamp",
    "request_id",
    "write_session_id",
    "elector_last_loop_time_ms",
    "info_updated_time",
    "self_leader_expiration_time",
    "info_age_ms",
    "last_heartbeat_age_ms",
];

/// An answer without what differs between two runs: the protocol's name in ids, times, random
/// names, and the grants in URIs.
pub(crate) fn normal(value: &Value, protocol: &str) -> Value {
    match value {
        Value::String(text) => json!(normal_text(
            &text.replace(FILES, "$d").replace(protocol, "$p")
        )),
        Value::Array(values) => values.iter().map(|value| normal(value, protocol)).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| {
                let value = match VOLATILE.contains(&name.as_str()) {
                    true => json!("volatile"),
                    false => normal(value, protocol),
                };
                (name.clone(), value)
            });
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

fn normal_text(text: &str) -> String {
    if let Some((path, query)) = text.split_once('?')
        && let Some((directory, name)) = path.rsplit_once('/')
        && let Some((key, _)) = name.split_once('-')
    {
        // Files of a grant have a directory of their own, objects have none.
        let directory = match directory.starts_with("file:") || directory.starts_with("hf3fs:") {
            true => directory
                .rsplit_once('/')
                .map_or(directory, |(parent, _)| parent),
            false => directory,
        };
        return format!("{directory}/{key}-grant?{query}");
    }
    if let Some(rest) = text.strip_prefix("{\"id\":\"")
        && let Some((_, status)) = rest.split_once('"')
    {
        return format!("{{\"id\":\"random\"{status}");
    }
    let session = text.split('`').find(|part| part.len() == 32);
    session.map_or_else(
        || text.to_owned(),
        |session| text.replace(session, "session"),
    )
}
