//! A node: built from its configuration, run until it is told to stop.

use std::{future::Future, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::Router;
use coordination_core::{Backend, LEADER_KEY};
use coordination_file::FileBackend;
use coordination_memory::MemoryBackend;
use coordination_redis::RedisBackend;
use elector::{Driver, Elector, Settings, threads::Control};
use kvcm_clock::{BootClock, Clock, Timer, TokioTimer};
use kvcm_proto::{
    admin::admin_service_server::AdminServiceServer,
    debug::debug_service_server::DebugServiceServer,
};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::service::Routes;

use crate::{
    access::{Guard, Scope},
    cluster::Cluster,
    config::{Config, ElectorSettings},
    elections, grpc_health, health,
    http::{
        BodyLimits, ConnectionCounters, ConnectionLimits, JsonRoutes, Listeners, Ports, Terms,
        serve,
    },
    logging::LogHandle,
    members::Members,
    metrics::{Counters, Metrics},
    node::{Endpoint, Node, advertised_host},
    observe::Observe,
    prepare::{Coordination, Hosts, Prepared},
    reign::{self, Reigns},
    rpc::{AdminRpc, DebugRpc, HotMeta, MetaRpc},
    service::{Services, State, Watching},
    stores::StoreSet,
    traces::Traces,
};

/// What a stop may take beside the drain: the demotion's callbacks and the release of the lock.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A node that is built and not yet running.
pub struct App {
    config: Config,
    ports: Ports,
    control: Control,
    elector: Elector,
    driver: Driver,
    cluster: Arc<Cluster>,
    reigns: Arc<Reigns>,
    members: Arc<Members>,
    services: Arc<Services>,
    servers: Vec<Server>,
    drain: CancellationToken,
    /// Tells the streams of leader changes, and keeps `grpc.health.v1` up to date.
    _news: [AbortOnDropHandle<()>; 2],
    terms: Terms,
    traces: Traces,
}

/// A listener, what it serves, and how much.
struct Server {
    listener: TcpListener,
    router: Router,
    counters: Arc<ConnectionCounters>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("ports", &self.ports)
            .finish_non_exhaustive()
    }
}

