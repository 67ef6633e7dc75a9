//! Threads that may hang.
//!
//! A shared file system whose server is away blocks whoever touches it, without end and without a
//! way to take the call back. So each root has a few threads of its own: what hangs there holds
//! neither the server up nor another storage, and callers wait until their deadline at most.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// Threads of one root.
const THREADS: usize = 4;
/// How many of them delete at most: one is left for what somebody waits for.
const THREADS_DELETING: usize = THREADS - 1;
/// Calls that wait for a thread, of each lane.
const WAITING_MAX: usize = 256;
/// A thread without work ends after this.
const IDLE: Duration = Duration::from_secs(10);

/// Who waits for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// A caller who wants to go on: goes first.
    Urgent,
    /// Deletions.
    Bulk,
}

/// The threads of one root.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    urgent: VecDeque<Job>,
    bulk: VecDeque<Job>,
    threads: usize,
    /// Threads that wait for work.
    idle: usize,
    /// Threads that delete.
    bulk_running: usize,
    /// Threads whose caller has given up, of these `hung_bulk` delete.
    hung: usize,
    hung_bulk: usize,
}

struct Job {
    call: Call,
    lane: Lane,
    run: Box<dyn FnOnce(&Call) + Send>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Job").field(&self.lane).finish()
    }
}

/// Why a job has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// It was not begun and never will be.
    NotBegun(&'static str),
    /// It was begun, and nobody knows how far it got.
    Hangs,
}

// === impl Pool ===

impl Pool {
    /// Runs `job` on a thread. Returns by the deadline even when the thread does not. A job that
    /// has several steps asks [`Call::is_awaited`] between them. Dropping the future gives the
    /// call up.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        lane: Lane,
        within: Duration,
        job: impl FnOnce(&Call) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let (reply, mut answer) = oneshot::channel();
        let call = Call::default();
        self.submit(Job {
            call: call.clone(),
            lane,
            // Fails only when the caller has gone.
            run: Box::new(move |call| drop(reply.send(job(call)))),
        })?;
        let mut caller = Caller {
            pool: self,
            call,
            lane,
            waits: true,
        };
        let answered = tokio::time::timeout(within, &mut answer).await;
        match answered {
            Ok(answer) => {
                caller.waits = false;
                answer.map_err(|_| NoAnswer::NotBegun(HUNG))
            }
            Err(_) if caller.gives_up_unbegun() => Err(NoAnswer::NotBegun(
                "its threads were busy until the deadline",
            )),
            // It may have been done in this very moment.
            Err(_) => answer.try_recv().map_err(|_| NoAnswer::Hangs),
        }
    }

    /// How many of the threads hang.
    pub(crate) fn hung(&self) -> usize {
        self.state.lock().hung
    }

    /// Whether all of them hang, so that nothing can be done.
    pub(crate) fn is_hung(&self) -> bool {
        self.state.lock().is_hung(Lane::Urgent)
    }

    fn submit(self: &Arc<Self>, job: Job) -> Result<(), NoAnswer> {
        let mut state = self.state.lock();
        if state.is_hung(job.lane) {
            return Err(NoAnswer::NotBegun(HUNG));
        }
        let queue = match job.lane {
            Lane::Urgent => &mut state.urgent,
            Lane::Bulk => &mut state.bulk,
        };
        if queue.len() >= WAITING_MAX {
            return Err(NoAnswer::NotBegun("too many calls wait for it already"));
        }
        queue.push_back(job);
        let waiting = state.urgent.len() + state.bulk.len();
        if waiting > state.idle && state.threads < THREADS {
            let pool = Arc::clone(self);
            let thread = thread::Builder::new().name("kvcm-storage".to_owned());
            match thread.spawn(move || pool.work()) {
                Ok(_) => state.threads += 1,
                // Those that there are will come to it.
                Err(error) if state.threads > 0 => {
                    tracing::warn!(%error, "cannot start another thread for a storage");
                }
                Err(_) => {
                    state.refuse_waiting(Lane::Urgent);
                    state.refuse_waiting(Lane::Bulk);
                    return Err(NoAnswer::NotBegun("no thread can be started"));
                }
            }
        }
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// Counts the thread of a call that runs, until it ends.
    fn hangs(&self, call: &Call, lane: Lane) {
        let mut state = self.state.lock();
        // Under the lock, as its end.
        if !call.advance(RUNNING, HANGING) {
            return;
        }
        state.hung += 1;
        if lane == Lane::Bulk {
            state.hung_bulk += 1;
        }
        // Nobody will come to those who wait.
        for lane in [Lane::Urgent, Lane::Bulk] {
            if state.is_hung(lane) {
                state.refuse_waiting(lane);
            }
        }
    }

    /// What a thread does.
    fn work(self: Arc<Self>) {
        let mut state = self.state.lock();
        loop {
            let Some(job) = state.next() else {
                state.idle += 1;
                let waited = self.work.wait_for(&mut state, IDLE);
                state.idle -= 1;
                if waited.timed_out() && !state.has_next() {
                    state.threads -= 1;
                    return;
                }
                continue;
            };
            drop(state);
            let (lane, call) = (job.lane, job.call);
            if call.advance(WAITING, RUNNING) {
                // A panic is a fault of the job, which has lost its caller then; the thread and its
                // place in the count stay.
                let run = std::panic::AssertUnwindSafe(|| (job.run)(&call));
                if std::panic::catch_unwind(run).is_err() {
                    tracing::error!("a job of a storage panicked");
                }
            }
            state = self.state.lock();
            if lane == Lane::Bulk {
                state.bulk_running -= 1;
            }
            if call.0.swap(DONE, Ordering::SeqCst) == HANGING {
                state.hung -= 1;
                if lane == Lane::Bulk {
                    state.hung_bulk -= 1;
                }
            }
        }
    }
}

