//! Processes that are stopped before each step of each call: nobody waits for them, and what they go
//! on with changes nothing that others have done meanwhile.

use std::{
    collections::HashMap,
    env,
    io::{BufRead, BufReader, Lines, Write, stdin},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use coordination_core::{
    Error, Expect, Holder, LockOutcome, Owner, RenewOutcome, SetOutcome, TryLock, UnlockOutcome,
};
use kvcm_clock::{BootClock, Clock};
use kvcm_fence::{Epoch, Incarnation};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use tempfile::TempDir;

use crate::{
    Options, directory::Directory, host::Process, lives::Lives, store::Store, worker::Call,
};

const KEY: &str = "k";
/// Of those who are stopped.
const LEASE: Duration = Duration::from_millis(150);
/// No call of those who are not stopped may take longer.
const DEADLINE: Duration = Duration::from_secs(20);
/// No test waits longer for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// More than any call has.
const STEPS_MAX: usize = 200;

const DIR: &str = "KVCM_TEST_DIR";
const CALL: &str = "KVCM_TEST_CALL";
const STEPS: &str = "KVCM_TEST_STEPS";

/// How many steps there are before the process stops.
static STEPS_LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Comes before everything that is asked of the file system.
pub(crate) fn may_stop() {
    let count = |left: usize| (left != usize::MAX).then(|| left.wrapping_sub(1));
    if STEPS_LEFT.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count) == Ok(0) {
        kill_process(getpid(), Signal::STOP).unwrap();
        // The signal may be on its way to another thread; go on when told.
        stdin().read_line(&mut String::new()).unwrap();
    }
}

/// A process of the host, or a part of one.
struct Node {
    store: Store,
    owner: Owner,
    lease: Duration,
}

impl Node {
    fn open(dir: &Path, name: &str, lease: Duration) -> Self {
        let store = Store {
            directory: Directory::open(dir, Options::default()).unwrap(),
            lives: Arc::new(Lives::new()),
            clock: Arc::new(BootClock),
            clock_name: "boot".to_owned(),
            process: Process::own(),
            seen: HashMap::new(),
            numbers: HashMap::new(),
            awaited: HashMap::new(),
        };
        let owner = Owner {
            node: name.parse().unwrap(),
            incarnation: Incarnation::random(),
        };
        Self {
            store,
            owner,
            lease,
        }
    }

    fn call(&self) -> Call {
        Call::unattended(Arc::new(BootClock), BootClock.now() + DEADLINE)
    }

    fn try_lock(&mut self) -> Result<LockOutcome, Error> {
        let call = self.call();
        let request = TryLock {
            key: KEY,
            owner: &self.owner,
            ttl: self.lease,
            floor: Epoch::ZERO,
            info: "acquired",
            presumed_dead: None,
        };
        self.store.try_lock(&request, &call)
    }

    fn renew(&mut self, epoch: Epoch) -> Result<RenewOutcome, Error> {
        let call = self.call();
        let store = &mut self.store;
        store.renew_lock(KEY, &self.owner, epoch, self.lease, "renewed", &call)
    }

    fn unlock(&mut self, epoch: Epoch) -> Result<UnlockOutcome, Error> {
        let call = self.call();
        self.store.unlock(KEY, &self.owner, epoch, None, &call)
    }

    fn holder(&mut self) -> Option<Holder> {
        let call = self.call();
        self.store.lock_holder(KEY, &call).unwrap()
    }

    fn set(&mut self, key: &str, text: &str, ttl: Option<Duration>) -> Result<SetOutcome, Error> {
        let call = self.call();
        self.store.set_value(key, text, ttl, Expect::Any, &call)
    }

    fn get(&mut self, key: &str) -> Option<String> {
        let call = self.call();
        let value = self.store.get_value(key, &call).unwrap();
        value.map(|value| value.text)
    }

