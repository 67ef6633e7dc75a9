//! Fake nodes: real gRPC servers on loopback whose answers a test sets.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::needless_update,
    clippy::unwrap_used,
    reason = "each test file uses a part; a fake that cannot start fails the test"
)]

use std::{
    collections::{HashMap, HashSet},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use kvcm_client::{Client, InstanceSpec};
use kvcm_proto::{admin, meta};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tonic::{Request, Response, Status};

/// How a node answers calls of the leader.
#[derive(Clone, Debug)]
pub enum Data {
    /// As the leader, with this epoch in its replies.
    Lead { epoch: u64 },
    /// With SERVER_NOT_LEADER and perhaps a hint.
    Refuse { hint: Option<(u64, SocketAddr)> },
    /// With this code and message.
    Code(meta::ErrorCode, &'static str),
    /// Never.
    Silent,
}

/// What a node says about the leader; `None`: that it knows none.
pub type Says = Option<(u64, SocketAddr)>;

/// What a test sets, and what it can look at afterwards.
#[derive(Debug)]
pub struct State {
    pub data: Data,
    pub says: Says,
    /// All nodes, as it says to whoever asks.
    pub nodes: Vec<SocketAddr>,
    /// After so many refusals, become this.
    pub then: Option<(usize, Data, Says)>,
    pub instances: HashSet<String>,
    pub sessions: HashMap<String, usize>,
    pub stored: HashSet<i64>,
    pub request_ids: Vec<String>,
    pub min_epochs: Vec<Option<String>>,
    pub finished: Vec<meta::BlockMask>,
    pub demotions: Vec<Option<u64>>,
    /// The last `authorization` of each call.
    pub authorizations: Vec<String>,
}

/// A fake node in a runtime of its own, so that it can die like a process.
pub struct Fake {
    pub address: SocketAddr,
    pub admin_address: SocketAddr,
    pub state: Arc<Mutex<State>>,
    pub data_calls: Arc<AtomicUsize>,
    pub info_calls: Arc<AtomicUsize>,
    /// Woken after every data call that arrives.
    pub called: Arc<tokio::sync::Notify>,
    /// What WatchClusterInfo tells; `None`: the node does not have the call.
    pub pushes: Arc<tokio::sync::watch::Sender<Option<Says>>>,
    runtime: Option<Runtime>,
}

#[derive(Clone)]
struct Service {
    address: SocketAddr,
    admin_port: u16,
    state: Arc<Mutex<State>>,
    data_calls: Arc<AtomicUsize>,
    info_calls: Arc<AtomicUsize>,
    called: Arc<tokio::sync::Notify>,
    pushes: Arc<tokio::sync::watch::Sender<Option<Says>>>,
}

static SESSIONS: AtomicU64 = AtomicU64::new(0);

impl Fake {
    /// A node that leads in `epoch` and says so.
    pub fn leader(epoch: u64) -> Self {
        let fake = Self::start(Data::Lead { epoch }, None);
        fake.state.lock().says = Some((epoch, fake.address));
        fake
    }

    /// A node that refuses without a hint and says `says`.
    pub fn follower(says: Says) -> Self {
        Self::start(Data::Refuse { hint: None }, says)
    }

    pub fn start(data: Data, says: Says) -> Self {
        Self::start_at("127.0.0.1:0", data, says)
    }

    /// A node at an address of the past.
    pub fn start_at(address: &str, data: Data, says: Says) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let _guard = runtime.enter();
        let (listener, address) = listen(address);
        let (admin_listener, admin_address) = listen("127.0.0.1:0");
        let state = State {
            data,
            says,
            nodes: Vec::new(),
            then: None,
            instances: HashSet::new(),
            sessions: HashMap::new(),
            stored: HashSet::new(),
            request_ids: Vec::new(),
            min_epochs: Vec::new(),
            finished: Vec::new(),
            demotions: Vec::new(),
            authorizations: Vec::new(),
        };
        let service = Service {
            address,
            admin_port: admin_address.port(),
            state: Arc::new(Mutex::new(state)),
            data_calls: Arc::default(),
            info_calls: Arc::default(),
            called: Arc::default(),
            pushes: Arc::new(tokio::sync::watch::Sender::new(None)),
        };
        let mut fake = Self {
            address,
            admin_address,
            state: Arc::clone(&service.state),
            data_calls: Arc::clone(&service.data_calls),
            info_calls: Arc::clone(&service.info_calls),
            called: Arc::clone(&service.called),
            pushes: Arc::clone(&service.pushes),
            runtime: None,
        };
        let meta = meta::meta_service_server::MetaServiceServer::new(service.clone());
        let admin = admin::admin_service_server::AdminServiceServer::new(service);
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(meta)
                .serve_with_incoming(listener),
        );
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(admin)
                .serve_with_incoming(admin_listener),
        );
        drop(_guard);
        fake.runtime = Some(runtime);
        fake
    }

    /// Every socket closes at once, whatever is in flight.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // On a thread of its own: a runtime must not be waited for inside another one.
            let wait = std::time::Duration::from_secs(10);
            let ended = std::thread::spawn(move || runtime.shutdown_timeout(wait)).join();
            ended.unwrap();
        }
    }

    pub fn lead(&self, epoch: u64) {
        let mut state = self.state.lock();
        state.data = Data::Lead { epoch };
        state.says = Some((epoch, self.address));
    }

    pub fn refuse(&self, hint: Option<(u64, SocketAddr)>) {
        let mut state = self.state.lock();
        state.data = Data::Refuse { hint };
        state.says = hint;
    }

    /// Has WatchClusterInfo, and tells this.
    pub fn push(&self, says: Says) {
        self.pushes.send_replace(Some(says));
    }

    pub fn endpoint(&self) -> String {
        self.address.to_string()
    }

    pub fn data_calls(&self) -> usize {
        self.data_calls.load(Ordering::SeqCst)
    }

    pub fn info_calls(&self) -> usize {
        self.info_calls.load(Ordering::SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.kill();
    }
}

