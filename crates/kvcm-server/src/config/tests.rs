//! Whole configurations: sources over sources, and everything that can be wrong with them.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use super::*;

/// Every key that the predecessor documents.
const PREDECESSOR: &[&str] = &[
    "kvcm.registry_storage.uri",
    "kvcm.distributed_lock.uri",
    "kvcm.coordination.uri",
    "kvcm.leader_elector.node_id",
    "kvcm.leader_elector.lease_ms",
    "kvcm.leader_elector.loop_interval_ms",
    "kvcm.service.rpc_port",
    "kvcm.service.http_port",
    "kvcm.service.admin_rpc_port",
    "kvcm.service.admin_http_port",
    "kvcm.service.io_thread_num",
    "kvcm.service.enable_debug_service",
    "kvcm.service.advertised_host",
    "kvcm.service.custom_info",
    "kvcm.kv_meta.rpc_port",
    "kvcm.logger.log_level",
    "kvcm.startup_config",
    "kvcm.schedule_plan_executor_thread_count",
    "kvcm.schedule_plan_migration_worker_budget",
    "kvcm.metrics.reporter_type",
    "kvcm.metrics.reporter_config",
    "kvcm.metrics.report_interval_ms",
    "kvcm.metrics.enable_prometheus",
    "kvcm.metrics.prometheus_prefix",
    "kvcm.metrics.revisit_interval_buckets",
    "kvcm.event.event_publishers_configs",
    "kvcm.meta_query.worker_count",
    "kvcm.meta_query.parallel_threshold",
    "kvcm.meta_query.chunk_size",
    "kvcm.cache_reclaimer.key_sampling_size_total",
    "kvcm.cache_reclaimer.key_sampling_size_per_task",
    "kvcm.cache_reclaimer.del_batch_size",
    "kvcm.cache_reclaimer.idle_interval_ms",
    "kvcm.cache_reclaimer.worker_size",
    "kvcm.cache_reclaimer.inflight_delete_timeout_ms",
    "kvcm.cache_reclaimer.pending_location_limit_per_group_type",
    "kvcm.cache_reclaimer.pending_bytes_limit_per_group_type",
    "kvcm.cache_reclaimer.pending_delete_handler_limit",
    "kvcm.cache_reclaimer.pending_bytes_limit",
    "kvcm.cache_reclaimer.group_lru_min_sampling_ratio",
    "kvcm.cache_reclaimer.group_lru_max_sampling_size",
    "kvcm.cache_reclaimer.group_lru_max_delete_requests_per_round",
    "kvcm.cache_gc.enabled",
    "kvcm.cache_gc.scan_interval_ms",
    "kvcm.cache_gc.round_pause_ms",
    "kvcm.cache_gc.scan_batch_size",
    "kvcm.cache_gc.orphan_writing_grace_period_ms",
    "kvcm.cache_gc.max_inflight_delete_requests",
    "kvcm.cache_gc.event_report_cleanup_enabled",
    "kvcm.cache_gc.event_report_action_batch_size",
    "kvcm.service.admin_auth_token",
];

fn load(
    file: Option<&str>,
    settings: &[&str],
    variables: &[(&str, &str)],
) -> Result<Loaded, Mistakes> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kvcm.conf");
    let file = file.map(|text| {
        std::fs::write(&path, text).unwrap();
        path.clone()
    });
    let sources = Sources {
        file,
        settings: settings.iter().map(|&text| text.to_owned()).collect(),
        refuse_unknown: false,
    };
    Config::load(&sources, &environment(variables))
}

fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    variables.iter().map(owned).collect()
}

/// The mistakes of `-e` settings, one text each.
fn mistakes(settings: &[&str]) -> Vec<String> {
    let mistakes = load(None, settings, &[]).unwrap_err();
    mistakes.0.iter().map(ToString::to_string).collect()
}

#[test]
fn every_key_of_the_predecessor_is_known() {
    for name in PREDECESSOR {
        assert!(Key::find(name).is_some(), "{name}");
    }
}

