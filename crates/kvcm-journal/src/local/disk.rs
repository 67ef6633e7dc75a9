//! A thread that touches files.
//!
//! A disk may block for as long as it likes; callers must not.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

use crate::Outcome;

/// How many calls may wait for the thread.
const WAITING_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// A way to the thread, which ends when this is dropped.
#[derive(Clone, Debug)]
pub(super) struct Disk(SyncSender<Job>);

/// A call that gave no answer.
#[derive(Debug)]
pub(super) struct NoAnswer {
    /// `NotDone`: it has not begun and will not.
    pub(super) outcome: Outcome,
    /// Why.
    pub(super) why: String,
}

impl Disk {
    pub(super) fn start(name: &str) -> io::Result<Self> {
        let (jobs, queue) = sync_channel(WAITING_MAX);
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || work(&queue))?;
        Ok(Self(jobs))
    }

    /// Runs `job` on the thread, and waits for as long as that takes. A job whose caller has gone
    /// before it began is left out.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.run_within(Duration::MAX, job).await
    }

    /// The same within `timeout`, also when the disk hangs.
    pub(super) async fn run_within<T: Send + 'static>(
        &self,
        timeout: Duration,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let mut call = GiveUp(Arc::default());
        let stage = call.0.clone();
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move || {
            if stage.advance(BEGUN) == BEGUN {
                // Fails only when the caller has gone.
                let _ = reply.send(job());
            }
        });
        self.0.try_send(job).map_err(|error| NoAnswer {
            outcome: Outcome::NotDone,
            why: match error {
                TrySendError::Full(_) => format!("{WAITING_MAX} calls wait for the disk already"),
                TrySendError::Disconnected(_) => "the thread of the journal has ended".to_owned(),
            },
        })?;
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(NoAnswer {
                outcome: Outcome::Unknown,
                why: "the thread of the journal has ended".to_owned(),
            }),
            Err(_) => Err(NoAnswer {
                outcome: call.give_up(),
                why: format!(
                    "the disk has not answered within {} ms",
                    timeout.as_millis()
                ),
            }),
        }
    }
}

fn work(queue: &Receiver<Job>) {
    while let Ok(job) = queue.recv() {
        job();
    }
}

/// How far a call has come.
#[derive(Debug, Default)]
struct Stage(AtomicU8);

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Stage {
    /// Leaves `WAITING` for `to`, once; gives the stage after it.
    fn advance(&self, to: u8) -> u8 {
        let changed = self
            .0
            .compare_exchange(WAITING, to, Ordering::SeqCst, Ordering::SeqCst);
        match changed {
            Ok(_) => to,
            Err(present) => present,
        }
    }
}

/// Gives a call up when its caller drops it.
struct GiveUp(Arc<Stage>);

impl GiveUp {
    fn give_up(&mut self) -> Outcome {
        match self.0.advance(GIVEN_UP) {
            BEGUN => Outcome::Unknown,
            _ => Outcome::NotDone,
        }
    }
}

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.give_up();
    }
}