type Incoming = tonic::transport::server::TcpIncoming;

fn listen(address: &str) -> (Incoming, SocketAddr) {
    let listener = TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    (Incoming::from(listener).with_nodelay(Some(true)), address)
}

/// An address where nobody listens.
pub fn dead_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// A listener that takes connections and never says a word.
pub fn silent_listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

pub async fn connect(endpoints: &[String]) -> Client {
    Client::builder()
        .endpoints(endpoints)
        .connect()
        .await
        .unwrap()
}

pub fn spec() -> InstanceSpec {
    InstanceSpec::new("default", "i", 16)
        .model("m", "bf16")
        .piece("tp0", 1)
}

fn status(code: meta::ErrorCode, message: &str) -> Option<meta::Status> {
    Some(meta::Status {
        code: code.into(),
        message: message.to_owned(),
    })
}

fn endpoint(address: SocketAddr, admin_port: u16) -> meta::NodeEndpoint {
    meta::NodeEndpoint {
        node_id: node_id(address),
        host: address.ip().to_string(),
        meta_rpc_port: address.port().into(),
        admin_rpc_port: admin_port.into(),
        ..meta::NodeEndpoint::default()
    }
}

fn node_id(address: SocketAddr) -> String {
    format!("node-{}", address.port())
}

type Header = meta::CommonResponseHeader;