#[test]
fn nothing_at_all_is_a_single_node_on_the_usual_ports() {
    let loaded = load(None, &[], &[]).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let Config {
        coordination,
        elector,
        service,
        ..
    } = loaded.config;
    assert_eq!(coordination, None);
    assert_eq!(elector.lease, Duration::from_secs(10));
    assert_eq!(elector.loop_interval, Duration::from_millis(100));
    let ports = [
        service.rpc_port,
        service.http_port,
        service.admin_rpc_port,
        service.admin_http_port,
    ];
    assert_eq!(ports, [6381, 6382, 6491, 6492]);
    assert_eq!(service.limits.request_bytes, 16 << 20);
    assert!(!service.limits.read_timeout.is_zero());
}

#[test]
fn later_sources_win_and_each_value_knows_its_source() {
    let file = "kvcm.service.rpc_port=1\nkvcm.service.http_port=2\n\
                kvcm.service.admin_rpc_port=3 # c\n";
    let settings = [
        "kvcm.service.http_port=12",
        "kvcm.service.admin_rpc_port=13",
    ];
    let variables = [
        ("kvcm_service_admin_rpc_port", "23"),
        ("kvcm.service.rpc_port", ""),
    ];
    let loaded = load(Some(file), &settings, &variables).unwrap();
    let service = &loaded.config.service;
    let ports = [
        service.rpc_port,
        service.http_port,
        service.admin_rpc_port,
        service.admin_http_port,
    ];
    assert_eq!(ports, [1, 12, 23, 6492]);
    assert!(
        loaded
            .origin("kvcm.service.rpc_port")
            .ends_with("kvcm.conf line 1")
    );
    assert_eq!(loaded.origin("kvcm.service.http_port"), "option -e");
    assert_eq!(
        loaded.origin("kvcm.service.admin_rpc_port"),
        "environment variable kvcm_service_admin_rpc_port"
    );
    assert_eq!(loaded.origin("kvcm.service.admin_http_port"), "default");
}

#[test]
fn digits_stay_text_where_text_is_wanted() {
    let settings = [
        "kvcm.leader_elector.node_id=12345",
        "kvcm.service.custom_info=[1, {x",
        "kvcm.service.ports_file=true",
    ];
    let config = load(None, &settings, &[]).unwrap().config;
    assert_eq!(config.elector.node_id.unwrap().as_str(), "12345");
    assert_eq!(config.service.custom_info, "[1, {x");
    assert_eq!(config.service.ports_file, Some(PathBuf::from("true")));
}

#[test]
fn the_older_name_counts_while_the_new_one_is_empty() {
    let older = "kvcm.distributed_lock.uri=file:///old";
    let loaded = load(None, &[older], &[]).unwrap();
    assert_eq!(loaded.config.coordination.unwrap().path(), "/old");
    let loaded = load(Some(older), &["kvcm.coordination.uri="], &[]).unwrap();
    assert_eq!(loaded.config.coordination.unwrap().path(), "/old");
    // The environment is stronger, but the name decides first.
    let variables = [("kvcm_distributed_lock_uri", "file:///old")];
    let loaded = load(None, &["kvcm.coordination.uri=file:///new"], &variables).unwrap();
    assert_eq!(loaded.config.coordination.unwrap().path(), "/new");
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    let mistakes = mistakes(&["kvcm.distributed_lock.uri=ftp://x"]);
    assert!(
        mistakes[0].contains("as kvcm.distributed_lock.uri"),
        "{mistakes:?}"
    );
}

