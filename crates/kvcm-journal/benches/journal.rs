//! `cargo xtask bench journal`: acknowledged appends in a second, beside what disk and server do
//! without a journal. Each number is of its own two seconds, in one run.

#![expect(clippy::print_stdout, reason = "the table is what this is for")]
#![expect(clippy::unwrap_used, reason = "a bench that panics says why")]

use std::{fs::File, os::unix::fs::FileExt, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use kvcm_clock::{BootClock, Clock};
use kvcm_fence::{Claim, Epoch, Incarnation};
use kvcm_journal::{Batch, Journal, LoadSink, LocalJournal, Record, RedisJournal, Source, Writer};
use kvcm_redis::{Config, Link, Locator, Pool, Repeat, Script};
use kvcm_testkit::RedisServer;

/// Of each measurement.
const TIME: Duration = Duration::from_secs(2);
/// Bytes of a batch: about a registration.
const SIZE: usize = 400;
const SUBMITTERS: [usize; 3] = [1, 8, 64];
const TIMEOUT: Duration = Duration::from_secs(60);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run());
}

async fn run() {
    println!("acknowledged appends of {SIZE} bytes in a second");
    println!("{:<44} {:>10} {:>10}", "what", "per s", "of bare");
    let dir = tempfile::tempdir().unwrap();
    let bare = write_and_sync(dir.path());
    row("disk: write, fdatasync, one at a time", bare, bare);
    let journal = LocalJournal::new(&dir.path().join("journal")).unwrap();
    appends("local", &journal, bare).await;

    for (name, args) in [
        ("redis", &[][..]),
        (
            "redis, fsync always",
            &["--appendonly", "yes", "--appendfsync", "always"],
        ),
    ] {
        let redis = RedisServer::start(args).unwrap();
        let (config, _) = Config::from_uri(&kvcm_uri::Uri::parse(&redis.uri()).unwrap()).unwrap();
        let mut bare = 0.0;
        for count in SUBMITTERS {
            let alone = scripts(&config, count).await;
            bare = if count == 1 { alone } else { bare };
            row(
                &format!("{name}: EVALSHA of SET, pipelines of {count}"),
                alone,
                bare,
            );
        }
        let journal = RedisJournal::open(config, "bench", Arc::new(BootClock)).unwrap();
        appends(name, &journal, bare).await;
    }
}

fn row(what: &str, rate: f64, bare: f64) {
    println!("{what:<44} {rate:>10.0} {:>9.2}x", rate / bare);
}

/// Appends a second by several tasks, each of which waits for its own.
async fn appends(name: &str, journal: &dyn Journal, bare: f64) {
    let claim = Claim {
        cluster: "c".parse().unwrap(),
        epoch: Epoch::new(1).unwrap(),
        incarnation: Incarnation::random(),
    };
    let mut writer = journal.claim(claim, TIMEOUT).await.unwrap();
    writer.load(&mut Nothing).await.unwrap();
    let writer: Arc<dyn Writer> = writer.into();
    for count in SUBMITTERS {
        let end = BootClock.now() + TIME;
        let before = writer.committed_seq();
        let tasks = (0..count).map(|_| {
            let writer = writer.clone();
            tokio::spawn(async move {
                while BootClock.now() < end {
                    let batch = Batch::new(1, 1, Bytes::from_static(&[b'x'; SIZE]));
                    writer.append(batch, TIMEOUT).await.unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let rate = (writer.committed_seq() - before) as f64 / TIME.as_secs_f64();
        row(&format!("{name}: journal, {count} at a time"), rate, bare);
    }
}

fn write_and_sync(dir: &Path) -> f64 {
    let file = File::create(dir.join("bare")).unwrap();
    let end = BootClock.now() + TIME;
    let mut count = 0_u64;
    while BootClock.now() < end {
        file.write_all_at(&[b'x'; SIZE], count * SIZE as u64)
            .unwrap();
        file.sync_data().unwrap();
        count += 1;
    }
    count as f64 / TIME.as_secs_f64()
}

/// Scripts a second, one pipeline after the other on one connection.
async fn scripts(config: &Config, pipeline: usize) -> f64 {
    let clock: Arc<dyn Clock> = Arc::new(BootClock);
    let pool = Pool::new(Arc::new(Locator::new(config.clone())), clock.clone()).unwrap();
    let script = &Script::new(&["redis.call('SET', KEYS[1], ARGV[1]) return 1"]);
    let value = "x".repeat(SIZE);
    let route = config.route("bare");
    let end = clock.now() + TIME;
    let mut count = 0_usize;
    while clock.now() < end {
        let value = value.as_str();
        let call = |mut link: Link, _| async move {
            let keys = vec![vec!["bare"]; pipeline];
            script.run_each::<u64>(&mut link, &keys, &[value]).await
        };
        let deadline = clock.now() + TIMEOUT;
        pool.run(&route, Repeat::Safe, deadline, call)
            .await
            .unwrap();
        count += pipeline;
    }
    count as f64 / TIME.as_secs_f64()
}

struct Nothing;

impl LoadSink for Nothing {
    fn snapshot(&mut self, _: u16, _: Bytes) -> Result<(), Source> {
        Ok(())
    }

    fn record(&mut self, _: &Record) -> Result<(), Source> {
        Ok(())
    }
}
