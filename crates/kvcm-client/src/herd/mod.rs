//! Ten thousand clients through a failover, on paused time.
//!
//! The clients are the real ones, all of them but the sockets: policy, budget, breakers, searches,
//! pushes and back-off decide as they do in production, with seeded generators. Only the cluster
//! is modelled ([`world`]), and counts what reaches it.

mod measures;
mod world;

use std::{sync::Arc, time::Duration};

use kvcm_clock::Random;
use tokio::time::{Instant, sleep_until};

use crate::{
    budget::RetryBudget,
    call::{Call, Service},
    core::Core,
    policy::{Decision, DefaultPolicy, Failure, Reason, RetryPolicy, RetrySession, Situation},
    seeds::Seeds,
    settings::Settings,
};
use measures::Measures;
use world::{Fault, Link, NODES, World};

const CLIENTS: usize = 10_000;
/// When the fault begins, after a start that is spread over two seconds.
const FAULT_AT: Duration = Duration::from_secs(3);
const OUTAGE: Duration = Duration::from_secs(10);
const END: Duration = Duration::from_secs(15);
/// Mean pause of an application between two calls.
const THINK: Duration = Duration::from_millis(200);

/// How the clients differ from those that are shipped.
#[derive(Clone, Copy, Debug, Default)]
struct Mutation {
    no_jitter: bool,
    no_budget: bool,
    eager: bool,
    no_pushes: bool,
}

/// Always the middle of the range.
struct Middle;

impl Random for Middle {
    fn next_u64(&mut self) -> u64 {
        1 << 63
    }
}

/// Tries the same node again after 10 ms, for as long as the call lasts.
#[derive(Clone, Copy, Debug)]
struct Eager;

impl RetryPolicy for Eager {
    fn session(&self) -> Box<dyn RetrySession> {
        Box::new(*self)
    }
}

impl RetrySession for Eager {
    fn decide(&mut self, failure: Failure, situation: &Situation, _: &mut dyn Random) -> Decision {
        let wait = Duration::from_millis(10);
        match failure {
            Failure::Final => Decision::GiveUp(Reason::Definite),
            _ if situation.remaining.is_zero() => Decision::GiveUp(Reason::Deadline),
            Failure::Busy { .. } => Decision::RetryHere { wait },
            _ => Decision::Rediscover { wait },
        }
    }
}

/// One run; the same arguments give the same run.
fn run(clients: usize, fault: Fault, mutation: Mutation) -> Measures {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(async {
        let start = Instant::now();
        let world = Arc::new(World::new(start, clients));
        let workers: Vec<_> = (0..clients)
            .map(|number| tokio::spawn(client(number, clients, start, world.clone(), mutation)))
            .collect();
        sleep_until(start + FAULT_AT).await;
        world.break_leader(fault);
        sleep_until(start + FAULT_AT + Duration::from_secs(1)).await;
        world.lease_ends(fault);
        sleep_until(start + FAULT_AT + OUTAGE).await;
        world.heal(fault);
        sleep_until(start + END).await;
        for worker in &workers {
            worker.abort();
        }
        world.measures()
    })
}

async fn client(
    number: usize,
    clients: usize,
    start: Instant,
    world: Arc<World>,
    mutation: Mutation,
) {
    let mut application = fastrand::Rng::with_seed(number as u64);
    let ramp = Duration::from_secs(2).mul_f64(number as f64 / clients as f64);
    sleep_until(start + ramp).await;
    let random: Box<dyn Random> = if mutation.no_jitter {
        Box::new(Middle)
    } else {
        Box::new(fastrand::Rng::with_seed(1_000_000 + number as u64))
    };
    let policy: Arc<dyn RetryPolicy> = if mutation.eager {
        Arc::new(Eager)
    } else {
        Arc::new(DefaultPolicy::default())
    };
    let mut addresses: Vec<_> = (0..NODES).map(world::address).collect();
    addresses.rotate_left(number % NODES);
    let settings = Settings {
        pushes: !mutation.no_pushes,
        ..Settings::default()
    };
    let link = Arc::new(Link::new(number, world.clone()));
    let mut core = Core::new(settings, policy, Seeds::new(addresses), link, random);
    if mutation.no_budget {
        core.budget = RetryBudget::unlimited();
    }
    let core = Arc::new(core);
    loop {
        tokio::time::sleep(THINK.mul_f64(0.5 + application.f64())).await;
        let begun = Instant::now();
        let call = Call {
            service: Service::Meta,
            name: "Data",
            path: "/data",
            body: bytes::Bytes::new(),
            mutating: true,
            deadline: begun + core.settings.deadline,
        };
        let result = core.call(&call).await;
        world.call_ended(number, begun, result.is_ok());
    }
}

