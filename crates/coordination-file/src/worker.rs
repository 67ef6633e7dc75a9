//! The one thread that touches files.
//!
//! A disk may block for as long as it likes; callers must not. They wait for their answer until
//! their deadline, and a call that has not begun to change anything by then never will.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use coordination_core::{Error, Outcome};
use kvcm_clock::{Clock, Moment, Timer, TokioTimer};
use tokio::sync::oneshot;

use crate::store::Store;

/// How many calls may wait for the thread.
const WAITING_MAX: usize = 64;

type Job = Box<dyn FnOnce(&mut Store) + Send>;

/// How long the end of the thread is waited for.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// A way to the thread. When this is dropped the thread ends, and nothing is changed any more,
/// unless the disk hangs.
#[derive(Debug)]
pub(crate) struct Worker {
    /// None when it is being dropped.
    jobs: Option<SyncSender<Job>>,
    /// Tells that the thread has ended, by being closed. The mutex is only there to share it.
    ended: Mutex<Receiver<()>>,
    clock: Arc<dyn Clock>,
    timer: TokioTimer<Arc<dyn Clock>>,
}

impl Worker {
    pub(crate) fn start(store: Store, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let (jobs, queue) = sync_channel(WAITING_MAX);
        let (end, ended) = sync_channel(0);
        let thread = thread::Builder::new().name("kvcm-coordination-file".to_owned());
        thread.spawn(move || work(store, &queue, end))?;
        Ok(Self {
            jobs: Some(jobs),
            ended: Mutex::new(ended),
            timer: TokioTimer::new(clock.clone()),
            clock,
        })
    }

    /// Runs `job` on the thread. Returns by `deadline` even when the thread does not; dropping
    /// the future gives the call up.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        deadline: Moment,
        job: impl FnOnce(&mut Store, &Call) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let call = Call {
            stage: Arc::default(),
            clock: self.clock.clone(),
            deadline,
        };
        let mut given_up = GiveUp(call.stage.clone());
        let (reply, answer) = oneshot::channel();
        self.send(Box::new(move |store| {
            let answer = call.check().and_then(|_| job(store, &call));
            // Fails only when the caller has gone.
            let _ = reply.send(answer);
        }))?;
        tokio::select! {
            biased;
            answer = answer => answer.unwrap_or_else(|_| {
                Err(Error::unknown("the thread of the file backend has ended"))
            }),
            () = self.timer.sleep_until(deadline) => Err(Error::Unavailable {
                outcome: given_up.now(),
                source: "the deadline has passed".into(),
            }),
        }
    }

    /// Runs `job` when the thread has nothing else to do, if it can; nobody waits for it.
    pub(crate) fn post(&self, job: impl FnOnce(&mut Store) + Send + 'static) {
        if let Err(error) = self.send(Box::new(job)) {
            tracing::debug!(%error, "left out some tidying");
        }
    }

    fn send(&self, job: Job) -> Result<(), Error> {
        let ended = || Error::not_done("the thread of the file backend has ended");
        let jobs = self.jobs.as_ref().ok_or_else(ended)?;
        jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => {
                Error::not_done(format!("{WAITING_MAX} calls wait for the disk already"))
            }
            TrySendError::Disconnected(_) => ended(),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Bounded, because the disk may hang. A closed channel is the answer.
        if ended.recv_timeout(END_PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the thread of the file backend goes on, the disk may be hanging");
        }
    }
}

/// Serves calls until nobody can send any; `end` closes with the return, also by a panic.
fn work(mut store: Store, queue: &Receiver<Job>, end: SyncSender<()>) {
    while let Ok(job) = queue.recv() {
        job(&mut store);
    }
    drop(store);
    drop(end);
}

/// What a job knows of its caller.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    stage: Arc<Stage>,
    clock: Arc<dyn Clock>,
    deadline: Moment,
}

impl Call {
    /// A call that nobody waits for.
    pub(crate) fn unattended(clock: Arc<dyn Clock>, deadline: Moment) -> Self {
        Self {
            stage: Arc::default(),
            clock,
            deadline,
        }
    }

    /// The present moment, when somebody still waits for the answer.
    pub(crate) fn check(&self) -> Result<Moment, Error> {
        let now = self.clock.now();
        if now > self.deadline {
            return Err(Error::not_done("the deadline has passed"));
        }
        if self.stage.0.load(Ordering::SeqCst) == GIVEN_UP {
            return Err(Error::not_done("the call was given up"));
        }
        Ok(now)
    }

    /// Comes before the first change. After it the caller no longer says that nothing happened.
    pub(crate) fn start_change(&self) -> Result<(), Error> {
        match self.stage.advance(CHANGING) {
            GIVEN_UP => Err(Error::not_done("the call was given up")),
            _ => Ok(()),
        }
    }
}

/// How far a call has come.
#[derive(Debug, Default)]
struct Stage(AtomicU8);

const WAITING: u8 = 0;
const CHANGING: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Stage {
    /// Leaves `WAITING` for `to`, once; returns the stage after it.
    fn advance(&self, to: u8) -> u8 {
        match self
            .0
            .compare_exchange(WAITING, to, Ordering::SeqCst, Ordering::SeqCst)
        {
            Ok(_) => to,
            Err(present) => present,
        }
    }
}

/// Gives a call up when its caller drops it.
struct GiveUp(Arc<Stage>);

impl GiveUp {
    /// What is known of the call.
    fn now(&mut self) -> Outcome {
        match self.0.advance(GIVEN_UP) {
            CHANGING => Outcome::Unknown,
            _ => Outcome::NotDone,
        }
    }
}

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.now();
    }
}