impl Service {
    /// Notes the call; an OK header when the node leads, otherwise one that refuses.
    async fn admit<T>(&self, request: &Request<T>) -> Result<Header, Header> {
        let metadata = request.metadata();
        let text = |key| {
            let value = metadata.get(key);
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        self.data_calls.fetch_add(1, Ordering::SeqCst);
        let data = {
            let mut state = self.state.lock();
            state.min_epochs.push(text("x-kvcm-min-epoch"));
            state.request_ids.extend(text("x-kvcm-request-id"));
            state.authorizations.extend(text("authorization"));
            let turn = match &mut state.then {
                Some((0, ..)) => true,
                Some((left, ..)) => {
                    *left -= 1;
                    false
                }
                None => false,
            };
            if turn && let Some((_, data, says)) = state.then.take() {
                state.data = data;
                state.says = says;
            }
            state.data.clone()
        };
        self.called.notify_waiters();
        match data {
            Data::Lead { epoch } => Ok(Header {
                status: status(meta::ErrorCode::Ok, ""),
                request_id: "r".to_owned(),
                epoch: Some(epoch),
                cluster_id: Some("c".to_owned()),
                ..Header::default()
            }),
            Data::Refuse { hint } => Err(Header {
                status: status(meta::ErrorCode::ServerNotLeader, ""),
                leader_hint: hint.map(|(epoch, address)| meta::LeaderHint {
                    node_id: node_id(address),
                    endpoint: Some(endpoint(address, 0)),
                    epoch,
                    ..meta::LeaderHint::default()
                }),
                ..Header::default()
            }),
            Data::Code(code, message) => Err(Header {
                status: status(code, message),
                ..Header::default()
            }),
            Data::Silent => std::future::pending().await,
        }
    }

    fn info(&self, says: Says) -> meta::GetClusterInfoResponse {
        let admin_port = |leader| {
            if leader == self.address {
                self.admin_port
            } else {
                0
            }
        };
        meta::GetClusterInfoResponse {
            header: Some(Header {
                status: status(meta::ErrorCode::Ok, ""),
                ..Header::default()
            }),
            self_node_id: node_id(self.address),
            leader_node_id: says.map(|(_, leader)| node_id(leader)).unwrap_or_default(),
            leader_endpoint: says.map(|(_, leader)| endpoint(leader, admin_port(leader))),
            leader_epoch: says.map(|(epoch, _)| epoch),
            nodes: self
                .state
                .lock()
                .nodes
                .iter()
                .map(|node| endpoint(*node, 0))
                .collect(),
            ..Default::default()
        }
    }

    fn known(&self, id: &str, header: Header) -> Header {
        if self.state.lock().instances.contains(id) {
            return header;
        }
        Header {
            status: status(meta::ErrorCode::InstanceNotExist, id),
            ..header
        }
    }
}

fn is_ok(header: &Header) -> bool {
    let code = header.status.as_ref().map(|status| status.code);
    code == Some(meta::ErrorCode::Ok.into())
}

fn places(count: usize) -> Vec<meta::CacheLocation> {
    (0..count)
        .map(|index| meta::CacheLocation {
            r#type: meta::StorageType::StNfs.into(),
            spec_size: 1,
            location_specs: vec![meta::LocationSpec {
                name: "tp0".to_owned(),
                uri: format!("file://s/{index}"),
            }],
        })
        .collect()
}

macro_rules! admit {
    ($self:ident, $request:ident, $response:ident) => {
        match $self.admit(&$request).await {
            Ok(header) => {
                let header = $self.known(&$request.get_ref().instance_id, header);
                if !is_ok(&header) {
                    return Ok(Response::new(meta::$response {
                        header: Some(header),
                        ..Default::default()
                    }));
                }
                header
            }
            Err(header) => {
                return Ok(Response::new(meta::$response {
                    header: Some(header),
                    ..Default::default()
                }));
            }
        }
    };
}

#[tonic::async_trait]
impl meta::meta_service_server::MetaService for Service {
    async fn register_instance(
        &self,
        request: Request<meta::RegisterInstanceRequest>,
    ) -> Result<Response<meta::RegisterInstanceResponse>, Status> {
        let header = match self.admit(&request).await {
            Ok(header) => {
                let mut state = self.state.lock();
                state.instances.insert(request.into_inner().instance_id);
                header
            }
            Err(header) => header,
        };
        Ok(Response::new(meta::RegisterInstanceResponse {
            header: Some(header),
            storage_configs: "[]".to_owned(),
            ..Default::default()
        }))
    }

    async fn get_instance_info(
        &self,
        _: Request<meta::GetInstanceInfoRequest>,
    ) -> Result<Response<meta::GetInstanceInfoResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn get_cache_location(
        &self,
        request: Request<meta::GetCacheLocationRequest>,
    ) -> Result<Response<meta::GetCacheLocationResponse>, Status> {
        let header = admit!(self, request, GetCacheLocationResponse);
        let state = self.state.lock();
        let keys = &request.get_ref().block_keys;
        let hits = keys
            .iter()
            .take_while(|key| state.stored.contains(key))
            .count();
        Ok(Response::new(meta::GetCacheLocationResponse {
            header: Some(header),
            locations: places(hits),
        }))
    }