/// What holds whatever the fault.
fn assert_kind(measures: &Measures) {
    assert!(measures.steady > 5_000.0, "the load is on: {measures}");
    assert!(
        measures.amplification <= 1.1,
        "amplification over any second of the outage: {measures}"
    );
    assert!(
        measures.connections_peak <= clients_per_second(),
        "connections in any second after the fault: {measures}"
    );
    assert_eq!(measures.unserved, 0, "all are served: {measures}");
    assert!(
        measures.settled_p99 < Duration::from_secs(2),
        "all are served soon: {measures}"
    );
    assert_eq!(
        measures.errors_after, 0,
        "no error after the end: {measures}"
    );
}

/// No bin of the retries is far above their mean, although all calls meet the fault within the pause
/// of the applications.
fn assert_spread(measures: &Measures) {
    assert!(measures.spectrum <= 3.0, "in step: {measures}");
    assert!(measures.late_spectrum <= 3.0, "in step: {measures}");
}

/// At the start, all clients connect to two nodes within two seconds; a fault may cost no more
/// than twice as many connections per second.
fn clients_per_second() -> f64 {
    2.0 * CLIENTS as f64
}

#[test]
fn a_crash_of_ten_seconds_is_no_storm() {
    let measures = run(CLIENTS, Fault::Crash, Mutation::default());
    println!("crash: {measures}");
    assert_kind(&measures);
    assert_spread(&measures);
}

#[test]
fn a_leader_that_refuses_for_ten_seconds_is_no_storm() {
    let measures = run(CLIENTS / 4, Fault::Refuse, Mutation::default());
    println!("refuse: {measures}");
    assert_kind(&measures);
    assert_spread(&measures);
}

#[test]
fn a_leader_that_is_busy_for_ten_seconds_is_not_kept_busy() {
    let measures = run(CLIENTS / 4, Fault::Busy, Mutation::default());
    println!("busy: {measures}");
    assert_kind(&measures);
    assert_spread(&measures);
}

#[test]
fn the_budget_holds_an_eager_policy_and_without_it_there_is_a_storm() {
    let eager = Mutation {
        eager: true,
        ..Mutation::default()
    };
    let held = run(CLIENTS / 10, Fault::Busy, eager);
    assert!(held.amplification <= 1.1, "{held}");
    let storm = run(
        CLIENTS / 10,
        Fault::Busy,
        Mutation {
            no_budget: true,
            ..eager
        },
    );
    assert!(storm.amplification > 3.0, "{storm}");
}

#[test]
fn without_jitter_the_retries_come_in_step() {
    let measures = run(
        CLIENTS / 10,
        Fault::Crash,
        Mutation {
            no_jitter: true,
            ..Mutation::default()
        },
    );
    println!("crash without jitter: {measures}");
    assert!(measures.late_spectrum > 3.0, "{measures}");
}

#[test]
fn clients_of_servers_that_do_not_push_find_the_new_leader_as_well() {
    let measures = run(
        CLIENTS / 10,
        Fault::Crash,
        Mutation {
            no_pushes: true,
            ..Mutation::default()
        },
    );
    println!("crash, no pushes, a tenth of the clients: {measures}");
    assert_eq!(measures.unserved, 0, "{measures}");
    assert!(measures.amplification <= 1.1, "{measures}");
    assert_spread(&measures);
    assert!(measures.settled_p99 < Duration::from_secs(2), "{measures}");
}

#[test]
fn the_same_seeds_give_the_same_run() {
    let run = || run(200, Fault::Crash, Mutation::default()).to_string();
    assert_eq!(run(), run());
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_gets_no_connection_while_the_new_leader_serves() {
    let start = Instant::now();
    let world = Arc::new(World::new(start, 1));
    let worker = tokio::spawn(client(0, 1, start, world.clone(), Mutation::default()));
    sleep_until(start + Duration::from_secs(5)).await;
    world.break_leader(Fault::Crash);
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.heal(Fault::Crash);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = world.attempts_at_dead();
    assert!(before > 0, "the death was noticed");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.attempts_at_dead(), before);
    worker.abort();
}
