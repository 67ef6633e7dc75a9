//! Callbacks that never return: each is bounded, or harms its own node only. Timers that are late:
//! the lease is given up so much earlier.

use futures_util::future::BoxFuture;

use super::*;

/// Notes that the process would have ended.
#[derive(Debug, Default)]
struct Process {
    aborted: AtomicBool,
}

impl Spawn for Process {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        tokio::spawn(future);
    }
    fn abort(&self) {
        self.aborted.store(true, SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_promotion_that_ignores_its_cancellation_past_a_grace_ends_the_process() {
    let cluster = Cluster::new();
    let process = Arc::new(Process::default());
    let mut settings = Settings::new(MS(1000), MS(100));
    settings.cancel_grace = MS(3000);
    let timer = Arc::new(TokioTimer::new(*cluster.clock));
    let a = cluster.node_on("a", settings, timer, process.clone());
    a.log.promote_for_ms.store(1_000_000, SeqCst);
    hangs(&a, "promote");
    a.reaches(Role::Promoting).await;
    a.backend.fail.store(true, SeqCst);
    a.reaches(Role::Demoting).await;
    let lost = cluster.clock.now();
    let aborted = || process.aborted.load(SeqCst);
    while !aborted() {
        tokio::time::sleep(MS(50)).await;
    }
    let grace = cluster.clock.now().since(lost);
    assert!((MS(3000)..=MS(3100)).contains(&grace), "{grace:?}");
}

/// Fires late.
#[derive(Debug)]
struct Late {
    timer: TokioTimer<VirtualClock>,
    by: Duration,
}

#[async_trait]
impl Timer for Late {
    async fn sleep_until(&self, moment: Moment) {
        if moment == Moment::NEVER {
            return std::future::pending().await;
        }
        self.timer.sleep_until(moment + self.by).await;
    }
}

#[tokio::test(start_paused = true)]
async fn timers_that_are_late_cost_a_part_of_the_lease() {
    let cluster = Cluster::new();
    let late = Late {
        timer: TokioTimer::new(*cluster.clock),
        by: MS(20),
    };
    let spawner = Arc::new(tokio::runtime::Handle::current());
    let settings = Settings::new(MS(1000), MS(100));
    let a = cluster.node_on("a", settings, Arc::new(late), spawner);
    a.reaches(Role::Leader).await;
    let left = || {
        let view = a.elector.view().clone();
        view.backend_seen_at.unwrap().until(view.lease_end.unwrap())
    };
    assert_eq!(left(), MS(1000 - 1 - 5));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(left(), MS(1000 - 1 - 2 * 20));
    assert_eq!(a.elector.measures().margin, MS(40));
}

fn hangs(node: &Node, name: &'static str) {
    *node.log.hangs.lock().unwrap() = name;
}

#[tokio::test(start_paused = true)]
async fn quiesce_and_flush_that_hang_hold_a_step_down_up_for_its_bound() {
    for name in ["quiesce", "flush"] {
        let cluster = Cluster::new();
        let a = cluster.node("a");
        a.reaches(Role::Leader).await;
        let b = cluster.node("b");
        hangs(&a, name);
        let asked = cluster.clock.now();
        let outcome = a.elector.demote(None).await;
        assert!(matches!(outcome, DemoteOutcome::Done(_)), "{outcome:?}");
        let took = cluster.clock.now().since(asked);
        assert!((MS(500)..MS(700)).contains(&took), "{name}: {took:?}");
        b.reaches(Role::Leader).await;
        a.reaches(Role::Follower).await;
        assert!(a.log.lines().last().unwrap().starts_with("demote: "));
    }
}

#[tokio::test(start_paused = true)]
async fn a_demote_callback_that_hangs_keeps_its_node_out_and_nobody_else() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    a.reaches(Role::Leader).await;
    let b = cluster.node("b");
    tokio::time::sleep(MS(50)).await;
    hangs(&a, "demote");
    a.elector.demote(None).await;
    b.reaches(Role::Leader).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((a.role(), b.role()), (Role::Demoting, Role::Leader));
    // It still learns who leads.
    let leader = a.elector.view().leader.clone().unwrap();
    assert_eq!(leader.owner, b.owner);
    b.kill();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(
        a.log
            .lines()
            .iter()
            .filter(|line| *line == "promote")
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_hangs_is_given_up_after_a_lease_and_tried_again() {
    let cluster = Cluster::new();
    let a = cluster.node("a");
    hangs(&a, "probe");
    a.log.fail.store(true, SeqCst);
    tokio::time::sleep(MS(10_000)).await;
    let probes = || a.log.lines().iter().filter(|line| *line == "probe").count();
    assert!((3..=6).contains(&probes()), "{:?}", a.log.lines());
    // Meanwhile it learns who leads.
    let b = cluster.node("b");
    b.reaches(Role::Leader).await;
    tokio::time::sleep(MS(2_500)).await;
    assert!(a.elector.view().leader.is_some());
    b.kill();
    a.log.fail.store(false, SeqCst);
    hangs(&a, "");
    a.reaches(Role::Leader).await;
}