    /// Tries until it has the lock. No try may fail.
    fn acquire(&mut self) -> Epoch {
        let end = BootClock.now() + PATIENCE;
        loop {
            match self.try_lock().expect("a stopped process is in the way") {
                LockOutcome::Acquired(acquired) => return acquired.epoch,
                LockOutcome::Held(holder) => thread::sleep(holder.remaining),
                LockOutcome::Reserved(reserved) => panic!("{reserved:?}"),
            }
            assert!(BootClock.now() < end, "the lock stays held");
        }
    }
}

/// What the process does that is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    Acquire,
    Renew,
    Unlock,
    Set,
    SetLasting,
    Tidy,
}

const CALLS: [(&str, Stopped); 6] = [
    ("acquire", Stopped::Acquire),
    ("renew", Stopped::Renew),
    ("unlock", Stopped::Unlock),
    ("set", Stopped::Set),
    ("set lasting", Stopped::SetLasting),
    ("tidy", Stopped::Tidy),
];

#[test]
fn wherever_a_process_is_stopped_others_go_on_and_it_finds_that_it_has_lost() {
    let next = Mutex::new((0usize, 0usize));
    // Mostly they wait for a lease.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let (call, steps) = {
                        let mut next = next.lock().unwrap();
                        let (call, steps) = *next;
                        next.1 += 1;
                        (call, steps)
                    };
                    let Some((name, stopped)) = CALLS.get(call) else {
                        return;
                    };
                    if !is_stopped(name, *stopped, steps) {
                        assert!(steps > 1, "{name}: it has no steps");
                        let mut next = next.lock().unwrap();
                        if next.0 == call {
                            *next = (call + 1, 0);
                        }
                    }
                    assert!(steps < STEPS_MAX, "{name}: it never ends");
                }
            });
        }
    });
}

/// Stops a process after so many steps of its call; returns whether it has so many.
fn is_stopped(name: &str, stopped: Stopped, steps: usize) -> bool {
    let context = format!("{name}, stopped after {steps} steps");
    let dir = TempDir::new().unwrap();
    let mut node = Node::open(dir.path(), "b", PATIENCE * 10);
    // So that there is something to clean.
    for number in 0..6 {
        node.set("b", &number.to_string(), None).unwrap();
        let epoch = node.acquire();
        node.unlock(epoch).unwrap();
    }
    let mut child = start(name, dir.path(), steps);
    if !child.stops() {
        return false;
    }
    let seen = node.holder();
    let epoch = node.acquire();
    for number in 0..20 {
        assert_eq!(
            node.renew(epoch).unwrap(),
            RenewOutcome::Renewed,
            "{context}"
        );
        node.set("b", &number.to_string(), Some(PATIENCE)).unwrap();
    }
    node.store.tidy();
    node.set("b", "lasting", None).unwrap();
    child.go_on();
    let said = child.hear();
    // What it had done before others could see that it had not is done.
    let acquired = seen.as_ref().map(|holder| holder.epoch.to_string());
    let had = seen.is_some_and(|holder| match stopped {
        Stopped::Acquire => said == format!("acquired {}", acquired.unwrap_or_default()),
        Stopped::Renew => holder.info == "renewed" && said == "Renewed",
        _ => false,
    });
    let lost = match stopped {
        Stopped::Acquire => said.starts_with("held by other"),
        // A slow machine ended the lease before.
        Stopped::Renew => said.starts_with("held by other") || said == "NotHeld",
        // Others may have seen its release.
        Stopped::Unlock => {
            said.starts_with("held by other") || said == "NotHeld" || said == "Unlocked"
        }
        Stopped::Set | Stopped::SetLasting => said == "stored",
        Stopped::Tidy => said == "done",
    };
    assert!(had || lost, "{context}: {said}");
    assert_eq!(child.hear(), "lost", "{context}");
    assert_eq!(node.holder().unwrap().epoch, epoch, "{context}");
    assert_eq!(node.get("b").unwrap(), "lasting", "{context}");
    if matches!(stopped, Stopped::Set | Stopped::SetLasting) {
        assert_eq!(node.get("a").unwrap(), "of the stopped", "{context}");
    }
    // And all is well afterwards.
    assert_eq!(
        node.unlock(epoch).unwrap(),
        UnlockOutcome::Unlocked,
        "{context}"
    );
    assert!(
        Node::open(dir.path(), "c", PATIENCE * 10).acquire() > epoch,
        "{context}"
    );
    true
}