#[test]
fn every_mistake_of_every_source_is_reported_at_once() {
    let file = "no equals sign\nkvcm.service.rpc_port=70000\nkvcm.service.http_port=-1\n";
    let settings = [
        "kvcm.leader_elector.lease_ms=soon",
        "alone",
        "kvcm.allow_private_stores=yes",
        "kvcm.coordination.uri=redis://:secret@h:port",
        "kvcm.service.admin_rpc_port=7000",
        "kvcm.service.advertised_host=http://h",
    ];
    let variables = [
        ("kvcm_logger_log_level", "9"),
        ("kvcm_service_admin_http_port", "7000"),
        ("kvcm_registry_storage_uri", "etcd://:secret@h"),
    ];
    let mistakes = load(Some(file), &settings, &variables).unwrap_err();
    let text = mistakes.to_string();
    for part in [
        "11 configuration mistakes:",
        "kvcm.conf line 1: expected key=value, found `no…`",
        "kvcm.service.rpc_port = `70000` (file ",
        "kvcm.conf line 2): expected a number from 0 to 65535",
        "kvcm.service.http_port = `-1` (file ",
        "option -e: expected key=value, found `alone`",
        "kvcm.leader_elector.lease_ms = `soon` (option -e): expected a number from 100",
        "kvcm.allow_private_stores = `yes` (option -e): expected true or false",
        "kvcm.coordination.uri = `redis://***@h:port` (option -e): it is not a URI",
        "kvcm.service.admin_http_port = `7000` (environment variable \
         kvcm_service_admin_http_port): expected a port of its own, but \
         kvcm.service.admin_rpc_port (option -e) has it",
        "kvcm.service.advertised_host = `http://h` (option -e): expected a host name",
        "kvcm.logger.log_level = `9` (environment variable kvcm_logger_log_level)",
        "kvcm.registry_storage.uri = `etcd://***@h` (environment variable \
         kvcm_registry_storage_uri): expected an empty text (memory) or one of memory://…, local://…",
    ] {
        assert!(text.contains(part), "{part}\n--- is not in\n{text}");
    }
    assert!(!text.contains("secret"), "{text}");
    assert_eq!(mistakes.0.len(), 11);
}

#[test]
fn unknown_keys_are_warned_about_or_refused() {
    let settings = [
        "kvcm.service.rpc_prot=1",
        "x=secret",
        "redis://:secret@h/?db=1",
    ];
    let loaded = load(None, &settings, &[("kvcm_srvice_http_port", "1")]).unwrap();
    let expected = [
        "option -e: unknown key kvcm.service.rpc_prot; did you mean kvcm.service.rpc_port?",
        "environment variable kvcm_srvice_http_port: unknown key kvcm_srvice_http_port; \
         did you mean kvcm.service.http_port?",
        "option -e: unknown key redis…",
        "option -e: unknown key x",
    ];
    assert_eq!(loaded.warnings, expected);
    assert_eq!(loaded.config, Config::default());
    let sources = Sources {
        settings: settings.map(str::to_owned).to_vec(),
        refuse_unknown: true,
        ..Sources::default()
    };
    assert_eq!(
        Config::load(&sources, &BTreeMap::new())
            .unwrap_err()
            .0
            .len(),
        3
    );
}

#[test]
fn keys_without_effect_get_a_note_that_keeps_their_value_to_itself() {
    let loaded = load(None, &["kvcm.kv_meta.rpc_port=secret"], &[]).unwrap();
    let notes = loaded.notes.join("\n");
    assert!(
        notes.contains("kvcm.kv_meta.rpc_port (option -e) is accepted"),
        "{notes}"
    );
    assert!(!notes.contains("secret"), "{notes}");
    assert!(loaded.warnings.is_empty());
}