impl App {
    /// Builds a node on listeners that are bound already. Nothing is served yet; the callbacks
    /// of the election will run on the present runtime.
    ///
    /// # Errors
    /// When the system refuses threads or a listener, or the coordination backend can never work.
    pub fn build(config: Config, prepared: Prepared, listeners: Listeners) -> anyhow::Result<Self> {
        let ports = listeners.ports().context("cannot read the bound ports")?;
        let clock: Arc<dyn Clock> = Arc::new(BootClock);
        let counters = Counters::new(config.service.limits.watch_streams)?;
        let timer: Arc<dyn Timer> = Arc::new(TokioTimer::new(BootClock));
        let mut node = Node::new(config.elector.node_id.clone(), endpoint(&config, &ports))?;
        node.priority = config.elector.priority;
        let node = Arc::new(node);
        let control = Control::start().context("cannot start the control thread")?;
        let backend = {
            // Connections and tasks of the backend live on the control thread.
            let _guard = control.handle().enter();
            backend(&prepared.coordination, clock.clone())?
        };
        let reigns = Arc::new(Reigns::new(reign::Parts {
            backend: backend.clone(),
            incarnation: node.owner.incarnation,
            stores: StoreSet::open(&prepared.registry, clock.clone())?,
            startup: prepared.startup,
            cache_config: kvcm_cache::Config {
                keys_per_request_max: config.service.limits.keys,
                log_bytes_min: config.snapshot_log_bytes,
                deletion_workers: config.cache.deletion_workers,
                reclaim_interval: config.cache.reclaim_interval,
                requests_bytes_max: config.cache.request_records_bytes,
                ..kvcm_cache::Config::default()
            },
            clock: clock.clone(),
            timer: timer.clone(),
            hosts: Hosts::of(&prepared.coordination, config.allow_private_stores),
            cluster_id: config.cluster_id.clone(),
            is_alone: matches!(prepared.coordination, Coordination::Memory),
            runtime: tokio::runtime::Handle::current(),
        }));
        let (elector, driver) = elector::start(elector::Parts {
            settings: settings(&config, &prepared.coordination, &node)?,
            owner: node.owner.clone(),
            key: LEADER_KEY.to_owned(),
            endpoint: serde_json::to_value(&node.endpoint)?,
            backend: backend.clone(),
            leadership: reigns.clone(),
            clock: clock.clone(),
            timer: timer.clone(),
            spawner: Arc::new(tokio::runtime::Handle::current()),
        });
        let members = Arc::new(Members::new(
            backend.clone(),
            node.clone(),
            clock.clone(),
            timer,
        ));
        let cluster = Arc::new(Cluster::new(
            node.clone(),
            elector.clone(),
            members.clone(),
            clock,
            turn_limit(&config.elector),
        ));
        reigns.attach(cluster.clone());
        let drain = CancellationToken::new();
        let (news, state) = watch::channel(State::default());
        let heartbeat = config.service.watch_heartbeat;
        let streams = counters.streams.clone();
        let watching = Watching::new(state, heartbeat, drain.clone(), streams);
        let news = tokio::spawn(State::follow(cluster.clone(), news));
        let (health, follow) = grpc_health::health(cluster.clone());
        let news = [news, tokio::spawn(follow)].map(AbortOnDropHandle::new);
        let prefix = &config.metrics.prefix;
        let traces = Traces::open(&config.tracing, &node.owner.node)?;
        let spans = traces.counts();
        let metrics = Metrics::new(prefix, &counters, cluster.clone(), reigns.clone(), spans);
        let services = Arc::new(Services::new(
            cluster.clone(),
            reigns.clone(),
            Arc::new(metrics),
            watching,
        ));
        tracing::info!(
            node = %node.owner,
            host = node.endpoint.host,
            backend = backend.describe(),
            ?ports,
            "node built"
        );
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(kvcm_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .context("the descriptors of the protocol are damaged")?;
        let tools = |routes: Routes| {
            let routes = routes.add_service(health.clone());
            routes.add_service(reflection.clone())
        };
        let guard = Guard::new(&config.access, reigns.clone())?;
        let protect = |scope, router| match &guard {
            Some(guard) => guard.protect(scope, router),
            None => router,
        };
        let servers = servers(
            &config, &services, listeners, &counters, &traces, tools, protect,
        )?;
        let terms = Terms {
            limits: ConnectionLimits::from(&config.service),
            tls: prepared.tls,
            refusals: counters.refusals,
        };
        Ok(Self {
            config,
            ports,
            control,
            elector,
            driver,
            cluster,
            reigns,
            members,
            services,
            servers,
            drain,
            _news: news,
            terms,
            traces,
        })
    }

    /// Lets operators change the level of this log.
    #[must_use]
    pub fn with_log(self, log: LogHandle) -> Self {
        // A node has one log; a second one is not looked at.
        let _ = self.services.log.set(log);
        self
    }

    /// The ports that it listens on.
    pub const fn ports(&self) -> Ports {
        self.ports
    }

    /// Serves until `stop` returns, then hands leadership over, finishes what is in flight and
    /// ends. Calls `serving` once all ports are served.
    ///
    /// # Errors
    /// When another live process has this node's id, or the ports file cannot be written.
    pub async fn run(
        self,
        stop: impl Future<Output = ()>,
        serving: impl FnOnce(),
    ) -> anyhow::Result<()> {
        let drain = self.drain;
        let mut servers = JoinSet::new();
        for server in self.servers {
            let Server {
                listener,
                router,
                counters,
            } = server;
            let terms = self.terms.clone();
            servers.spawn(serve(listener, router, terms, drain.clone(), counters));
        }
        let _follower = self
            .terms
            .tls
            .map(|tls| AbortOnDropHandle::new(tokio::spawn(tls.follow_files())));
        if let Some(path) = &self.config.service.ports_file {
            write_ports(path, &self.ports).with_context(|| {
                format!("cannot write kvcm.service.ports_file {}", path.display())
            })?;
        }
        serving();
        let result = tokio::select! {
            () = stop => {
                // Dropping what has not begun ends the election as well as stopping it.
                Ok(())
            }
            result = participate(&self.control, self.driver, &self.cluster, self.reigns) => result,
        };
        tracing::info!("stopping");
        let bound = self.config.elector.drain + STOP_GRACE;
        if tokio::time::timeout(bound, self.elector.stop())
            .await
            .is_err()
        {
            tracing::error!(
                ?bound,
                "the election did not end in time; its lease runs out by itself"
            );
        }
        let members = self.members.clone();
        let left = self
            .control
            .handle()
            .spawn(async move { members.leave().await });
        // Each of its calls is bounded; this is for a control thread that hangs.
        if tokio::time::timeout(STOP_GRACE, left).await.is_err() {
            tracing::error!(
                "the control thread does not answer; the node record expires by itself"
            );
        }
        let begun = BootClock.now();
        drain.cancel();
        while servers.join_next().await.is_some() {}
        let took = BootClock.now().since(begun);
        let left = self.config.service.drain.saturating_sub(took);
        self.traces.flush(left).await;
        tracing::info!("stopped");
        result
    }
}

/// Takes part in the cluster: first the node record, which also tells whether another process
/// has this node's id, then the election. Returns only when it cannot go on.
async fn participate(
    control: &Control,
    driver: Driver,
    cluster: &Arc<Cluster>,
    reigns: Arc<Reigns>,
) -> anyhow::Result<()> {
    let joining = cluster.clone();
    let join = control
        .handle()
        .spawn(async move { joining.members().join().await });
    AbortOnDropHandle::new(join).await??;
    control
        .run(driver)
        .context("cannot start the lease thread")?;
    cluster.campaigns();
    let beating = cluster.clone();
    let beat = control.handle().spawn(async move {
        let condition = || beating.condition();
        let beat = beating.members().run(beating.elector().clone(), condition);
        tokio::join!(beat, reigns.learn_cluster_id())
    });
    // Aborted when the node stops: a beat after its leave would bring the record back.
    let ended = AbortOnDropHandle::new(beat).await;
    anyhow::bail!("the heartbeat of the node record has ended: {ended:?}")
}

/// An election that has not turned for so long hangs.
fn turn_limit(settings: &ElectorSettings) -> Duration {
    let turns = 3 * settings.loop_interval;
    settings.lease.max(turns).max(Duration::from_secs(1))
}

fn endpoint(config: &Config, ports: &Ports) -> Endpoint {
    Endpoint {
        node_id: String::new(),
        host: advertised_host(config.service.advertised_host.as_deref()),
        meta_rpc_port: ports.rpc,
        meta_http_port: ports.http,
        admin_rpc_port: ports.admin_rpc,
        admin_http_port: ports.admin_http,
        custom_info: config.service.custom_info.clone(),
    }
}

fn backend(coordination: &Coordination, clock: Arc<dyn Clock>) -> anyhow::Result<Arc<dyn Backend>> {
    Ok(match coordination {
        Coordination::Memory => Arc::new(MemoryBackend::new(clock)),
        Coordination::File(uri) => Arc::new(FileBackend::from_uri(uri, clock)?),
        Coordination::Redis(config) => Arc::new(RedisBackend::open((**config).clone(), clock)?),
    })
}

/// The numbers of the election. A lone node has nobody to yield to.
fn settings(config: &Config, coordination: &Coordination, node: &Node) -> anyhow::Result<Settings> {
    let mut settings = Settings::new(config.elector.lease, config.elector.loop_interval);
    settings.drain = config.elector.drain;
    settings.priority = node.priority;
    // Redis can restart empty beside a leader that is cut off from it, and a registry at Redis may
    // well be lost together with it: nothing would tell a node that has just started of that leader.
    settings.absence_is_proof = !matches!(coordination, Coordination::Redis(_));
    if matches!(coordination, Coordination::Memory) {
        settings.yield_after_demote = Duration::ZERO;
    } else {
        // A rank that needs no agreement: nodes of a cluster differ in their incarnation.
        let rank = (node.owner.incarnation.bits() % 3) as u32;
        settings.stagger = Duration::from_millis(5) * rank;
    }
    settings.check().context("kvcm.leader_elector")?;
    Ok(settings)
}

/// What people and their tools read on the admin HTTP port.
fn pages(config: &Config, services: &Arc<Services>) -> Router {
    let pages = health::routes(services.clone()).merge(elections::routes(services.cluster.clone()));
    match config.metrics.prometheus {
        true => pages.merge(services.metrics.clone().routes()),
        false => pages,
    }
}

/// A listener and what it serves, for each port. `tools` adds what every gRPC port has.
fn servers(
    config: &Config,
    services: &Arc<Services>,
    listeners: Listeners,
    counters: &Counters,
    traces: &Traces,
    tools: impl Fn(Routes) -> Routes,
    protect: impl Fn(Scope, Router) -> Router,
) -> anyhow::Result<Vec<Server>> {
    let bytes = config.service.limits.request_bytes;
    let (meta, admin) = (MetaRpc(services.clone()), AdminRpc(services.clone()));
    let meta_grpc = HotMeta::new(meta.clone(), bytes);
    let admin_grpc = AdminServiceServer::new(admin.clone()).max_decoding_message_size(bytes);
    let json = || JsonRoutes::new(BodyLimits::from(&config.service));
    let server = |name, listener, router: Router, methods| {
        let (counts, traces) = (config.metrics.calls, traces.clone());
        let observe = Observe::new(methods, counts, &config.log, traces, Arc::new(BootClock));
        anyhow::Ok(Server {
            listener: TcpListener::from_std(listener)?,
            // Outermost: calls that are not let in are counted too.
            router: router.layer(observe),
            counters: counters.connections.listener(name),
        })
    };
    let http = |name, scope, service, listener, routes: JsonRoutes| {
        let router = protect(scope, routes.finish());
        server(name, listener, router, counters.calls.http(service))
    };
    let grpc = |name, listener, routes| {
        let router = protect(Scope::Grpc, tools(routes).into_axum_router());
        server(name, listener, router, counters.calls.grpc())
    };
    let mut servers = vec![
        http(
            "http",
            Scope::MetaHttp,
            "MetaService",
            listeners.http,
            meta.hot(meta.streams(meta.routes(json()))),
        )?,
        http(
            "admin_http",
            Scope::AdminHttp,
            "AdminService",
            listeners.admin_http,
            admin.routes(json()).merge(pages(config, services)),
        )?,
    ];
    let debug = listeners.debug_http.map(|own| {
        let debug = DebugRpc(services.clone());
        let grpc = DebugServiceServer::new(debug.clone()).max_decoding_message_size(bytes);
        (own, debug.routes(json()), grpc)
    });
    let (debug_http, debug_grpc) = debug
        .map(|(own, routes, grpc)| ((own, routes), grpc))
        .unzip();
    if let Some((own, routes)) = debug_http {
        servers.push(http(
            "debug_http",
            Scope::DebugHttp,
            "DebugService",
            own,
            routes,
        )?);
    }
    let rpc = Routes::new(meta_grpc);
    let with_admin = |routes: Option<Routes>| {
        let routes = match routes {
            None => Routes::new(admin_grpc),
            Some(routes) => routes.add_service(admin_grpc),
        };
        match debug_grpc {
            None => routes,
            Some(debug) => routes.add_service(debug),
        }
    };
    match listeners.admin_rpc {
        Some(own) => {
            servers.push(grpc("admin_rpc", own, with_admin(None))?);
            servers.push(grpc("rpc", listeners.rpc, rpc)?);
        }
        None => {
            servers.push(grpc("rpc", listeners.rpc, with_admin(Some(rpc)))?);
        }
    }
    Ok(servers)
}

/// Written beside its place and renamed, so that a reader sees all of it or nothing.
fn write_ports(path: &Path, ports: &Ports) -> anyhow::Result<()> {
    let mut text = serde_json::json!({
        "rpc_port": ports.rpc,
        "http_port": ports.http,
        "admin_rpc_port": ports.admin_rpc,
        "admin_http_port": ports.admin_http,
    });
    if let Some(debug) = ports.debug_http {
        text["debug_http_port"] = debug.into();
    }
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    std::fs::write(&part, text.to_string())?;
    std::fs::rename(&part, path)?;
    Ok(())
}