/// A child that does not outlive its test.
struct Kid {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Kid {
    /// Waits until it is stopped, or has ended without.
    fn stops(&self) -> bool {
        let pid = Pid::from_child(&self.process);
        let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(
            status.stopped() || status.exit_status() == Some(0),
            "{status:?}"
        );
        status.stopped()
    }

    fn go_on(&mut self) {
        kill_process(Pid::from_child(&self.process), Signal::CONT).unwrap();
        let mut input = self.process.stdin.take().unwrap();
        input.write_all(b"go on\n").unwrap();
    }

    /// What it says next; the test harness talks, too.
    fn hear(&mut self) -> String {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        let said = lines.find_map(|line| line.strip_prefix('@').map(str::to_owned));
        said.expect("the child ended without a word")
    }
}

impl Drop for Kid {
    fn drop(&mut self) {
        // Fails when it has ended and was waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(call: &str, dir: &Path, steps: usize) -> Kid {
    let mut process = Command::new(env::current_exe().unwrap())
        .args(["--exact", "stop_tests::child", "--nocapture"])
        .env(CALL, call)
        .env(DIR, dir)
        .env(STEPS, steps.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    Kid { process, lines }
}

/// Not a test: what the stopped process does.
#[test]
fn child() {
    let (Ok(name), Ok(dir), Ok(steps)) = (env::var(CALL), env::var(DIR), env::var(STEPS)) else {
        return;
    };
    let (_, stopped) = CALLS.into_iter().find(|(known, _)| *known == name).unwrap();
    let mut node = Node::open(Path::new(&dir), "a", LEASE);
    let held = (stopped != Stopped::Acquire).then(|| node.acquire());
    let mut epoch = held.unwrap_or(Epoch::ZERO);
    STEPS_LEFT.store(steps.parse().unwrap(), Ordering::SeqCst);
    let outcome = match stopped {
        Stopped::Acquire => node.try_lock().map(|outcome| match outcome {
            LockOutcome::Acquired(acquired) => {
                epoch = acquired.epoch;
                format!("acquired {epoch}")
            }
            other => say_held(&other, matches!(other, LockOutcome::Held(_))),
        }),
        Stopped::Renew => node
            .renew(epoch)
            .map(|outcome| say_held(&outcome, matches!(outcome, RenewOutcome::HeldByOther(_)))),
        Stopped::Unlock => node
            .unlock(epoch)
            .map(|outcome| say_held(&outcome, matches!(outcome, UnlockOutcome::HeldByOther(_)))),
        Stopped::Set => {
            let set = node.set("a", "of the stopped", Some(PATIENCE));
            set.map(|_| "stored".to_owned())
        }
        Stopped::SetLasting => {
            let set = node.set("a", "of the stopped", None);
            set.map(|_| "stored".to_owned())
        }
        Stopped::Tidy => {
            node.store.tidy();
            Ok("done".to_owned())
        }
    };
    let was_stopped = STEPS_LEFT.swap(usize::MAX, Ordering::SeqCst) == usize::MAX;
    println!("\n@{}", outcome.unwrap());
    if was_stopped {
        let renewed = node.renew(epoch).unwrap();
        assert!(
            matches!(renewed, RenewOutcome::HeldByOther(_)),
            "{name} after {steps} steps in {dir}: {renewed:?}"
        );
        println!("\n@lost");
    }
}

fn say_held(outcome: &impl std::fmt::Debug, by_other: bool) -> String {
    if by_other {
        format!("held by other: {outcome:?}")
    } else {
        format!("{outcome:?}")
    }
}
