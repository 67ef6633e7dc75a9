//! Whole drivers over one memory backend, in virtual time.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use coordination_core::{
    Backend, DeleteOutcome, Error, Expect, HintStream, Holder, LEADER_KEY, LockOutcome, Owner,
    RenewOutcome, Reservation, SetOutcome, TryLock, UnlockOutcome, Value,
};
use coordination_memory::MemoryBackend;
use elector::{
    Driver, Elector, Leadership, LossReason, Parts, PromoteError, Promotion, Role, Settings,
};
use kvcm_clock::{Clock, Moment, TokioTimer, VirtualClock};
use kvcm_fence::{Epoch, Incarnation};
use tokio::{task::JoinHandle, time::sleep};

use crate::stage::{LEASE, LOOP, MS};

/// What the way to the backend does to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Fine,
    /// No answer, ever.
    Hangs,
    /// An error that may pass.
    Fails,
    /// An error that only people can repair.
    Refuses,
    /// The call arrives, its answer does not.
    LosesAnswers,
}

/// One node's way to the backend.
#[derive(Debug)]
pub(crate) struct Link {
    inner: MemoryBackend,
    way: Mutex<Way>,
    pub(crate) renewals: AtomicU64,
    pub(crate) tries: AtomicU64,
}

impl Link {
    pub(crate) fn set(&self, way: Way) {
        *self.way.lock().unwrap() = way;
    }

    async fn pass<T>(
        &self,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let way = *self.way.lock().unwrap();
        match way {
            Way::Fine => call.await,
            Way::Hangs => std::future::pending().await,
            Way::Fails => Err(Error::not_done("down")),
            Way::Refuses => Err(Error::fatal("give the right password", "wrong password")),
            Way::LosesAnswers => {
                let _ = call.await;
                std::future::pending().await
            }
        }
    }
}

#[async_trait]
impl Backend for Link {
    fn describe(&self) -> String {
        "link".to_owned()
    }
    async fn try_lock(&self, request: TryLock<'_>, at: Moment) -> Result<LockOutcome, Error> {
        self.tries.fetch_add(1, SeqCst);
        self.pass(self.inner.try_lock(request, at)).await
    }
    async fn renew_lock(
        &self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        ttl: Duration,
        info: &str,
        at: Moment,
    ) -> Result<RenewOutcome, Error> {
        self.renewals.fetch_add(1, SeqCst);
        self.pass(self.inner.renew_lock(key, owner, epoch, ttl, info, at))
            .await
    }
    async fn unlock(
        &self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        reserve_for: Option<&Reservation>,
        at: Moment,
    ) -> Result<UnlockOutcome, Error> {
        self.pass(self.inner.unlock(key, owner, epoch, reserve_for, at))
            .await
    }
    async fn lock_holder(&self, key: &str, at: Moment) -> Result<Option<Holder>, Error> {
        self.pass(self.inner.lock_holder(key, at)).await
    }
    async fn set_value(
        &self,
        key: &str,
        text: &str,
        ttl: Option<Duration>,
        expect: Expect,
        at: Moment,
    ) -> Result<SetOutcome, Error> {
        self.inner.set_value(key, text, ttl, expect, at).await
    }
    async fn get_value(&self, key: &str, at: Moment) -> Result<Option<Value>, Error> {
        self.inner.get_value(key, at).await
    }
    async fn delete_value(
        &self,
        key: &str,
        expect: Expect,
        at: Moment,
    ) -> Result<DeleteOutcome, Error> {
        self.inner.delete_value(key, expect, at).await
    }
    async fn list_values(&self, prefix: &str, at: Moment) -> Result<Vec<(String, Value)>, Error> {
        self.inner.list_values(prefix, at).await
    }
    fn watch(&self, key: &str) -> HintStream {
        self.inner.watch(key)
    }
}

/// What the promote callback does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    Takes(Duration),
    Fails,
    Panics,
    Hangs,
}

/// Callbacks that keep a log.
pub(crate) struct Log {
    lines: Mutex<Vec<String>>,
    pub(crate) recovery: Mutex<Recovery>,
    /// Whether the lock was held when this node flushed.
    pub(crate) flushed_under_lock: AtomicBool,
    store: MemoryBackend,
}

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.lines.lock().unwrap().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        let lines = self.lines();
        lines.iter().filter(|line| line.starts_with(what)).count()
    }
}

