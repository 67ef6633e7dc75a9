//! The typed configuration.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

use coordination_core::NodeId;
use kvcm_fence::ClusterId;
use kvcm_uri::Uri;

use super::Token;

/// Everything that a server is told. The defaults are those of the table of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where the leader is elected; none: the memory of this process.
    pub coordination: Option<Uri>,
    /// Where the registry is kept; none: the memory of this process.
    pub registry_storage: Option<Uri>,
    /// What the cluster is called when the place of coordination does not say so; none: by a random
    /// id.
    pub cluster_id: Option<ClusterId>,
    /// The elector.
    pub elector: ElectorSettings,
    /// Eviction and deletion.
    pub cache: CacheSettings,
    /// Listeners and limits.
    pub service: ServiceSettings,
    /// Who may call what.
    pub access: AccessSettings,
    /// Logging.
    pub log: LogSettings,
    /// Metrics.
    pub metrics: MetricsSettings,
    /// Traces.
    pub tracing: TracingSettings,
    /// Path of the startup configuration; none: the built-in one.
    pub startup_config: Option<PathBuf>,
    /// Run although the stores of the nodes may silently differ.
    pub allow_private_stores: bool,
    /// A shorter journal of an index, in bytes, is not replaced by a snapshot.
    pub snapshot_log_bytes: u64,
}

/// How the node takes part in elections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectorSettings {
    /// The name of this node; none: `{host}:{admin_http_port}_{random}`.
    pub node_id: Option<NodeId>,
    /// How long a lease lasts.
    pub lease: Duration,
    /// How often a leader renews and a follower looks, at most a quarter of the lease.
    pub loop_interval: Duration,
    /// How long a demotion waits for requests in flight.
    pub drain: Duration,
    /// Nodes of a higher one are given the first chance to lead.
    pub priority: u8,
}

/// How a leader makes room, and what it remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// Batches of blocks whose bytes are deleted at one time.
    pub deletion_workers: usize,
    /// How often it looks whether blocks have to be evicted.
    pub reclaim_interval: Duration,
    /// Bytes that the records of request ids take at most, for each store of an index.
    pub request_records_bytes: usize,
}

/// Where and how the node serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSettings {
    /// Address of all listeners.
    pub bind_address: IpAddr,
    /// Host that others reach this node under; none: the first address that is not loopback.
    pub advertised_host: Option<String>,
    /// Opaque text that is told together with the node's endpoint.
    pub custom_info: String,
    /// Port of MetaService over gRPC; 0: any free port.
    pub rpc_port: u16,
    /// Port of MetaService over HTTP; 0: any free port.
    pub http_port: u16,
    /// Port of AdminService over gRPC; 0 or equal to `rpc_port`: shared with `rpc_port`.
    pub admin_rpc_port: u16,
    /// Port of AdminService over HTTP; 0: any free port.
    pub admin_http_port: u16,
    /// Serve DebugService, which makes calls fail on demand.
    pub enable_debug_service: bool,
    /// After how long a stream of leader changes repeats what it told.
    pub watch_heartbeat: Duration,
    /// File that the ports in use are written to once the node serves.
    pub ports_file: Option<PathBuf>,
    /// PEM file of the certificate, then those between it and a root; none: no TLS.
    pub tls_cert_file: Option<PathBuf>,
    /// PEM file of the certificate's key.
    pub tls_key_file: Option<PathBuf>,
    /// PEM file of the roots of clients' certificates; none: clients need none.
    pub tls_client_ca_file: Option<PathBuf>,
    /// How long open requests and connections may go on when the server stops.
    pub drain: Duration,
    /// Limits on what clients send.
    pub limits: RequestLimits,
}

