//! Several elections over one memory backend, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "cluster/hand_over.rs"]
mod hand_over;
#[path = "cluster/hung.rs"]
mod hung;

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
    DemoteOutcome, Driver, Elector, Leadership, LossReason, Parts, PromoteError, Promotion, Role,
    Settings, Spawn,
};
use kvcm_clock::{Clock, Moment, Timer, TokioTimer, VirtualClock};
use kvcm_fence::{Epoch, Incarnation};
use tokio::task::JoinHandle;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A backend whose calls can be made to hang or to fail.
#[derive(Debug)]
struct Flaky {
    inner: MemoryBackend,
    hang: AtomicBool,
    fail: AtomicBool,
}

impl Flaky {
    async fn pass(&self) -> Result<(), Error> {
        if self.hang.load(SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.fail.load(SeqCst) {
            Err(Error::not_done("down"))
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl Backend for Flaky {
    fn describe(&self) -> String {
        "flaky".to_owned()
    }
    async fn try_lock(&self, request: TryLock<'_>, at: Moment) -> Result<LockOutcome, Error> {
        self.pass().await?;
        self.inner.try_lock(request, at).await
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
        self.pass().await?;
        self.inner
            .renew_lock(key, owner, epoch, ttl, info, at)
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
        self.pass().await?;
        self.inner.unlock(key, owner, epoch, reserve_for, at).await
    }
    async fn lock_holder(&self, key: &str, at: Moment) -> Result<Option<Holder>, Error> {
        self.pass().await?;
        self.inner.lock_holder(key, at).await
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

/// Callbacks that keep a log and can be made to misbehave.
#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    promote_for_ms: AtomicU64,
    fail: AtomicBool,
    panic: AtomicBool,
    /// A store that remembers a claim, and whom the callback tells of it.
    former: Mutex<Option<(Elector, Epoch)>>,
    /// The callback that does not return.
    hangs: Mutex<&'static str>,
}

impl Log {
    /// A callback was called; it may never return.
    async fn call(&self, name: &'static str) {
        self.add(name.to_owned());
        if *self.hangs.lock().unwrap() == name {
            std::future::pending::<()>().await;
        }
    }

    fn add(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

#[async_trait]
impl Leadership for Log {
    async fn on_become_leader(&self, promotion: Promotion) -> Result<(), PromoteError> {
        self.add("promote".to_owned());
        assert!(!self.panic.load(SeqCst), "as asked");
        tokio::select! {
            () = tokio::time::sleep(MS(self.promote_for_ms.load(SeqCst))) => {}
            () = promotion.cancel.cancelled(), if *self.hangs.lock().unwrap() != "promote" => {
                self.add("cancelled".to_owned());
            }
        }
        let former = self.former.lock().unwrap().clone();
        if let Some((elector, former)) = former {
            elector.store_remembers(former).await;
        }
        if self.fail.load(SeqCst) {
            return Err(PromoteError::Failed("as asked".to_owned()));
        }
        Ok(())
    }
    async fn quiesce(&self, _: Epoch) {
        self.call("quiesce").await;
    }
    async fn resume(&self, _: Epoch) {
        self.call("resume").await;
    }
    async fn flush(&self, _: Epoch) {
        self.call("flush").await;
    }
    async fn on_no_longer_leader(&self, _: Epoch, reason: LossReason) {
        self.add(format!("demote: {reason}"));
        if *self.hangs.lock().unwrap() == "demote" {
            std::future::pending::<()>().await;
        }
    }
    async fn probe(&self) -> Result<(), String> {
        self.call("probe").await;
        Ok(())
    }
}

struct Node {
    owner: Owner,
    elector: Elector,
    log: Arc<Log>,
    backend: Arc<Flaky>,
    tasks: Vec<JoinHandle<()>>,
}

impl Node {
    /// As `kill -9`: nothing of it runs any more, the lock stays.
    fn kill(&self) {
        for task in &self.tasks {
            task.abort();
        }
    }

    fn role(&self) -> Role {
        self.elector.view().role
    }

    async fn reaches(&self, role: Role) {
        let mut view = self.elector.watch();
        let reached = view.wait_for(|view| view.role == role);
        tokio::time::timeout(Duration::from_secs(60), reached)
            .await
            .unwrap()
            .unwrap();
    }
}

#[derive(Clone)]
struct Cluster {
    clock: Arc<VirtualClock>,
    store: MemoryBackend,
}

impl Cluster {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        Self {
            // As a wall clock it goes on, whatever the time of the test.
            store: MemoryBackend::with_wall_clock(clock.clone(), {
                let wall = AtomicU64::new(1_000);
                move || wall.fetch_add(1_000, SeqCst)
            }),
            clock,
        }
    }

    fn node(&self, name: &str) -> Node {
        let mut settings = Settings::new(MS(1000), MS(100));
        settings.drain = MS(500);
        self.node_with(name, settings)
    }

    fn node_with(&self, name: &str, settings: Settings) -> Node {
        let timer = Arc::new(TokioTimer::new(*self.clock));
        let spawner = Arc::new(tokio::runtime::Handle::current());
        self.node_on(name, settings, timer, spawner)
    }

    fn node_on(
        &self,
        name: &str,
        settings: Settings,
        timer: Arc<dyn Timer>,
        spawner: Arc<dyn Spawn>,
    ) -> Node {
        let backend = Arc::new(Flaky {
            inner: self.store.clone(),
            hang: AtomicBool::new(false),
            fail: AtomicBool::new(false),
        });
        let log = Arc::new(Log::default());
        let owner = Owner {
            node: name.parse().unwrap(),
            incarnation: Incarnation::random(),
        };
        let (elector, driver) = elector::start(Parts {
            settings,
            owner: owner.clone(),
            key: LEADER_KEY.to_owned(),
            endpoint: serde_json::json!({ "host": name }),
            backend: backend.clone(),
            leadership: log.clone(),
            clock: self.clock.clone(),
            timer,
            spawner,
        });
        let Driver {
            lock_loop,
            transitions,
            lease_check,
        } = driver;
        let tasks = vec![
            tokio::spawn(lock_loop),
            tokio::spawn(transitions),
            tokio::spawn(lease_check.run(self.clock.clone())),
        ];
        Node {
            owner,
            elector,
            log,
            backend,
            tasks,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_followed_right_after_its_lease() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    tokio::time::sleep(MS(350)).await;
    assert_eq!(b.role(), Role::Follower);
    let seen = b.elector.view().leader.clone().unwrap();
    assert_eq!(
        (seen.owner.node.as_str(), Some(seen.epoch)),
        ("a", a.elector.view().epoch)
    );
    assert!(seen.info.contains(r#""phase":"serving""#), "{}", seen.info);
    a.kill();
    let killed = cluster.clock.now();
    b.reaches(Role::Leader).await;
    let gap = cluster.clock.now().since(killed);
    assert!((MS(900)..=MS(1005)).contains(&gap), "{gap:?}");
    assert!(b.elector.view().epoch > Some(seen.epoch));
    // The dead one's gate is shut by the clock alone.
    assert_eq!(a.elector.gate().open_epoch(), None);
}

#[tokio::test(start_paused = true)]
async fn a_step_down_hands_over_at_once_and_in_order() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    tokio::time::sleep(MS(50)).await;
    let epoch = a.elector.view().epoch.unwrap();
    let admission = a.elector.gate().admit().unwrap();
    let asked = {
        let elector = a.elector.clone();
        tokio::spawn(async move { elector.demote(Some(epoch)).await })
    };
    // A request in flight keeps the lock, and can still be answered; nothing new gets in.
    tokio::time::sleep(MS(200)).await;
    assert_eq!(b.role(), Role::Follower);
    assert!(a.elector.gate().admit().is_err());
    admission.confirm().unwrap();
    drop(admission);
    let released = cluster.clock.now();
    assert_eq!(asked.await.unwrap(), DemoteOutcome::Done(epoch));
    b.reaches(Role::Leader).await;
    assert!(cluster.clock.now().since(released) < MS(5));
    a.reaches(Role::Follower).await;
    assert_eq!(
        a.log.lines(),
        [
            "promote",
            "quiesce",
            "flush",
            "demote: step-down was requested"
        ]
    );
    // Both can tell how it came about.
    let told = |node: &Node| {
        let history = node.elector.history().into_iter();
        let told = history.map(|record| (record.change.epoch, record.change.turn.to_string()));
        told.collect::<Vec<_>>()
    };
    let later = b.elector.view().epoch.unwrap();
    assert_eq!(
        told(&a)[..2],
        [
            (epoch, "won: first".to_owned()),
            (epoch, "released: requested".to_owned())
        ]
    );
    assert_eq!(
        told(&b),
        [
            (epoch, "seen: other".to_owned()),
            (later, "won: released".to_owned())
        ]
    );
    let measures = a.elector.measures();
    assert_eq!(measures.changes[&("released", "requested")], 1);
    assert!(measures.renew.count() > 0 && measures.lateness.count() > 0);
    // The repeated demand of a client does not hit the successor, nor a node that follows.
    assert_eq!(
        b.elector.demote(Some(epoch)).await,
        DemoteOutcome::OtherEpoch(b.elector.view().epoch.unwrap())
    );
    assert_eq!(a.elector.demote(None).await, DemoteOutcome::NotLeader);
}

#[tokio::test(start_paused = true)]
async fn a_drain_is_bounded() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let admission = a.elector.gate().admit().unwrap();
    let before = cluster.clock.now();
    assert!(matches!(
        a.elector.demote(None).await,
        DemoteOutcome::Done(_)
    ));
    let took = cluster.clock.now().since(before);
    assert!((MS(500)..MS(700)).contains(&took), "{took:?}");
    assert!(admission.confirm().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_hung_backend_costs_the_lease_and_no_more() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    tokio::time::sleep(MS(250)).await;
    a.backend.hang.store(true, SeqCst);
    tokio::time::sleep(MS(850)).await;
    assert!(
        a.elector.gate().open_epoch().is_some(),
        "it gave up too early"
    );
    let epoch_a = a.elector.view().epoch;
    b.reaches(Role::Leader).await;
    assert_eq!(a.elector.gate().open_epoch(), None);
    assert!(b.elector.view().epoch > epoch_a);
    a.reaches(Role::Follower).await;
    // When it hangs no longer, the node is a candidate again without a restart.
    a.backend.hang.store(false, SeqCst);
    b.kill();
    a.reaches(Role::Leader).await;
    assert_eq!(
        a.log.lines(),
        ["promote", "demote: the lease expired", "promote"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_backend_away_for_most_of_a_lease_changes_nothing() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let epoch = a.elector.view().epoch;
    for _ in 0..5 {
        a.backend.fail.store(true, SeqCst);
        tokio::time::sleep(MS(700)).await;
        assert!(a.elector.gate().admit().is_ok());
        a.backend.fail.store(false, SeqCst);
        tokio::time::sleep(MS(300)).await;
    }
    assert_eq!(a.elector.view().epoch, epoch);
    assert_eq!(a.log.lines(), ["promote"]);
}

#[tokio::test(start_paused = true)]
async fn a_promotion_that_panics_or_fails_gives_another_its_chance() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.log.panic.store(true, SeqCst);
    a.log.fail.store(true, SeqCst);
    let b = cluster.node("b");
    b.reaches(Role::Leader).await;
    assert_eq!(a.log.lines()[0], "promote");
    assert!(
        a.log.lines()[1].starts_with("demote: the promotion failed: "),
        "{:?}",
        a.log.lines()
    );
    assert_eq!(b.log.lines(), ["promote"]);
}

#[tokio::test(start_paused = true)]
async fn a_long_promotion_keeps_its_lock_and_a_lost_one_is_cancelled() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.log.promote_for_ms.store(5_000, SeqCst);
    let b = cluster.node("b");
    let began = cluster.clock.now();
    a.reaches(Role::Leader).await;
    assert!(cluster.clock.now().since(began) >= MS(5_000));
    assert_eq!(b.log.lines(), [""; 0]);
    // Now the lock is taken away in the middle of the next one.
    a.elector.demote(None).await;
    b.reaches(Role::Leader).await;
    b.kill();
    a.reaches(Role::Promoting).await;
    tokio::time::sleep(MS(300)).await;
    a.backend.fail.store(true, SeqCst);
    a.reaches(Role::Follower).await;
    assert_eq!(a.log.lines().last().unwrap(), "demote: the lease expired");
    assert_eq!(a.log.lines().iter().rev().nth(1).unwrap(), "cancelled");
    assert_eq!(a.elector.gate().open_epoch(), None);
}

#[tokio::test(start_paused = true)]
async fn stop_releases_the_lock_and_ends() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    tokio::time::sleep(MS(50)).await;
    let before = cluster.clock.now();
    a.elector.stop().await;
    assert!(cluster.clock.now().since(before) < MS(5));
    assert_eq!(
        a.log.lines().last().unwrap(),
        "demote: the process is stopping"
    );
    b.reaches(Role::Leader).await;
    assert!(cluster.clock.now().since(before) < MS(5));
    for task in a.tasks {
        tokio::time::timeout(MS(1000), task).await.unwrap().unwrap();
    }
    b.elector.stop().await;
}

/// The backend has lost everything, so nothing but the store can tell the new process, which has
/// never known a holder, that a leader may still serve.
#[tokio::test(start_paused = true)]
async fn an_earlier_claim_in_a_store_keeps_the_gate_shut_for_a_lease() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let former = a.elector.view().epoch.unwrap();
    a.backend.hang.store(true, SeqCst);
    cluster.store.flush();
    let b = cluster.node("b");
    *b.log.former.lock().unwrap() = Some((b.elector.clone(), former));
    tokio::time::sleep(MS(100)).await;
    assert!(a.elector.gate().admit().is_ok(), "it was cut off only now");
    assert!(b.elector.gate().admit().is_err(), "two leaders");
    b.reaches(Role::Leader).await;
    assert!(a.elector.gate().admit().is_err(), "two leaders");
}

#[tokio::test(start_paused = true)]
async fn a_lone_node_that_was_asked_to_wait_waits() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    a.elector.set_forbid(Duration::from_secs(100)).await;
    a.elector.demote(None).await;
    assert_ne!(a.role(), Role::Leader);
    tokio::time::sleep(Duration::from_secs(95)).await;
    assert_eq!(a.role(), Role::Follower);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(a.role(), Role::Leader);
}

#[tokio::test(start_paused = true)]
async fn a_promotion_without_progress_is_cancelled_and_another_leads() {
    let cluster = Cluster::new();
    let mut settings = Settings::new(MS(1000), MS(100));
    settings.promote_stall = MS(3_000);
    let a = cluster.node_with("a", settings);
    a.log.promote_for_ms.store(1_000_000, SeqCst);
    let b = cluster.node("b");
    let began = cluster.clock.now();
    b.reaches(Role::Leader).await;
    let took = cluster.clock.now().since(began);
    assert!((MS(3_000)..MS(3_200)).contains(&took), "{took:?}");
    assert_eq!(
        a.log.lines(),
        [
            "promote",
            "cancelled",
            "demote: the promotion failed: no progress"
        ]
    );
}