#[test]
fn tokens_are_lists_that_nothing_prints() {
    let admin = "kvcm.service.admin_auth_token=secret-token-of-root , secret-2";
    let meta = "kvcm.service.meta_auth_token=secret-token-of-engines";
    let loaded = load(None, &[admin, meta], &[]).unwrap();
    let access = &loaded.config.access;
    let revealed: Vec<_> = access.admin_tokens.iter().map(Token::reveal).collect();
    assert_eq!(revealed, ["secret-token-of-root", "secret-2"]);
    assert!(access.guards_data());
    assert_eq!(
        loaded.warnings,
        ["kvcm.service.admin_auth_token: a token of less than 16 characters can be guessed"]
    );
    assert!(
        loaded.notes.iter().any(|note| note.contains("plain text")),
        "{:?}",
        loaded.notes
    );
    assert!(!format!("{loaded:?}").contains("secret"), "{loaded:?}");
    for wrong in ["secret,,b", "secret b", ",", "\u{e4}secret"] {
        let text = mistakes(&[&format!("kvcm.service.admin_auth_token={wrong}")]).join("\n");
        assert!(
            text.contains("= `***` (option -e): expected tokens"),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn guarding_the_data_alone_is_refused() {
    for setting in [
        "kvcm.service.meta_auth_token=x",
        "kvcm.service.enable_meta_auth=true",
    ] {
        let text = mistakes(&[setting]).join("\n");
        assert!(
            text.contains("kvcm.service.admin_auth_token = `` (default): expected a token"),
            "{text}"
        );
    }
}

#[test]
fn the_files_of_tls_come_together_and_are_read() {
    for (settings, part) in [
        (
            &["kvcm.service.tls_cert_file=/c"][..],
            "tls_key_file = `` (default): expected a path",
        ),
        (
            &["kvcm.service.tls_key_file=/k"],
            "tls_cert_file = `` (default): expected a path",
        ),
        (
            &["kvcm.service.tls_client_ca_file=/k"],
            "tls_cert_file = `` (default): expected a path",
        ),
        (
            &[
                "kvcm.service.tls_cert_file=/nonexistent/c",
                "kvcm.service.tls_key_file=/nonexistent/k",
            ],
            "tls_cert_file = `/nonexistent/c` (option -e): cannot read it",
        ),
    ] {
        let text = mistakes(settings).join("\n");
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn the_loop_must_be_much_shorter_than_the_lease() {
    let settings = |interval| {
        [
            "kvcm.leader_elector.lease_ms=1000".to_owned(),
            format!("kvcm.leader_elector.loop_interval_ms={interval}"),
        ]
    };
    let with = |interval| {
        let settings = settings(interval);
        load(None, &[&settings[0], &settings[1]], &[])
    };
    assert!(with(100).unwrap().warnings.is_empty());
    assert_eq!(with(101).unwrap().warnings.len(), 1);
    assert_eq!(with(250).unwrap().warnings.len(), 1);
    let text = with(251).unwrap_err().to_string();
    assert!(text.contains("expected at most 250"), "{text}");
    assert!(text.contains("= `1000` (option -e)"), "{text}");
    assert_eq!(mistakes(&["kvcm.leader_elector.lease_ms=99"]).len(), 1);
}

#[test]
fn only_the_rpc_ports_may_be_the_same() {
    let shared = load(None, &["kvcm.service.admin_rpc_port=6381"], &[]).unwrap();
    assert_eq!(shared.config.service.admin_rpc_port, 6381);
    let any =
        ["rpc", "http", "admin_rpc", "admin_http"].map(|p| format!("kvcm.service.{p}_port=0"));
    let any: Vec<_> = any.iter().map(String::as_str).collect();
    assert!(load(None, &any, &[]).is_ok());
    let clash = mistakes(&["kvcm.service.admin_http_port=6382"]);
    assert_eq!(
        clash,
        [
            "kvcm.service.admin_http_port = `6382` (option -e): expected a port of its own, but \
          kvcm.service.http_port (default) has it"
        ]
    );
}

#[test]
fn coordination_uris_are_checked_by_scheme() {
    let private = "kvcm.allow_private_stores=true";
    let uri = |uri: &str| {
        load(
            None,
            &[&format!("kvcm.coordination.uri={uri}"), private],
            &[],
        )
    };
    assert_eq!(uri("memory://").unwrap().config.coordination, None);
    for good in [
        "file:///d",
        "redis://h",
        "rediss://:p%23w@h:1/?db=1&cluster_name=c",
        "redis-sentinel://a,b:2/?master=m",
        "rediss-cluster://a,b:2",
        "redis_cluster://a",
    ] {
        assert!(uri(good).unwrap().config.coordination.is_some(), "{good}");
    }
    for bad in [
        "file://d/e",
        "file:///",
        "redis://",
        "redis-cluster://",
        "etcd://h",
        "/d",
        "redis://h/?db=1&db=2",
    ] {
        assert_eq!(uri(bad).unwrap_err().0.len(), 1, "{bad}");
    }
    let loaded = uri("redis://:secret@h:1").unwrap();
    assert!(!format!("{loaded:?}").contains("secret"));
}

#[test]
fn the_log_level_variable_wins() {
    let variables = [("KVCM_LOG_LEVEL", "ERROR"), ("kvcm.logger.log_level", "5")];
    let loaded = load(None, &["kvcm.logger.log_level=3"], &variables).unwrap();
    assert_eq!(loaded.config.log.level, LogLevel::Error);
    let loaded = load(None, &["kvcm.logger.log_level=3"], &[]).unwrap();
    assert_eq!(loaded.config.log.level, LogLevel::Warn);
}

#[test]
fn a_missing_file_is_a_mistake_beside_others() {
    let sources = Sources {
        file: Some(PathBuf::from("/nonexistent/kvcm.conf")),
        settings: vec!["kvcm.service.rpc_port=x".to_owned()],
        refuse_unknown: false,
    };
    assert_eq!(
        Config::load(&sources, &BTreeMap::new())
            .unwrap_err()
            .0
            .len(),
        2
    );
}

#[test]
fn registry_uris_are_checked_by_scheme() {
    let uri = |uri: &str| load(None, &[&format!("kvcm.registry_storage.uri={uri}")], &[]);
    assert_eq!(uri("memory://").unwrap().config.registry_storage, None);
    for good in [
        "local:///d",
        "redis://h/?cluster_name=c",
        "redis-sentinel://a,b:2/?master=m&cluster_name=c",
    ] {
        assert!(
            uri(good).unwrap().config.registry_storage.is_some(),
            "{good}"
        );
    }
    for bad in [
        "local://d/e",
        "local:///",
        "file:///d",
        "redis://h",
        "redis://h/?cluster_name=",
    ] {
        assert_eq!(uri(bad).unwrap_err().0.len(), 1, "{bad}");
    }
    let unnamed = uri("redis://h").unwrap_err().to_string();
    assert!(unnamed.contains("cluster_name"), "{unnamed}");
}

#[test]
fn an_index_or_a_registry_of_one_node_alone_has_to_be_allowed_on_several_hosts() {
    let redis = "kvcm.coordination.uri=redis://h";
    let refused = |registry: &str| {
        let registry = format!("kvcm.registry_storage.uri={registry}");
        load(None, &[redis, &registry], &[])
            .unwrap_err()
            .to_string()
    };
    for private in ["", "local:///d"] {
        let text = refused(private);
        for key in ["kvcm.registry_storage.uri", "meta_storage_backend_config"] {
            assert!(text.contains(key), "{text}");
        }
    }
    // The built-in group keeps its index where the registry is.
    let registry = "kvcm.registry_storage.uri=redis://h/?cluster_name=c";
    load(None, &[redis, registry], &[]).unwrap();
}

#[test]
fn a_collector_is_a_host_and_a_port() {
    for bad in [
        "grpc://h:4317",
        "https://h:4317",
        "http://h",
        "http://u:secret@h:4317",
        "http://h:4317/v1/traces",
        "http://h:4317/?x=y",
        "http://a:1,b:2",
    ] {
        let setting = format!("kvcm.tracing.otlp_endpoint={bad}");
        let text = load(None, &[&setting], &[]).unwrap_err().to_string();
        assert!(text.contains("(option -e): expected"), "{text}");
        assert!(!text.contains("memory"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    for bad in ["", "-0.1", "1.1", "NaN", "1%"] {
        let setting = format!("kvcm.tracing.sample_ratio={bad}");
        let text = load(None, &[&setting], &[]).unwrap_err().to_string();
        assert!(text.contains("expected a number from 0 to 1"), "{text}");
    }
    let loaded = load(None, &["kvcm.tracing.sample_ratio=0.25"], &[]).unwrap();
    assert_eq!(loaded.config.tracing.sample_millionths, 250_000);
    assert_eq!(Config::default().tracing.sample_millionths, 10_000);
}

#[test]
fn a_collector_needs_a_build_that_can_send_to_it() {
    let loaded = load(None, &["kvcm.tracing.otlp_endpoint=http://h:4317"], &[]);
    if cfg!(feature = "otlp") {
        let endpoint = loaded.unwrap().config.tracing.otlp_endpoint.unwrap();
        assert_eq!((endpoint.host(), endpoint.port()), (Some("h"), Some(4317)));
    } else {
        let text = loaded.unwrap_err().to_string();
        let expected = "kvcm.tracing.otlp_endpoint = `http://h:4317/` (option -e): this build has no \
                        OTLP: build with --features otlp";
        assert!(text.contains(expected), "{text}");
    }
}