/// Limits on what clients send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes of one request.
    pub request_bytes: usize,
    /// Keys of one request.
    pub keys: usize,
    /// Open connections of one listener.
    pub connections: usize,
    /// Open connections of one address to one listener.
    pub peer_connections: usize,
    /// Requests at a time on one HTTP/2 connection.
    pub streams: u32,
    /// Open streams of WatchClusterInfo.
    pub watch_streams: usize,
    /// Bytes of the head of a request.
    pub head_bytes: u32,
    /// Longest time from the start of a connection to the head of its first request, and from the
    /// first byte of a later head to its end.
    pub head_timeout: Duration,
    /// Longest idle time between two requests of a connection, and longest wait for the body of
    /// one.
    pub read_timeout: Duration,
}

/// Who may call what. Without tokens of administrators everybody may call everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessSettings {
    /// Bearers of these may do everything; some: the admin and debug services need credentials.
    pub admin_tokens: Vec<Token>,
    /// Bearers of these may call MetaService; some: it needs credentials.
    pub meta_tokens: Vec<Token>,
    /// MetaService needs credentials in any case.
    pub enable_meta_auth: bool,
}

impl AccessSettings {
    /// Whether MetaService needs credentials.
    pub const fn guards_data(&self) -> bool {
        self.enable_meta_auth || !self.meta_tokens.is_empty()
    }
}

/// What is logged and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// The least severe level that is logged.
    pub level: LogLevel,
    /// Text or JSON.
    pub format: LogFormat,
    /// Whether each call is told.
    pub access: bool,
    /// Whether what happens to blocks is told.
    pub events: bool,
    /// Calls that take so long are told; none: no call is.
    pub slow: Option<Duration>,
}

/// What is told to those who watch the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Whether there is a page for Prometheus on the admin HTTP port.
    pub prometheus: bool,
    /// What its names begin with, without the underscore after it; may be empty.
    pub prefix: String,
    /// Whether calls are counted and timed.
    pub calls: bool,
}

/// Which spans of calls go where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracingSettings {
    /// The collector that takes them, over OTLP/gRPC; none: there are no spans.
    pub otlp_endpoint: Option<Uri>,
    /// How many of a million calls are traced whose caller does not say whether they are.
    pub sample_millionths: u32,
}

/// How severe a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something will fail unless someone acts.
    Warn,
    /// What the server does.
    Info,
    /// How it does it.
    Debug,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Config {
    /// Fields without values: [`load`](Self::load) sets each of them from the table.
    pub(super) const fn blank() -> Self {
        Self {
            coordination: None,
            registry_storage: None,
            cluster_id: None,
            elector: ElectorSettings {
                node_id: None,
                lease: Duration::ZERO,
                loop_interval: Duration::ZERO,
                drain: Duration::ZERO,
                priority: 0,
            },
            cache: CacheSettings {
                deletion_workers: 0,
                reclaim_interval: Duration::ZERO,
                request_records_bytes: 0,
            },
            service: ServiceSettings {
                bind_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                advertised_host: None,
                custom_info: String::new(),
                rpc_port: 0,
                http_port: 0,
                admin_rpc_port: 0,
                admin_http_port: 0,
                enable_debug_service: false,
                watch_heartbeat: Duration::ZERO,
                ports_file: None,
                tls_cert_file: None,
                tls_key_file: None,
                tls_client_ca_file: None,
                drain: Duration::ZERO,
                limits: RequestLimits {
                    request_bytes: 0,
                    keys: 0,
                    connections: 0,
                    peer_connections: 0,
                    streams: 0,
                    watch_streams: 0,
                    head_bytes: 0,
                    head_timeout: Duration::ZERO,
                    read_timeout: Duration::ZERO,
                },
            },
            access: AccessSettings {
                admin_tokens: Vec::new(),
                meta_tokens: Vec::new(),
                enable_meta_auth: false,
            },
            log: LogSettings {
                level: LogLevel::Info,
                format: LogFormat::Text,
                access: false,
                events: false,
                slow: None,
            },
            metrics: MetricsSettings {
                prometheus: false,
                prefix: String::new(),
                calls: false,
            },
            tracing: TracingSettings {
                otlp_endpoint: None,
                sample_millionths: 0,
            },
            startup_config: None,
            allow_private_stores: false,
            snapshot_log_bytes: 0,
        }
    }
}