#[async_trait]
impl Leadership for Log {
    async fn on_become_leader(&self, promotion: Promotion) -> Result<(), PromoteError> {
        self.add("promote");
        let recovery = *self.recovery.lock().unwrap();
        let time = match recovery {
            Recovery::Takes(time) => time,
            Recovery::Fails => return Err(PromoteError::Failed("a bad entry".to_owned())),
            Recovery::Panics => panic!("as asked"),
            Recovery::Hangs => Duration::from_secs(1_000_000),
        };
        tokio::select! {
            () = sleep(time) => {}
            () = promotion.cancel.cancelled() => self.add("cancelled"),
        }
        Ok(())
    }
    async fn quiesce(&self, _: Epoch) {
        self.add("quiesce");
    }
    async fn flush(&self, epoch: Epoch) {
        self.add("flush");
        let holder = self.store.lock_holder(LEADER_KEY, Moment::NEVER).await;
        let held = holder.unwrap().is_some_and(|holder| holder.epoch == epoch);
        self.flushed_under_lock.store(held, SeqCst);
    }
    async fn on_no_longer_leader(&self, _: Epoch, reason: LossReason) {
        self.add(format!("demote: {reason}"));
    }
}

/// The cluster's time, as the machine of one node sees it: it can be suspended.
#[derive(Debug)]
pub(crate) struct NodeClock {
    base: VirtualClock,
    suspended_ns: AtomicU64,
}

impl NodeClock {
    /// The machine was suspended: time has passed, and no timer has noticed.
    pub(crate) fn suspend(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap();
        self.suspended_ns.fetch_add(nanos, SeqCst);
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Moment {
        self.base.now() + Duration::from_nanos(self.suspended_ns.load(SeqCst))
    }
}

/// One process.
pub(crate) struct Node {
    pub(crate) elector: Elector,
    pub(crate) log: Arc<Log>,
    pub(crate) link: Arc<Link>,
    pub(crate) clock: Arc<NodeClock>,
    tasks: Vec<JoinHandle<()>>,
}

impl Node {
    /// As `kill -9`: nothing of it runs any more, the lock stays.
    pub(crate) fn kill(&self) {
        for task in &self.tasks {
            task.abort();
        }
    }

    pub(crate) fn role(&self) -> Role {
        self.elector.view().role
    }

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.elector.view().epoch
    }

    pub(crate) fn serves(&self) -> bool {
        self.elector.gate().admit().is_ok()
    }

    pub(crate) async fn reaches(&self, role: Role) {
        let mut view = self.elector.watch();
        let reached = view.wait_for(|view| view.role == role);
        let reached = tokio::time::timeout(Duration::from_secs(60), reached).await;
        drop(reached.unwrap().unwrap());
    }
}

/// Some nodes and what they share.
pub(crate) struct Cluster {
    pub(crate) clock: VirtualClock,
    pub(crate) store: MemoryBackend,
}

pub(crate) fn settings() -> Settings {
    let mut settings = Settings::new(LEASE, LOOP);
    settings.drain = MS(500);
    settings
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let clock = VirtualClock::new();
        let store = MemoryBackend::new(Arc::new(clock));
        Self { clock, store }
    }

    pub(crate) fn node(&self, name: &str) -> Node {
        self.node_with(name, settings(), Recovery::Takes(Duration::ZERO))
    }

    pub(crate) fn node_with(&self, name: &str, settings: Settings, recovery: Recovery) -> Node {
        let link = Arc::new(Link {
            inner: self.store.clone(),
            way: Mutex::new(Way::Fine),
            renewals: AtomicU64::new(0),
            tries: AtomicU64::new(0),
        });
        let log = Arc::new(Log {
            lines: Mutex::default(),
            recovery: Mutex::new(recovery),
            flushed_under_lock: AtomicBool::new(false),
            store: self.store.clone(),
        });
        let clock = Arc::new(NodeClock {
            base: self.clock,
            suspended_ns: AtomicU64::new(0),
        });
        let (elector, driver) = elector::start(Parts {
            settings,
            owner: Owner {
                node: name.parse().unwrap(),
                incarnation: Incarnation::random(),
            },
            key: LEADER_KEY.to_owned(),
            endpoint: serde_json::json!({ "host": name }),
            backend: link.clone(),
            leadership: log.clone(),
            clock: clock.clone(),
            timer: Arc::new(TokioTimer::new(self.clock)),
            spawner: Arc::new(tokio::runtime::Handle::current()),
        });
        let Driver {
            lock_loop,
            transitions,
            lease_check,
        } = driver;
        let tasks = vec![
            tokio::spawn(lock_loop),
            tokio::spawn(transitions),
            tokio::spawn(lease_check.run(clock.clone())),
        ];
        Node {
            elector,
            log,
            link,
            clock,
            tasks,
        }
    }
}
