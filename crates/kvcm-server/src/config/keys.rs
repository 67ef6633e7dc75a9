//! The table of keys.

use std::path::PathBuf;

use super::{
    Key, Kind,
    options::{
        count, flag, format, ip, is_host, level, metric_prefix, millionths, ms, number, optional,
        port, tokens,
    },
};

const PORT: u64 = 65535;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
const FLAG: &str = "true or false";
const TOKENS: &str = "tokens of 1 to 1024 visible ASCII characters, separated by commas";

/// Every key: first those with an effect, then those of the predecessor that have none here.
pub static KEYS: &[Key] = &[
    Key {
        name: "kvcm.coordination.uri",
        alias: Some("kvcm.distributed_lock.uri"),
        default: "",
        doc: "where the leader is elected: empty or memory:// (this process only), \
         file:///directory (nodes of one host), redis://host:6379/?cluster_name=…, \
         redis-sentinel://host:26379,host:26379/?master=…, redis-cluster://host:6379,host:6379/, \
         or the last three with rediss for TLS",
        kind: Kind::Uri {
            schemes: &[
                "memory",
                "file",
                "redis",
                "rediss",
                "redis-sentinel",
                "rediss-sentinel",
                "redis-cluster",
                "rediss-cluster",
                "redis_cluster",
            ],
            set: |config, uri| config.coordination = uri,
        },
    },
    Key {
        name: "kvcm.registry_storage.uri",
        alias: None,
        default: "",
        doc: "where the registry is kept: empty or memory:// (lost with the leader), \
              local:///directory (nodes of one host), redis://host:6379/?cluster_name=…, or the \
              other forms for Redis of kvcm.coordination.uri; see STORES.md",
        kind: Kind::Uri {
            schemes: &[
                "memory",
                "local",
                "redis",
                "rediss",
                "redis-sentinel",
                "rediss-sentinel",
                "redis-cluster",
                "rediss-cluster",
                "redis_cluster",
            ],
            set: |config, uri| config.registry_storage = uri,
        },
    },
    Key::text(
        "kvcm.cluster_id",
        "",
        "1 to 64 characters of A-Z a-z 0-9 _ . -",
        "id of the cluster, for when the place of coordination has lost it and no node knows it: \
         a store that belongs to another cluster is refused. Empty: a random one for a new cluster",
        |config, text| {
            let id = optional(text).map(|text| text.parse()).transpose().ok()?;
            config.cluster_id = id;
            Some(())
        },
    ),
    Key::text(
        "kvcm.allow_private_stores",
        "false",
        FLAG,
        "run with stores that the nodes of a cluster do not share, so that each may know \
         something else",
        |config, text| flag(text).map(|value| config.allow_private_stores = value),
    ),
    Key::number(
        "kvcm.index.snapshot_log_bytes",
        "16777216",
        [1, 1 << 40],
        "the journal of an index is replaced by a snapshot once it is as long as the last one, \
         and at least so many bytes; see STORES.md",
        |config, value| config.snapshot_log_bytes = value,
    ),
    Key::text(
        "kvcm.startup_config",
        "",
        "a path",
        "path of the JSON that a new registry starts with; empty: the built-in one",
        |config, text| {
            config.startup_config = optional(text).map(PathBuf::from);
            Some(())
        },
    ),
    Key::text(
        "kvcm.leader_elector.node_id",
        "",
        "at most 255 bytes without white space, control characters, / or \\",
        "name of this node, unique in its cluster; empty: {host}:{admin_http_port}_{random}",
        |config, text| {
            let id = optional(text).map(|text| text.parse()).transpose().ok()?;
            config.elector.node_id = id;
            Some(())
        },
    ),
    Key::number(
        "kvcm.leader_elector.lease_ms",
        "10000",
        [100, DAY_MS],
        "how long a leader leads without renewal, in milliseconds",
        |config, value| config.elector.lease = ms(value),
    ),
    Key::number(
        "kvcm.leader_elector.loop_interval_ms",
        "100",
        [1, DAY_MS],
        "how often the lease is renewed or looked at, in milliseconds: at most a quarter of \
         the lease, better at most a tenth",
        |config, value| config.elector.loop_interval = ms(value),
    ),
    Key::number(
        "kvcm.leader_elector.drain_ms",
        "2000",
        [0, HOUR_MS],
        "how long a demotion waits for requests in flight, in milliseconds",
        |config, value| config.elector.drain = ms(value),
    ),
    Key::number(
        "kvcm.leader_elector.priority",
        "0",
        [0, 255],
        "nodes of a higher priority are given the first chance to lead, by a few milliseconds",
        |config, value| config.elector.priority = u8::try_from(value).unwrap_or(u8::MAX),
    ),
    Key::text(
        "kvcm.service.bind_address",
        "0.0.0.0",
        "an IPv4 or IPv6 address",
        "address that all ports listen on",
        |config, text| ip(text).map(|value| config.service.bind_address = value),
    ),
    Key::text(
        "kvcm.service.advertised_host",
        "",
        "a host name or address without scheme, port or path",
        "host that others reach this node under; empty: the first address that is not \
         loopback",
        |config, text| {
            let host = optional(text);
            if host.as_deref().is_some_and(|host| !is_host(host)) {
                return None;
            }
            config.service.advertised_host = host;
            Some(())
        },
    ),
    Key::text(
        "kvcm.service.custom_info",
        "",
        "a text",
        "opaque text that is told together with the endpoint of this node",
        |config, text| {
            text.clone_into(&mut config.service.custom_info);
            Some(())
        },
    ),
    Key::number(
        "kvcm.service.rpc_port",
        "6381",
        [0, PORT],
        "port of MetaService over gRPC; 0: any free port",
        |config, value| config.service.rpc_port = port(value),
    ),
    Key::number(
        "kvcm.service.http_port",
        "6382",
        [0, PORT],
        "port of MetaService over HTTP; 0: any free port",
        |config, value| config.service.http_port = port(value),
    ),
    Key::number(
        "kvcm.service.admin_rpc_port",
        "6491",
        [0, PORT],
        "port of AdminService over gRPC; 0 or the same as kvcm.service.rpc_port: shared \
         with that port",
        |config, value| config.service.admin_rpc_port = port(value),
    ),
    Key::number(
        "kvcm.service.admin_http_port",
        "6492",
        [0, PORT],
        "port of AdminService over HTTP; 0: any free port",
        |config, value| config.service.admin_http_port = port(value),
    ),
    Key::text(
        "kvcm.service.enable_debug_service",
        "false",
        FLAG,
        "serve DebugService, by which anybody can make calls of this node fail: gRPC beside \
         AdminService, HTTP 3000 above kvcm.service.http_port (any free port when that is 0)",
        |config, text| flag(text).map(|value| config.service.enable_debug_service = value),
    ),
    Key::number(
        "kvcm.service.watch_heartbeat_ms",
        "10000",
        [100, HOUR_MS],
        "after how long a stream of WatchClusterInfo repeats what it told, in milliseconds",
        |config, value| config.service.watch_heartbeat = ms(value),
    ),
    Key::text(
        "kvcm.service.ports_file",
        "",
        "a path",
        "file that the ports in use are written to once the node serves; empty: none",
        |config, text| {
            config.service.ports_file = optional(text).map(PathBuf::from);
            Some(())
        },
    ),
    Key::text(
        "kvcm.service.tls_cert_file",
        "",
        "a path",
        "PEM file of the certificate of all ports, then those between it and a root; read \
         again when it changes and at SIGHUP; empty: no TLS",
        |config, text| {
            config.service.tls_cert_file = optional(text).map(PathBuf::from);
            Some(())
        },
    ),
    Key::text(
        "kvcm.service.tls_key_file",
        "",
        "a path",
        "PEM file of the private key of kvcm.service.tls_cert_file",
        |config, text| {
            config.service.tls_key_file = optional(text).map(PathBuf::from);
            Some(())
        },
    ),
    Key::text(
        "kvcm.service.tls_client_ca_file",
        "",
        "a path",
        "PEM file of the roots of clients' certificates, without which no client is served; \
         empty: clients need no certificate",
        |config, text| {
            config.service.tls_client_ca_file = optional(text).map(PathBuf::from);
            Some(())
        },
    ),
    Key {
        name: "kvcm.service.admin_auth_token",
        alias: None,
        default: "",
        doc: "bearer tokens of administrators, separated by commas; while there are any, the admin \
         and debug services need one of them or an administrator's account; empty: everybody may \
         do everything",
        kind: Kind::Secret {
            expected: TOKENS,
            set: |config, text| tokens(text).map(|all| config.access.admin_tokens = all),
        },
    },
    Key {
        name: "kvcm.service.meta_auth_token",
        alias: None,
        default: "",
        doc: "bearer tokens of inference engines, separated by commas; while there are any, \
         MetaService needs one of them, one of kvcm.service.admin_auth_token, or an account",
        kind: Kind::Secret {
            expected: TOKENS,
            set: |config, text| tokens(text).map(|all| config.access.meta_tokens = all),
        },
    },
    Key::text(
        "kvcm.service.enable_meta_auth",
        "false",
        FLAG,
        "whether MetaService needs credentials even without kvcm.service.meta_auth_token, so that \
         engines use accounts",
        |config, text| flag(text).map(|value| config.access.enable_meta_auth = value),
    ),
    Key::number(
        "kvcm.service.drain_ms",
        "2000",
        [0, HOUR_MS],
        "how long open requests and connections may go on when the server stops, in \
         milliseconds; after that they are cut",
        |config, value| config.service.drain = ms(value),
    ),
    Key::number(
        "kvcm.service.max_request_bytes",
        "16777216",
        [1024, 1 << 30],
        "largest request, in bytes",
        |config, value| config.service.limits.request_bytes = count(value),
    ),
    Key::number(
        "kvcm.service.max_keys_per_request",
        "100000",
        [1, 10_000_000],
        "most block keys in one request",
        |config, value| config.service.limits.keys = count(value),
    ),
    Key::number(
        "kvcm.service.max_connections",
        "10000",
        [1, 1_000_000],
        "most open connections of one port; more are closed at once",
        |config, value| config.service.limits.connections = count(value),
    ),
    Key::number(
        "kvcm.service.max_connections_per_peer",
        "2000",
        [1, 1_000_000],
        "most open connections of one address to one port; more are closed at once",
        |config, value| config.service.limits.peer_connections = count(value),
    ),
    Key::number(
        "kvcm.service.max_concurrent_streams",
        "1024",
        [1, 1_000_000],
        "most requests at a time on one HTTP/2 connection; more wait at the client",
        |config, value| config.service.limits.streams = number(value),
    ),
    Key::number(
        "kvcm.service.max_watch_streams",
        "16384",
        [1, 1_000_000],
        "most streams of WatchClusterInfo at a time, each of which takes about 8.5 KB; further clients \
         ask another node, or ask now and then instead",
        |config, value| config.service.limits.watch_streams = count(value),
    ),
    Key::number(
        "kvcm.service.max_head_bytes",
        "65536",
        [8192, 1 << 20],
        "most bytes in the head of a request; more are answered with status 431",
        |config, value| config.service.limits.head_bytes = number(value),
    ),
    Key::number(
        "kvcm.service.head_timeout_ms",
        "10000",
        [100, HOUR_MS],
        "longest time from the start of a connection until the head of its first request is \
         complete, TLS handshake included, and from the first byte of a later head to its end, \
         in milliseconds; HTTP/2 connections may wait for their first request",
        |config, value| config.service.limits.head_timeout = ms(value),
    ),
    Key::number(
        "kvcm.service.read_timeout_ms",
        "75000",
        [100, HOUR_MS],
        "longest wait for the body of a request, and for the next request on a connection, which \
         is how long it may idle, in milliseconds",
        |config, value| config.service.limits.read_timeout = ms(value),
    ),
    Key::number(
        "kvcm.logger.log_level",
        "0",
        [0, 5],
        "least severe level that is logged: 0 or 4 info, 1 or 2 error, 3 warn, 5 debug; \
         the environment variable KVCM_LOG_LEVEL wins over it",
        |config, value| config.log.level = level(value),
    ),
    Key::text(
        "kvcm.logger.format",
        "text",
        "text or json",
        "how log lines look: text or json",
        |config, text| format(text).map(|value| config.log.format = value),
    ),
    Key::text(
        "kvcm.logger.access_log",
        "false",
        FLAG,
        "tell each call in one log line: service, method, transport, peer, code, microseconds, \
         request id",
        |config, text| flag(text).map(|value| config.log.access = value),
    ),
    Key::text(
        "kvcm.logger.cache_events",
        "false",
        FLAG,
        "tell what happens to blocks, in one log line for each batch: added, removed, evicted, \
         deleted; and each write session whose time was up",
        |config, text| flag(text).map(|value| config.log.events = value),
    ),
    Key::number(
        "kvcm.schedule_plan_executor_thread_count",
        "2",
        [0, 256],
        "batches of blocks whose bytes are deleted at one time; 0 is 1",
        |config, value| config.cache.deletion_workers = count(value.max(1)),
    ),
    Key::number(
        "kvcm.service.max_request_records_mb",
        "256",
        [1, 1 << 20],
        "most memory for what became of calls with a request id, in megabytes, for each store of an \
         index. They are kept for ten minutes, about 60 bytes each: 256 is enough for 7,000 changes \
         in a second. With more of them the oldest go before their time, which is counted and \
         warned about",
        |config, value| config.cache.request_records_bytes = count(value << 20),
    ),
    Key::number(
        "kvcm.cache_reclaimer.idle_interval_ms",
        "100",
        [10, HOUR_MS],
        "how often a leader looks whether blocks have to be evicted, in milliseconds",
        |config, value| config.cache.reclaim_interval = ms(value),
    ),
    Key::number(
        "kvcm.logger.slow_call_ms",
        "1000",
        [0, HOUR_MS],
        "calls that take so long are told in a warning, in milliseconds; 0: none is",
        |config, value| config.log.slow = (value > 0).then(|| ms(value)),
    ),
    Key::text(
        "kvcm.metrics.enable_prometheus",
        "true",
        FLAG,
        "serve GET /metrics on the admin HTTP port, in Prometheus' text format",
        |config, text| flag(text).map(|value| config.metrics.prometheus = value),
    ),
    Key::text(
        "kvcm.metrics.count_calls",
        "true",
        FLAG,
        "count and time each call; without it there are no kvcm_calls metrics, and GetMetrics \
         tells of no calls",
        |config, text| flag(text).map(|value| config.metrics.calls = value),
    ),
    Key::text(
        "kvcm.metrics.prometheus_prefix",
        "kvcm",
        "letters, digits and underscores, not a digit first, or nothing",
        "what the names on that page begin with, before an underscore; empty: nothing",
        |config, text| metric_prefix(text).map(|value| config.metrics.prefix = value),
    ),
    Key {
        name: "kvcm.tracing.otlp_endpoint",
        alias: None,
        default: "",
        doc: "http://host:port of the OpenTelemetry collector that spans of calls are sent to, over \
              OTLP/gRPC; empty: there are none. Needs a build with --features otlp",
        kind: Kind::Uri {
            schemes: &["http"],
            set: |config, uri| config.tracing.otlp_endpoint = uri,
        },
    },
    Key::text(
        "kvcm.tracing.sample_ratio",
        "0.01",
        "a number from 0 to 1",
        "which part of the calls is traced when the caller sends no traceparent, from 0 to 1, in \
         steps of a millionth; with one, the call is traced if the caller's span is",
        |config, text| millionths(text).map(|value| config.tracing.sample_millionths = value),
    ),
    Key::unused(
        "kvcm.service.io_thread_num",
        "2",
        "HTTP threads; tokio's workers serve all ports here",
    ),
    Key::unused(
        "kvcm.kv_meta.rpc_port",
        "0",
        "port of a separate KvMeta service",
    ),
    Key::unused(
        "kvcm.schedule_plan_migration_worker_budget",
        "1",
        "deletion workers for migration",
    ),
    Key::unused(
        "kvcm.metrics.reporter_type",
        "",
        "where metrics are pushed to",
    ),
    Key::unused(
        "kvcm.metrics.reporter_config",
        "",
        "settings of the metrics reporter",
    ),
    Key::unused(
        "kvcm.metrics.report_interval_ms",
        "20000",
        "period of the metrics reporter",
    ),
    Key::unused(
        "kvcm.metrics.revisit_interval_buckets",
        "1,5,30,60,120,180,300,600,900,1800,3600,21600,86400",
        "buckets of a histogram, in seconds",
    ),
    Key::unused("kvcm.event.event_publishers_configs", "", "event log"),
    Key::unused(
        "kvcm.meta_query.worker_count",
        "4",
        "parallel index reads; one read of this index needs no helpers",
    ),
    Key::unused(
        "kvcm.meta_query.parallel_threshold",
        "256",
        "keys from which index reads go parallel",
    ),
    Key::unused(
        "kvcm.meta_query.chunk_size",
        "128",
        "keys of one parallel index read",
    ),
    Key::unused(
        "kvcm.cache_reclaimer.key_sampling_size_total",
        "1000",
        "keys sampled in a round",
    ),
    Key::unused(
        "kvcm.cache_reclaimer.key_sampling_size_per_task",
        "100",
        "keys sampled by a task",
    ),
    Key::unused(
        "kvcm.cache_reclaimer.del_batch_size",
        "100",
        "deletions of a round",
    ),
    Key::unused(
        "kvcm.cache_reclaimer.worker_size",
        "16",
        "reclaimer threads",
    ),
    Key::unused(
        "kvcm.cache_reclaimer.inflight_delete_timeout_ms",
        "60000",
        "when a deletion in flight is given up",
    ),
    Key::unused(
        "kvcm.cache_reclaimer.pending_location_limit_per_group_type",
        "20000",
        "limit on deletions in flight",
    ),
    Key::unused(
        "kvcm.cache_reclaimer.pending_bytes_limit_per_group_type",
        "1099511627776",
        "limit on bytes in deletion",
    ),
    Key::unused(
        "kvcm.cache_reclaimer.pending_delete_handler_limit",
        "1024",
        "limit on deletions in flight",
    ),
    Key::unused(
        "kvcm.cache_reclaimer.pending_bytes_limit",
        "4398046511104",
        "limit on bytes in deletion",
    ),
    Key::unused(
        "kvcm.cache_reclaimer.group_lru_min_sampling_ratio",
        "10",
        "sampling of a group",
    ),
    Key::unused(
        "kvcm.cache_reclaimer.group_lru_max_sampling_size",
        "65536",
        "sampling of a group",
    ),
    Key::unused(
        "kvcm.cache_reclaimer.group_lru_max_delete_requests_per_round",
        "128",
        "deletions of a group in a round",
    ),
    Key::unused("kvcm.cache_gc.enabled", "true", "collector of orphans"),
    Key::unused(
        "kvcm.cache_gc.scan_interval_ms",
        "1000",
        "pause between scans",
    ),
    Key::unused(
        "kvcm.cache_gc.round_pause_ms",
        "7200000",
        "pause between full rounds",
    ),
    Key::unused("kvcm.cache_gc.scan_batch_size", "256", "keys of one scan"),
    Key::unused(
        "kvcm.cache_gc.orphan_writing_grace_period_ms",
        "86400000",
        "age of an orphan",
    ),
    Key::unused(
        "kvcm.cache_gc.max_inflight_delete_requests",
        "2",
        "limit on deletions in flight",
    ),
    Key::unused(
        "kvcm.cache_gc.event_report_cleanup_enabled",
        "true",
        "cleaning up after event reports",
    ),
    Key::unused(
        "kvcm.cache_gc.event_report_action_batch_size",
        "32",
        "actions of one clean-up",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::Config;

    #[test]
    fn names_are_unique_even_as_environment_variables() {
        let names = KEYS.iter().flat_map(|k| [Some(k.name), k.alias]).flatten();
        let mut seen = BTreeSet::new();
        for name in names {
            assert!(name.starts_with("kvcm."), "{name}");
            assert!(seen.insert(name.replace('.', "_")), "{name} is there twice");
        }
    }

    #[test]
    fn every_default_keeps_its_own_rule() {
        for key in KEYS {
            assert_eq!(
                key.set(&mut Config::blank(), key.default),
                Ok(()),
                "{}",
                key.name
            );
            assert!(!key.doc.is_empty(), "{}", key.name);
        }
    }

    #[test]
    fn every_used_key_changes_a_field_of_its_own() {
        let other = |key: &Key| match key.kind {
            Kind::Number { max, .. } => max.min(5).max(key.default.parse().unwrap_or(0) / 2),
            _ => 0,
        };
        for key in KEYS.iter().filter(|key| key.is_used()) {
            let text = match (key.name, &key.kind) {
                (_, Kind::Number { .. }) => other(key).to_string(),
                ("kvcm.registry_storage.uri", _) => "local:///d".to_owned(),
                ("kvcm.tracing.otlp_endpoint", _) => "http://h:4317".to_owned(),
                ("kvcm.tracing.sample_ratio", _) => "0.5".to_owned(),
                (_, Kind::Uri { .. }) => "file:///d".to_owned(),
                (
                    "kvcm.allow_private_stores"
                    | "kvcm.logger.access_log"
                    | "kvcm.logger.cache_events"
                    | "kvcm.service.enable_debug_service"
                    | "kvcm.service.enable_meta_auth",
                    _,
                ) => "true".to_owned(),
                ("kvcm.metrics.enable_prometheus" | "kvcm.metrics.count_calls", _) => {
                    "false".to_owned()
                }
                ("kvcm.service.bind_address", _) => "::1".to_owned(),
                ("kvcm.logger.format", _) => "json".to_owned(),
                _ => "x".to_owned(),
            };
            let mut config = Config::default();
            assert_eq!(key.set(&mut config, &text), Ok(()), "{} = {text}", key.name);
            assert_ne!(config, Config::default(), "{} = {text}", key.name);
            assert_eq!(key.set(&mut config, key.default), Ok(()));
            assert_eq!(
                config,
                Config::default(),
                "{} sets more than its field",
                key.name
            );
        }
    }
}