    async fn get_cache_location_len(
        &self,
        request: Request<meta::GetCacheLocationLenRequest>,
    ) -> Result<Response<meta::GetCacheLocationLenResponse>, Status> {
        let header = admit!(self, request, GetCacheLocationLenResponse);
        let state = self.state.lock();
        let keys = &request.get_ref().block_keys;
        let hits = keys
            .iter()
            .take_while(|key| state.stored.contains(key))
            .count();
        Ok(Response::new(meta::GetCacheLocationLenResponse {
            header: Some(header),
            cache_location_len: hits as i64,
        }))
    }

    async fn get_cache_meta(
        &self,
        _: Request<meta::GetCacheMetaRequest>,
    ) -> Result<Response<meta::GetCacheMetaResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn start_write_cache(
        &self,
        request: Request<meta::StartWriteCacheRequest>,
    ) -> Result<Response<meta::StartWriteCacheResponse>, Status> {
        let header = admit!(self, request, StartWriteCacheResponse);
        let mut state = self.state.lock();
        let keys = request.into_inner().block_keys;
        let known: Vec<bool> = keys.iter().map(|key| state.stored.contains(key)).collect();
        let new = known.iter().filter(|known| !**known).count();
        let id = format!("session-{}", SESSIONS.fetch_add(1, Ordering::SeqCst));
        state.sessions.insert(id.clone(), new);
        state.stored.extend(&keys);
        Ok(Response::new(meta::StartWriteCacheResponse {
            header: Some(header),
            write_session_id: id,
            block_mask: Some(meta::BlockMask {
                info: Some(meta::block_mask::Info::BoolMasks(meta::BoolMasksType {
                    values: known,
                })),
            }),
            locations: places(new),
        }))
    }

    async fn finish_write_cache(
        &self,
        request: Request<meta::FinishWriteCacheRequest>,
    ) -> Result<Response<meta::CommonResponse>, Status> {
        let mut header = admit!(self, request, CommonResponse);
        let request = request.into_inner();
        let mut state = self.state.lock();
        if state.sessions.remove(&request.write_session_id).is_none() {
            let gone = "write_session_id has been deleted";
            header.status = status(meta::ErrorCode::InternalError, gone);
        } else {
            state.finished.extend(request.success_blocks);
        }
        drop(state);
        self.called.notify_waiters();
        Ok(Response::new(meta::CommonResponse {
            header: Some(header),
        }))
    }

    async fn remove_cache(
        &self,
        request: Request<meta::RemoveCacheRequest>,
    ) -> Result<Response<meta::CommonResponse>, Status> {
        let header = admit!(self, request, CommonResponse);
        for key in &request.get_ref().block_keys {
            self.state.lock().stored.remove(key);
        }
        Ok(Response::new(meta::CommonResponse {
            header: Some(header),
        }))
    }

    async fn trim_cache(
        &self,
        request: Request<meta::TrimCacheRequest>,
    ) -> Result<Response<meta::CommonResponse>, Status> {
        let header = admit!(self, request, CommonResponse);
        self.state.lock().stored.clear();
        Ok(Response::new(meta::CommonResponse {
            header: Some(header),
        }))
    }

    async fn get_cluster_info(
        &self,
        _: Request<meta::GetClusterInfoRequest>,
    ) -> Result<Response<meta::GetClusterInfoResponse>, Status> {
        self.info_calls.fetch_add(1, Ordering::SeqCst);
        let (says, silent) = {
            let state = self.state.lock();
            (state.says, matches!(state.data, Data::Silent))
        };
        if silent {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(self.info(says)))
    }

    type WatchClusterInfoStream = tonic::codegen::BoxStream<meta::GetClusterInfoResponse>;

