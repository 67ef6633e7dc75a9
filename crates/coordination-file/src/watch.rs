//! Hints: inotify tells of a new record, a pidfd that its holder's process has ended.
//!
//! Both only say when to look; what is told comes from a look at the record and at the holder's
//! lifetime lock. Where one of them is missing, looking every 10 ms takes its place.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use coordination_core::{Hint, HintStream};
use futures_util::stream;
use kvcm_clock::Clock;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::{net::unix::pipe::Receiver, sync::watch, time::sleep};

use crate::{host::Process, inotify::NameWatch, look::Look, names, readiness, worker::Worker};

/// Between two looks when nothing else tells of a change.
const LOOK_OFTEN: Duration = Duration::from_millis(10);
/// Between two looks when the kernel tells of changes: only in case it did not.
const LOOK_SELDOM: Duration = Duration::from_millis(250);
/// How long a look may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// One watch of one lock.
pub(crate) struct Watch {
    key: String,
    worker: Weak<Worker>,
    clock: Arc<dyn Clock>,
    end: watch::Receiver<()>,
    own_process: Process,
    directory: PathBuf,
    /// None where inotify cannot be had.
    names: Option<NameWatch>,
    /// The directory that was watched has gone: another one may be there soon.
    watches_anew: bool,
    /// The end of the holder's process.
    exit: Option<Exit>,
    /// None after a look that failed.
    last: Option<Look>,
    next: Next,
}

/// What comes before the next look.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Look,
    Wait,
}

/// Why it is time to look.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Start,
    RecordReplaced,
    ProcessEnded,
    Time,
    BackendDropped,
}

/// The end of a process.
struct Exit {
    of: Process,
    /// None when it cannot be waited for, or has come.
    pidfd: Option<Receiver>,
}

impl Watch {
    /// Watches from now on, not from the first poll on.
    pub(crate) fn new(
        key: &str,
        directory: &Path,
        worker: Weak<Worker>,
        clock: Arc<dyn Clock>,
        end: watch::Receiver<()>,
    ) -> Self {
        let names = NameWatch::new(directory, names::lock_record_prefix(key));
        let names = names.inspect_err(|error| {
            tracing::warn!(%error, "no inotify, looking every {LOOK_OFTEN:?} instead");
        });
        Self {
            key: key.to_owned(),
            worker,
            clock,
            end,
            own_process: Process::own(),
            directory: directory.to_owned(),
            names: names.ok(),
            watches_anew: false,
            exit: None,
            last: None,
            next: Next::Look,
        }
    }

    pub(crate) fn into_stream(self) -> HintStream {
        Box::pin(stream::unfold(self, async |mut watch| {
            let hint = watch.hint().await?;
            Some((hint, watch))
        }))
    }

    /// The next hint, or none when the backend has gone.
    async fn hint(&mut self) -> Option<Hint> {
        loop {
            let cause = match self.next {
                Next::Look => Cause::Start,
                Next::Wait => self.wait().await,
            };
            if cause == Cause::BackendDropped {
                return None;
            }
            self.next = Next::Wait;
            let look = self.look().await?;
            if look.is_some() && self.watches_anew {
                self.watches_anew = false;
                self.names =
                    NameWatch::new(&self.directory, names::lock_record_prefix(&self.key)).ok();
                // Something may have happened before it watched.
                self.next = Next::Look;
            }
            let hint = look.as_ref().and_then(|look| self.compare(look, cause));
            if let Some(look) = &look
                && self.follow(look)
            {
                // It may have ended between the look and the watch for its end.
                self.next = Next::Look;
            }
            self.last = look;
            if hint.is_some() {
                return hint;
            }
        }
    }

    async fn wait(&mut self) -> Cause {
        let is_seen = |look: &Look| look.is_own || look.is_dead || !look.is_held;
        let exit = self.exit.as_ref().and_then(|exit| exit.pidfd.as_ref());
        let waits_for_exit = exit.is_some() || self.last.as_ref().is_some_and(is_seen);
        let may_wait = self.names.is_some() && self.last.is_some() && waits_for_exit;
        let pause = if may_wait { LOOK_SELDOM } else { LOOK_OFTEN };
        let cause = tokio::select! {
            _ = self.end.changed() => Cause::BackendDropped,
            replaced = replaced(self.names.as_mut()) => {
                if let Err(error) = replaced {
                    tracing::warn!(%error, "inotify failed, looking every {LOOK_OFTEN:?} instead");
                    self.names = None;
                    self.watches_anew = true;
                }
                Cause::RecordReplaced
            }
            () = ended(exit) => Cause::ProcessEnded,
            () = sleep(pause) => Cause::Time,
        };
        if let (Cause::ProcessEnded, Some(exit)) = (cause, &mut self.exit) {
            exit.pidfd = None;
        }
        cause
    }

    /// A look, or an inner none when it failed; an outer none when the backend has gone.
    async fn look(&self) -> Option<Option<Look>> {
        let worker = self.worker.upgrade()?;
        let key = self.key.clone();
        let deadline = self.clock.now() + PATIENCE;
        let look = worker
            .run(deadline, move |store, call| store.look(&key, call))
            .await;
        // Its callers tell of errors; a watch has only hints.
        Some(
            look.inspect_err(|error| tracing::debug!(%error, "cannot look at the lock"))
                .ok(),
        )
    }

    fn compare(&self, look: &Look, cause: Cause) -> Option<Hint> {
        let was_dead = self.last.as_ref().is_some_and(|last| last.is_dead);
        if let Some(reign) = look.reign.as_ref().filter(|_| look.is_dead)
            && (!was_dead || cause == Cause::Time)
        {
            // Said again now and then: the caller may have been busy the first time.
            return Some(Hint::HolderDied {
                incarnation: reign.owner.incarnation,
                epoch: reign.epoch,
            });
        }
        let changed = match &self.last {
            Some(last) => last != look,
            None => cause == Cause::RecordReplaced,
        };
        changed.then_some(Hint::Changed)
    }

    /// Waits for the end of the process that holds the lock from now on. Returns whether it did
    /// not before.
    fn follow(&mut self, look: &Look) -> bool {
        let holder = look.reign.as_ref().map(|reign| &reign.process);
        let holder = holder.filter(|_| look.is_held && !look.is_dead && !look.is_own);
        if holder == self.exit.as_ref().map(|exit| &exit.of) {
            return false;
        }
        self.exit = holder.map(|process| Exit {
            of: process.clone(),
            pidfd: self.open_pidfd(process),
        });
        self.exit.as_ref().is_some_and(|exit| exit.pidfd.is_some())
    }

    /// None when the process cannot be seen from here, has ended, or is this one.
    fn open_pidfd(&self, process: &Process) -> Option<Receiver> {
        if !self.own_process.can_see(process) || self.own_process == *process {
            return None;
        }
        let pid = Pid::from_raw(i32::try_from(process.pid).ok()?)?;
        let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK).ok()?;
        readiness::register(pidfd).ok()
    }
}

async fn replaced(names: Option<&mut NameWatch>) -> io::Result<()> {
    match names {
        Some(names) => names.changed().await,
        None => std::future::pending().await,
    }
}

async fn ended(pidfd: Option<&Receiver>) {
    match pidfd {
        // An error is as good a reason to look as the end.
        Some(pidfd) => drop(pidfd.readable().await),
        None => std::future::pending().await,
    }
}
