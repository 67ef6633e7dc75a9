//! A holder with another boot id, or another `CLOCK_BOOTTIME`, as the kernel makes them.
//!
//! Namespaces need rights that not everybody has; without them the same is tested with simulated
//! clocks, and the test says so.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use coordination_core::{Acquired, Backend, Hint, LockOutcome, Owner, ReignEnd, TryLock};
use futures_util::StreamExt;
use kvcm_clock::{BootClock, Clock};
use kvcm_fence::{Epoch, Incarnation};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::{FileBackend, Options, foreign_tests};

const DIR: &str = "KVCM_TEST_DIR";
const LEASE_MS: &str = "KVCM_TEST_LEASE_MS";
/// Far less than the clocks are apart.
const PATIENCE: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_millis(1500);

/// 27 hours ahead of ours. Only what the shell starts is on it.
const OTHER_CLOCK: &str = r#"
    exec unshare --time --boottime 100000 sh -c '"$0" "$@"; exit $?' "$0" "$@""#;
const OTHER_BOOT: &str = r#"
    exec unshare --mount sh -c '
        mount --bind "$KVCM_TEST_DIR.boot_id" /proc/sys/kernel/random/boot_id && exec "$0" "$@"
    ' "$0" "$@""#;

#[tokio::test]
async fn a_dead_holder_whose_clock_was_far_ahead_is_waited_for_once() {
    waited_for_once(OTHER_CLOCK).await;
}

#[tokio::test]
async fn a_holder_of_another_boot_is_waited_for_once() {
    waited_for_once(OTHER_BOOT).await;
}

/// One kernel, whatever its clocks show: the death is proven, and nothing is waited for.
#[tokio::test]
async fn the_death_of_a_holder_in_another_time_namespace_is_told() {
    let Some(holder) = Holder::start(OTHER_CLOCK, PATIENCE * 100) else {
        return;
    };
    let backend = holder.open();
    let mut hints = backend.watch("k");
    assert_eq!(holder.look(&backend, None).await, None);
    let expected = Hint::HolderDied {
        incarnation: holder.incarnation,
        epoch: holder.epoch,
    };
    holder.kill();
    let told = async { while hints.next().await.unwrap() != expected {} };
    timeout(PATIENCE, told).await.unwrap();
    let presumed = Some((holder.incarnation, holder.epoch));
    let taken = holder.look(&backend, presumed).await.unwrap();
    assert!(taken.epoch > holder.epoch);
    assert_eq!(taken.previous.unwrap().end, ReignEnd::Dead);
}

async fn waited_for_once(how: &str) {
    let Some(holder) = Holder::start(how, LEASE) else {
        return;
    };
    holder.kill();
    let backend = holder.open();
    let start = BootClock.now();
    // What is only presumed of a foreign clock must not shorten the wait.
    let taken = loop {
        if let Some(taken) = holder.look(&backend, None).await {
            break taken;
        }
        assert!(BootClock.now().since(start) < PATIENCE, "it waits for ever");
        sleep(Duration::from_millis(5)).await;
    };
    let waited = BootClock.now().since(start);
    println!("waited {waited:?} for a lease of {LEASE:?}");
    assert!(waited >= LEASE, "taken over after {waited:?}");
    assert!(taken.epoch > holder.epoch);
    let previous = taken.previous.unwrap();
    assert_eq!(
        (previous.end, previous.epoch),
        (ReignEnd::Unknown, holder.epoch)
    );
}

/// A process that holds the lock in a namespace of its own.
struct Holder {
    dir: TempDir,
    process: Child,
    pid: Pid,
    incarnation: Incarnation,
    epoch: Epoch,
}

impl Holder {
    /// None where namespaces are not allowed; then the simulation was run.
    fn start(how: &str, lease: Duration) -> Option<Self> {
        let dir = TempDir::new().unwrap();
        let store = dir.path().join("store");
        let boot_id = dir.path().join("store.boot_id");
        fs::write(boot_id, "00000000-0000-0000-0000-000000000001\n").unwrap();
        let shell = |program: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", how, program]).env(DIR, &store);
            command
        };
        let allowed = shell("true").output();
        if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
            eprintln!("NOT ALLOWED to make a namespace, so clocks are simulated: {allowed:?}");
            // They make runtimes of their own.
            let simulation = std::thread::spawn(|| {
                foreign_tests::a_lease_of_another_boot_is_waited_for_once_and_its_end_is_unknown();
                foreign_tests::a_lifetime_lock_proves_a_death_on_its_own_boot_only();
            });
            simulation.join().unwrap();
            return None;
        }
        let program = env::current_exe().unwrap();
        let mut process = shell(program.to_str().unwrap())
            .args(["--exact", "namespace_tests::child", "--nocapture"])
            .env(LEASE_MS, lease.as_millis().to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut said = lines.filter_map(|line| line.unwrap().strip_prefix('@').map(str::to_owned));
        let said = said.next().expect("the child ended without a word");
        let [pid, incarnation, epoch] = said.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{said}");
        };
        Some(Self {
            dir,
            process,
            pid: Pid::from_raw(pid.parse().unwrap()).unwrap(),
            incarnation: incarnation.parse().unwrap(),
            epoch: epoch.parse().unwrap(),
        })
    }

    fn open(&self) -> FileBackend {
        open(&self.dir.path().join("store"))
    }

    fn kill(&self) {
        kill_process(self.pid, Signal::KILL).unwrap();
    }

    /// Tries to acquire the lock; none while it is held by this holder.
    async fn look(
        &self,
        backend: &FileBackend,
        presumed_dead: Option<(Incarnation, Epoch)>,
    ) -> Option<Acquired> {
        match try_lock(backend, "b", LEASE, presumed_dead).await {
            LockOutcome::Acquired(acquired) => Some(acquired),
            LockOutcome::Held(holder) => {
                assert_eq!(holder.epoch, self.epoch);
                None
            }
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Fails when it was killed before; then so does the program that started it, by itself.
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = self.process.wait();
    }
}

/// Not a test: what a holder does.
#[tokio::test]
async fn child() {
    let (Ok(dir), Ok(lease)) = (env::var(DIR), env::var(LEASE_MS)) else {
        return;
    };
    let backend = open(Path::new(&dir));
    let lease = Duration::from_millis(lease.parse().unwrap());
    let LockOutcome::Acquired(acquired) = try_lock(&backend, "a", lease, None).await else {
        panic!("nobody else is there");
    };
    let holder = backend.lock_holder("k", BootClock.now() + PATIENCE).await;
    let incarnation = holder.unwrap().unwrap().owner.incarnation;
    println!("\n@{} {incarnation} {}", std::process::id(), acquired.epoch);
    std::future::pending().await
}

fn open(dir: &Path) -> FileBackend {
    FileBackend::open(dir, Options::default(), Arc::new(BootClock)).unwrap()
}

async fn try_lock(
    backend: &FileBackend,
    node: &str,
    ttl: Duration,
    presumed_dead: Option<(Incarnation, Epoch)>,
) -> LockOutcome {
    let owner = Owner {
        node: node.parse().unwrap(),
        incarnation: Incarnation::random(),
    };
    let request = TryLock {
        key: "k",
        owner: &owner,
        ttl,
        floor: Epoch::ZERO,
        info: "",
        presumed_dead,
    };
    let outcome = backend.try_lock(request, BootClock.now() + PATIENCE).await;
    outcome.unwrap()
}
