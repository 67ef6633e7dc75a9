//! Writers that are killed and stopped at random moments of their appends and snapshots.
//!
//! Each round is a process that claims the next epoch, tells what it found, and appends until it is
//! harmed. No batch that it was told is stored may be missing later, and none may appear later that
//! the next process did not find. `cargo xtask torture --journal` runs the same for longer.

#![expect(clippy::unwrap_used, reason = "a test that panics fails")]
#![expect(
    clippy::print_stdout,
    reason = "a failure has to be repeated with its seed"
)]

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Write, stdout},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use kvcm_clock::BootClock;
use kvcm_fence::{Claim, Epoch, Incarnation};
use kvcm_journal::{
    AppendError, Batch, Journal, LoadSink, LocalJournal, Record, RedisJournal, Snapshot, Source,
};
use kvcm_testkit::RedisServer;
use rustix::process::{Pid, Signal, kill_process};

/// Tell a child what to do: where the journal is, and its epoch.
const PLACE: &str = "KVCM_TEST_JOURNAL";
const EPOCH: &str = "KVCM_TEST_EPOCH";
/// Long, because it only bounds a failure.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Appends between two snapshots.
const SNAPSHOT_EVERY: u64 = 40;

#[test]
fn a_directory_loses_and_tears_nothing_when_its_writers_die() {
    let dir = tempfile::tempdir().unwrap();
    torture(&dir.path().join("journal").display().to_string());
}

#[test]
fn redis_loses_and_tears_nothing_when_its_writers_die() {
    let redis = RedisServer::start(&[]).unwrap();
    torture(&redis.uri());
}

/// How many batches of each epoch there are: they are numbered from 0 in each.
type Counts = BTreeMap<u64, u64>;