const HUNG: &str = "all its threads hang in calls to the file system";

impl State {
    fn is_hung(&self, lane: Lane) -> bool {
        self.hung >= THREADS || (lane == Lane::Bulk && self.hung_bulk >= THREADS_DELETING)
    }

    fn has_next(&self) -> bool {
        !self.urgent.is_empty() || (!self.bulk.is_empty() && self.bulk_running < THREADS_DELETING)
    }

    fn next(&mut self) -> Option<Job> {
        if let Some(job) = self.urgent.pop_front() {
            return Some(job);
        }
        if self.bulk_running >= THREADS_DELETING {
            return None;
        }
        let job = self.bulk.pop_front()?;
        self.bulk_running += 1;
        Some(job)
    }

    /// The callers learn it by the end of their channels.
    fn refuse_waiting(&mut self, lane: Lane) {
        match lane {
            Lane::Urgent => self.urgent.clear(),
            Lane::Bulk => self.bulk.clear(),
        }
    }
}

/// What a job knows of its caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call(Arc<AtomicU8>);

const WAITING: u8 = 0;
const RUNNING: u8 = 1;
/// The caller has gone before it began.
const GIVEN_UP: u8 = 2;
/// The caller has gone while it runs: nobody knows whether it ends.
const HANGING: u8 = 3;
const DONE: u8 = 4;

impl Call {
    /// Whether somebody still waits for the answer.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.load(Ordering::SeqCst) == RUNNING
    }

    fn advance(&self, from: u8, to: u8) -> bool {
        let exchanged = self
            .0
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        exchanged.is_ok()
    }
}

/// Gives a call up when it is dropped.
struct Caller<'a> {
    pool: &'a Pool,
    call: Call,
    lane: Lane,
    waits: bool,
}

impl Caller<'_> {
    /// Whether the job had not begun; otherwise its thread counts as hanging until it ends.
    fn gives_up_unbegun(&mut self) -> bool {
        self.waits = false;
        let unbegun = self.call.advance(WAITING, GIVEN_UP);
        if !unbegun {
            self.pool.hangs(&self.call, self.lane);
        }
        unbegun
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.gives_up_unbegun();
        }
    }
}
