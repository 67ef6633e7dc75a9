//! Leaders that are killed and stopped at random moments of writes to the registry.
//!
//! Each round several writers change the registry over both protocols until the leader is harmed;
//! then the whole registry of its successor is compared with what was acknowledged. An
//! acknowledged change must be there, a refused one must not, one without an answer may be, but
//! as a whole, and from then on it stays as it was found, whatever a leader that was stopped still
//! tries. `cargo xtask torture --registry` runs the same for longer.

#![expect(
    clippy::print_stdout,
    reason = "a failure has to be repeated with its seed, and looked into"
)]

mod model;
mod round;
mod shared;
mod templates;
mod writer;

use std::{env, time::Duration};

use kvcm_testkit::RedisServer;

use self::round::{Bench, Harm};

/// Short, because a leader that stands still is waited for. A machine that makes it end by itself
/// changes the leader once more, which has to do no harm either.
const LEASE_MS: u64 = 500;

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_in_a_directory_survives_the_murder_of_its_leaders() {
    let dir = tempfile::tempdir().unwrap();
    let lock = format!("file://{}", dir.path().join("lock").display());
    let registry = format!("local://{}", dir.path().join("store").display());
    torture(Bench::start(2, &lock, &registry, dir).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_on_redis_survives_the_murder_of_its_leaders() {
    let redis = RedisServer::start(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let registry = format!("{}?cluster_name=torture", redis.uri());
    torture(Bench::start(3, &redis.uri(), &registry, dir).await).await;
}

async fn torture(mut bench: Bench) {
    let number = |name| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let rounds = number("KVCM_TORTURE_ROUNDS").unwrap_or(20);
    let seed = number("KVCM_TORTURE_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("{rounds} rounds with KVCM_TORTURE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 1..=rounds {
        let harm = match random.u32(0..10) {
            0..6 => Harm::Kill,
            6..9 => Harm::StopAndGoOn,
            _ => Harm::StopAndKill,
        };
        let pause = Duration::from_micros(random.u64(0..150_000));
        // Now and then nothing happens but loads of whole snapshots: the largest single change.
        bench.round(harm, pause, round % 5 == 0, &mut random).await;
        if round % 50 == 0 {
            println!("after {round} rounds: {}", bench.tally);
        }
    }
    println!("{}", bench.tally);
    assert!(
        bench.tally.acknowledged > rounds,
        "hardly anything was written: {}",
        bench.tally
    );
}