fn torture(place: &str) {
    let number = |name| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let rounds = number("KVCM_TORTURE_ROUNDS").unwrap_or(50);
    let seed = number("KVCM_TORTURE_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("{rounds} rounds with KVCM_TORTURE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    // What later processes must find: exactly for all epochs but the last.
    let mut settled = Counts::new();
    let mut writer = Writer::start(place, 1, &Counts::new());
    let mut acknowledged_in_all = 0;
    for epoch in 2..rounds + 2 {
        writer.wait_for(random.u64(0..60));
        // Somewhere in the middle of what comes next.
        std::thread::sleep(Duration::from_micros(random.u64(0..2_000)));
        let is_stop = random.u32(0..4) == 0;
        writer.signal(if is_stop { Signal::STOP } else { Signal::KILL });
        if !is_stop {
            writer.read_rest();
        }
        let next = Writer::start(place, epoch, &settled);
        if is_stop {
            // It goes on after the next one has taken over, and may write what it likes.
            writer.signal(Signal::CONT);
            writer.read_rest();
            assert!(writer.was_fenced, "a superseded writer ended otherwise");
        }
        let found = next.found.get(&writer.epoch).copied().unwrap_or(0);
        let acknowledged = writer.acknowledged;
        assert!(
            found >= acknowledged,
            "epoch {}: {acknowledged} batches were acknowledged and {found} found",
            writer.epoch
        );
        acknowledged_in_all += acknowledged;
        settled = next.found.clone();
        writer = next;
    }
    writer.signal(Signal::KILL);
    writer.read_rest();
    println!("{acknowledged_in_all} batches were acknowledged, none was lost");
    assert!(acknowledged_in_all > rounds, "hardly anything was written");
}

/// A process that appends.
struct Writer {
    epoch: u64,
    child: Child,
    lines: BufReader<ChildStdout>,
    found: Counts,
    acknowledged: u64,
    was_fenced: bool,
}

impl Writer {
    /// Starts one and waits until it has loaded. All of `settled` must be there, and no more of
    /// those epochs.
    fn start(place: &str, epoch: u64, settled: &Counts) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(PLACE, place)
            .env(EPOCH, epoch.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut writer = Self {
            epoch,
            lines: BufReader::new(child.stdout.take().unwrap()),
            child,
            found: Counts::new(),
            acknowledged: 0,
            was_fenced: false,
        };
        while writer.found.is_empty() {
            assert!(
                writer.read(),
                "the writer of epoch {epoch} ended before it had loaded"
            );
        }
        // The mark that it has loaded.
        writer.found.remove(&0);
        for (epoch, count) in settled {
            assert_eq!(writer.found.get(epoch), Some(count), "epoch {epoch}");
        }
        writer
    }

    /// Waits until so many batches are acknowledged.
    fn wait_for(&mut self, count: u64) {
        while self.acknowledged < count {
            assert!(
                self.read(),
                "the writer of epoch {} ended by itself",
                self.epoch
            );
        }
    }

    fn read_rest(&mut self) {
        while self.read() {}
        self.child.wait().unwrap();
    }

    fn read(&mut self) -> bool {
        let mut line = String::new();
        // A killed process leaves half a line at most, which says nothing.
        if self.lines.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
            return false;
        }
        let mut words = line.split_whitespace();
        match words.next() {
            Some("loaded") => {
                self.found = words.map(pair).collect();
                self.found.insert(0, 0);
            }
            Some("acknowledged") => self.acknowledged = words.next().unwrap().parse().unwrap(),
            Some("fenced") => self.was_fenced = true,
            Some("wrong:") => panic!("epoch {}: {line}", self.epoch),
            _ => {}
        }
        true
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pair(word: &str) -> (u64, u64) {
    let (epoch, count) = word.split_once(':').unwrap();
    (epoch.parse().unwrap(), count.parse().unwrap())
}

fn words(counts: &Counts) -> String {
    let words: Vec<_> = counts.iter().map(|(e, n)| format!("{e}:{n}")).collect();
    words.join(" ")
}

/// The process that appends; a test only by name.
#[test]
fn child() {
    let (Ok(place), Ok(epoch)) = (env::var(PLACE), env::var(EPOCH)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(append(&place, epoch.parse().unwrap()));
}

fn say(line: &str) {
    let mut out = stdout().lock();
    writeln!(out, "\n{line}").unwrap();
    out.flush().unwrap();
}

async fn append(place: &str, epoch: u64) {
    let claim = Claim {
        cluster: "c".parse().unwrap(),
        epoch: Epoch::new(epoch).unwrap(),
        incarnation: Incarnation::random(),
    };
    let mut writer = open(place).claim(claim, TIMEOUT).await.unwrap();
    let mut state = State::default();
    let loaded = match writer.load(&mut state).await {
        Ok(loaded) => loaded,
        Err(error) => return say(&format!("wrong: {error}")),
    };
    if !loaded.skipped.is_empty() {
        return say(&format!("wrong: {:?}", loaded.skipped));
    }
    say(&format!("loaded {}", words(&state.0)));
    let mut random = fastrand::Rng::with_seed(epoch);
    let mut step = 0;
    loop {
        let mut last = 0;
        for _ in 0..random.u64(1..6) {
            let text = format!("{epoch}:{step} {}", "-".repeat(random.usize(0..3_000)));
            step += 1;
            match writer.submit(Batch::new(1, 1, text.into())) {
                Ok(seq) => last = seq,
                Err(AppendError::Fenced(_)) => return say("fenced"),
                Err(error) => return say(&format!("wrong: {error}")),
            }
        }
        match writer.committed(last, TIMEOUT).await {
            Ok(()) => say(&format!("acknowledged {step}")),
            Err(AppendError::Fenced(_)) => return say("fenced"),
            Err(error) => return say(&format!("wrong: {error}")),
        }
        state.0.insert(epoch, step);
        if writer.log_size().records > SNAPSHOT_EVERY {
            let snapshot = Snapshot::new(last, 1, [words(&state.0).into()]);
            match writer.snapshot(snapshot, TIMEOUT).await {
                Ok(()) => {}
                Err(AppendError::Fenced(_)) => return say("fenced"),
                Err(error) => return say(&format!("wrong: {error}")),
            }
        }
    }
}

fn open(place: &str) -> Box<dyn Journal> {
    if place.starts_with("redis") {
        let uri = kvcm_uri::Uri::parse(place).unwrap();
        let (config, _) = kvcm_redis::Config::from_uri(&uri).unwrap();
        Box::new(RedisJournal::open(config, "torture", Arc::new(BootClock)).unwrap())
    } else {
        Box::new(LocalJournal::new(Path::new(place)).unwrap())
    }
}

/// What was loaded. Each batch must be the next one of its epoch.
#[derive(Default)]
struct State(Counts);

impl LoadSink for State {
    fn snapshot(&mut self, _: u16, chunk: Bytes) -> Result<(), Source> {
        self.0 = std::str::from_utf8(&chunk)?
            .split_whitespace()
            .map(pair)
            .collect();
        Ok(())
    }

    fn record(&mut self, record: &Record) -> Result<(), Source> {
        let text = std::str::from_utf8(&record.batch.operations)?;
        let (epoch, step) = pair(text.split_whitespace().next().unwrap_or_default());
        let expected = self.0.entry(epoch).or_default();
        if *expected != step || record.epoch.get() != epoch {
            return Err(format!("{epoch}:{step} stands where {expected} was expected").into());
        }
        *expected += 1;
        Ok(())
    }
}
