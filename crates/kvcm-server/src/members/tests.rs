//! Members on a backend in memory, in virtual time.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use coordination_memory::MemoryBackend;
use elector::{Leadership, LossReason, PromoteError, Promotion, Settings};
use kvcm_clock::{TokioTimer, VirtualClock};
use kvcm_fence::Epoch;

use super::*;
use crate::node::Endpoint;

const LEADER: Condition = Condition {
    role: Role::Leader,
    ready: true,
    eligible: true,
};
const FOLLOWER: Condition = Condition {
    role: Role::Follower,
    ready: true,
    eligible: true,
};

struct Bench {
    clock: Arc<VirtualClock>,
    backend: Arc<MemoryBackend>,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        Self {
            backend: Arc::new(MemoryBackend::new(clock.clone())),
            clock,
        }
    }

    fn member(&self, name: &str) -> Members {
        let endpoint = Endpoint {
            host: "h".to_owned(),
            ..Endpoint::default()
        };
        let node = Node::new(Some(name.parse().unwrap()), endpoint).unwrap();
        Members::new(
            self.backend.clone(),
            Arc::new(node),
            self.clock.clone(),
            Arc::new(TokioTimer::new(*self.clock)),
        )
    }
}

fn life(member: &Members) -> String {
    member.node.owner.incarnation.to_string()
}

/// The lives that a member sees, and whether they are alive.
fn seen(member: &Members) -> Vec<(String, bool)> {
    let roster = member.roster();
    let members = roster.at(member.clock.now());
    let lives = members.map(|(seen, alive)| (seen.record.incarnation.clone(), alive));
    lives.collect()
}