    async fn watch_cluster_info(
        &self,
        _: Request<meta::WatchClusterInfoRequest>,
    ) -> Result<Response<Self::WatchClusterInfoStream>, Status> {
        let mut pushes = self.pushes.subscribe();
        if pushes.borrow().is_none() {
            return Err(Status::unimplemented("an old server"));
        }
        pushes.mark_changed();
        let next = |(mut pushes, service): (tokio::sync::watch::Receiver<_>, Self)| async move {
            pushes.changed().await.ok()?;
            let says: Option<Says> = *pushes.borrow_and_update();
            Some((Ok(service.info(says.flatten())), (pushes, service)))
        };
        let stream = futures_util::stream::unfold((pushes, self.clone()), next);
        Ok(Response::new(Box::pin(stream)))
    }
}

/// AdminService of the calls that the client makes; the others are not needed.
macro_rules! admin_service {
    ($({ $($own:tt)* })? $($rpc:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl admin::admin_service_server::AdminService for Service {
            $($($own)*)?
            $(
                async fn $rpc(
                    &self,
                    _: Request<admin::$request>,
                ) -> Result<Response<admin::$response>, Status> {
                    Err(not_needed())
                }
            )*
        }
    };
}

admin_service! {
    {
        async fn check_health(
            &self,
            _: Request<admin::CheckHealthRequest>,
        ) -> Result<Response<admin::CheckHealthResponse>, Status> {
            let is_leader = matches!(self.state.lock().data, Data::Lead { .. });
            Ok(Response::new(admin::CheckHealthResponse {
                header: Some(admin_header(admin::ErrorCode::Ok)),
                is_leader,
                is_health: true,
                ..Default::default()
            }))
        }

        async fn leader_demote(
            &self,
            request: Request<admin::LeaderDemoteRequest>,
        ) -> Result<Response<admin::CommonResponse>, Status> {
            let expected = request.get_ref().expected_epoch;
            let mut state = self.state.lock();
            state.demotions.push(expected);
            let code = match state.data {
                Data::Lead { epoch } if expected.is_none_or(|expected| expected == epoch) => {
                    state.data = Data::Refuse { hint: None };
                    state.says = None;
                    admin::ErrorCode::Ok
                }
                _ => admin::ErrorCode::ServerNotLeader,
            };
            Ok(Response::new(admin::CommonResponse {
                header: Some(admin_header(code)),
            }))
        }
    }

    add_storage(AddStorageRequest) -> CommonResponse;
    enable_storage(EnableStorageRequest) -> CommonResponse;
    disable_storage(DisableStorageRequest) -> CommonResponse;
    remove_storage(RemoveStorageRequest) -> CommonResponse;
    update_storage(UpdateStorageRequest) -> CommonResponse;
    list_storage(ListStorageRequest) -> ListStorageResponse;
    create_instance_group(CreateInstanceGroupRequest) -> CommonResponse;
    update_instance_group(UpdateInstanceGroupRequest) -> CommonResponse;
    remove_instance_group(RemoveInstanceGroupRequest) -> CommonResponse;
    get_instance_group(GetInstanceGroupRequest) -> GetInstanceGroupResponse;
    list_instance_group(ListInstanceGroupRequest) -> ListInstanceGroupResponse;
    get_cache_meta(GetCacheMetaRequest) -> GetCacheMetaResponse;
    remove_cache(RemoveCacheRequest) -> CommonResponse;
    register_instance(RegisterInstanceRequest) -> CommonResponse;
    remove_instance(RemoveInstanceRequest) -> CommonResponse;
    get_instance_info(GetInstanceInfoRequest) -> GetInstanceInfoResponse;
    list_instance_info(ListInstanceInfoRequest) -> ListInstanceInfoResponse;
    add_account(AddAccountRequest) -> CommonResponse;
    delete_account(DeleteAccountRequest) -> CommonResponse;
    list_account(ListAccountRequest) -> ListAccountResponse;
    gen_config_snapshot(GenConfigSnapshotRequest) -> ConfigSnapShotResponse;
    load_config_snapshot(LoadConfigSnapshotRequest) -> CommonResponse;
    get_metrics(GetMetricsRequest) -> GetMetricsResponse;
    get_manager_cluster_info(GetManagerClusterInfoRequest) -> GetManagerClusterInfoResponse;
    get_leader_elector_config(GetLeaderElectorConfigRequest) -> GetLeaderElectorConfigResponse;
    update_leader_elector_config(UpdateLeaderElectorConfigRequest) -> CommonResponse;
    set_candidacy(SetCandidacyRequest) -> CommonResponse;
    update_logger(UpdateLoggerRequest) -> CommonResponse;
}

fn not_needed() -> Status {
    Status::unimplemented("not needed")
}

fn admin_header(code: admin::ErrorCode) -> admin::CommonResponseHeader {
    admin::CommonResponseHeader {
        status: Some(admin::Status {
            code: code.into(),
            message: String::new(),
        }),
        ..Default::default()
    }
}