#[tokio::test(start_paused = true)]
async fn a_second_live_process_with_the_same_id_is_refused() {
    let bench = Bench::new();
    let first = bench.member("n");
    first.join().await.unwrap();
    let second = bench.member("n");
    let beats = async {
        loop {
            first.beat(LEADER).await.unwrap();
            tokio::time::sleep(HEARTBEAT).await;
        }
    };
    let refused = tokio::select! {
        refused = second.join() => refused.unwrap_err(),
        () = beats => unreachable!(),
    };
    let text = refused.to_string();
    let first_life = first.node.owner.incarnation.to_string();
    assert!(text.contains("`n`") && text.contains(&first_life), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_after_a_kill_gets_in_after_one_time_to_live() {
    let bench = Bench::new();
    bench.member("n").join().await.unwrap();
    let before = bench.clock.now();
    let again = bench.member("n");
    again.join().await.unwrap();
    let waited = bench.clock.now().since(before);
    assert!(waited >= RECORD_TTL && waited <= RECORD_TTL + Duration::from_millis(200));
    again.beat(FOLLOWER).await.unwrap();
    assert_eq!(seen(&again), [(life(&again), true)]);
    let roster = again.roster();
    let (member, _) = roster.at(bench.clock.now()).next().unwrap();
    assert_eq!(
        (member.record.role.as_str(), member.record.ready),
        ("follower", true)
    );
}

#[tokio::test(start_paused = true)]
async fn a_restart_long_after_a_kill_need_not_wait() {
    let bench = Bench::new();
    bench.member("n").join().await.unwrap();
    tokio::time::sleep(RECORD_TTL + HEARTBEAT).await;
    let before = bench.clock.now();
    bench.member("n").join().await.unwrap();
    assert!(bench.clock.now().since(before) <= Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_refused_or_paused_leaves_the_record_of_the_other_alone() {
    let bench = Bench::new();
    let (first, second) = (bench.member("n"), bench.member("n"));
    first.join().await.unwrap();
    // A process that is refused ends with `leave`.
    second.leave().await;
    first.beat(LEADER).await.unwrap();
    assert_eq!(seen(&first), [(life(&first), true)]);
    // The first is paused for longer than its record lives, and replaced.
    tokio::time::sleep(RECORD_TTL).await;
    second.join().await.unwrap();
    first.beat(LEADER).await.unwrap();
    assert_eq!(seen(&first), [(life(&second), true)]);
    first.leave().await;
    second.beat(LEADER).await.unwrap();
    assert_eq!(seen(&second), [(life(&second), true)]);
    // When the other has gone, it is a member again.
    second.leave().await;
    first.beat(FOLLOWER).await.unwrap();
    assert_eq!(seen(&first), [(life(&first), true)]);
}

#[tokio::test(start_paused = true)]
async fn one_that_returns_replaces_the_record_of_another_life_once_that_beats_no_more() {
    let bench = Bench::new();
    let (first, second) = (bench.member("n"), bench.member("n"));
    first.join().await.unwrap();
    first.beat(LEADER).await.unwrap();
    tokio::time::sleep(RECORD_TTL).await;
    second.join().await.unwrap();
    // The second is killed.
    let died = bench.clock.now();
    for _ in 0..20 {
        first.beat(FOLLOWER).await.unwrap();
        if seen(&first) == [(life(&first), true)] {
            break;
        }
        tokio::time::sleep(HEARTBEAT / 2).await;
    }
    assert_eq!(seen(&first), [(life(&first), true)]);
    let waited = bench.clock.now().since(died);
    assert!(
        waited >= RECORD_TTL,
        "replaced while it could be alive: {waited:?}"
    );
    assert!(
        waited < RECORD_KEPT,
        "it waited for the backend to forget it: {waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_is_expired_within_its_time_to_live_and_disappears_after_three() {
    let bench = Bench::new();
    let (a, b, c) = (bench.member("a"), bench.member("b"), bench.member("c"));
    for member in [&a, &b, &c] {
        member.join().await.unwrap();
    }
    a.beat(LEADER).await.unwrap();
    let (alive, dead) = ((life(&a), true), (life(&c), false));
    let all = [alive.clone(), (life(&b), true), (life(&c), true)];
    assert_eq!(seen(&a), all);
    // One that leaves in an orderly way is gone at once.
    b.leave().await;
    let died = bench.clock.now();
    for second in 1..=9 {
        tokio::time::sleep(HEARTBEAT).await;
        a.beat(LEADER).await.unwrap();
        let silent = bench.clock.now().since(died);
        let expected = match silent {
            silent if silent < RECORD_TTL => vec![alive.clone(), (life(&c), true)],
            silent if silent < RECORD_KEPT => vec![alive.clone(), dead.clone()],
            _ => vec![alive.clone()],
        };
        assert_eq!(seen(&a), expected, "{second} s");
    }
}

#[tokio::test(start_paused = true)]
async fn the_election_is_told_who_is_alive_ready_and_eligible() {
    let bench = Bench::new();
    let (a, b) = (bench.member("a"), bench.member("b"));
    a.join().await.unwrap();
    b.join().await.unwrap();
    let paused = Condition {
        eligible: false,
        ..FOLLOWER
    };
    b.beat(paused).await.unwrap();
    a.beat(LEADER).await.unwrap();
    let told = |alive| Peer {
        owner: b.node.owner.clone(),
        alive,
        ready: true,
        eligible: false,
        priority: 0,
    };
    assert_eq!(a.peers()[1], told(true));
    tokio::time::sleep(RECORD_TTL).await;
    a.beat(LEADER).await.unwrap();
    assert_eq!(a.peers()[1], told(false));
    assert!(a.peers()[0].is_candidate());
}

/// Leads without more ado.
struct Ready;

#[async_trait]
impl Leadership for Ready {
    async fn on_become_leader(&self, _: Promotion) -> Result<(), PromoteError> {
        Ok(())
    }

    async fn on_no_longer_leader(&self, _: Epoch, _: LossReason) {}
}

#[tokio::test(start_paused = true)]
async fn a_new_role_is_told_a_moment_later_and_readiness_at_once() {
    let ms = Duration::from_millis;
    let bench = Bench::new();
    let member = Arc::new(bench.member("a"));
    member.join().await.unwrap();
    let timer = Arc::new(TokioTimer::new(*bench.clock));
    let (elector, driver) = elector::start(elector::Parts {
        settings: Settings::new(ms(1000), ms(10)),
        owner: member.node.owner.clone(),
        key: "leader".to_owned(),
        endpoint: serde_json::Value::Null,
        backend: bench.backend.clone(),
        leadership: Arc::new(Ready),
        clock: bench.clock.clone(),
        timer,
        spawner: Arc::new(tokio::runtime::Handle::current()),
    });
    let ready = Arc::new(AtomicBool::new(true));
    let (telling, flag, watched) = (member.clone(), ready.clone(), elector.clone());
    tokio::spawn(async move {
        let condition = || Condition {
            role: watched.view().role,
            ready: flag.load(Ordering::SeqCst),
            eligible: true,
        };
        telling.run(watched.clone(), condition).await;
    });
    let told = async || {
        let found = bench.backend.get_value(&member.key(), Moment::NEVER).await;
        let record: NodeRecord = serde_json::from_str(&found.unwrap().unwrap().text).unwrap();
        (record.role, record.ready)
    };
    tokio::time::sleep(2 * HURRY).await;
    assert_eq!(told().await, ("follower".to_owned(), true));

    tokio::spawn(driver.lock_loop);
    tokio::spawn(driver.transitions);
    tokio::time::sleep(HURRY / 2).await;
    assert_eq!(elector.view().role, Role::Leader);
    assert_eq!(told().await, ("follower".to_owned(), true));
    tokio::time::sleep(HURRY).await;
    assert_eq!(told().await, ("leader".to_owned(), true));

    tokio::time::sleep(HURRY).await;
    ready.store(false, Ordering::SeqCst);
    tokio::time::sleep(HURRY / 2).await;
    assert_eq!(told().await, ("leader".to_owned(), false));
}
