//! Performs what the core decides.
//!
//! Three activities: the *lock loop* owns the core and talks to the backend; *transitions* runs
//! the callbacks one after the other; the *lease check* shuts the gate at the deadline whatever
//! the other two are doing. All time comes from the injected clock and timer, so that a paused
//! runtime replays a run exactly.

mod calls;
mod lateness;
mod lease_check;
mod lock_loop;
mod records;
mod transitions;

use std::{fmt, sync::Arc};

use coordination_core::{Backend, Owner};
use futures_util::future::BoxFuture;
use kvcm_clock::{Clock, Timer};
use tokio::sync::{mpsc, watch};

pub use self::lease_check::LeaseCheck;
pub(crate) use self::records::Records;
use self::{lock_loop::LockLoop, transitions::Transitions};
use crate::{Core, Elector, Gate, Leadership, LockInfo, Phase, Settings};

/// Starts a callback on the runtime where the work of a leader lives.
pub trait Spawn: fmt::Debug + Send + Sync + 'static {
    /// Runs `future` to its end.
    fn spawn(&self, future: BoxFuture<'static, ()>);

    /// Ends the process at once, as a callback that ignores its cancellation demands. A simulation
    /// of several processes ends the one; whoever returns from here is not polled again.
    fn abort(&self) {
        std::process::abort();
    }
}

impl Spawn for tokio::runtime::Handle {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        drop(tokio::runtime::Handle::spawn(self, future));
    }
}

/// What an election is made of.
pub struct Parts {
    /// Its numbers; checked by the caller.
    pub settings: Settings,
    /// Who takes part.
    pub owner: Owner,
    /// The lock.
    pub key: String,
    /// How to reach this node: stored with the lock.
    pub endpoint: serde_json::Value,
    /// Where the lock lives.
    pub backend: Arc<dyn Backend>,
    /// What leading means.
    pub leadership: Arc<dyn Leadership>,
    /// The clock that the backend uses as well.
    pub clock: Arc<dyn Clock>,
    /// Waits on that clock.
    pub timer: Arc<dyn Timer>,
    /// Where the callbacks run.
    pub spawner: Arc<dyn Spawn>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("settings", &self.settings)
            .field("owner", &self.owner)
            .field("backend", &self.backend.describe())
            .finish_non_exhaustive()
    }
}

/// The activities of an election, to be placed by the caller (see [`crate::threads`]). The
/// futures end after [`Elector::stop`].
pub struct Driver {
    /// Owns the core and talks to the backend.
    pub lock_loop: BoxFuture<'static, ()>,
    /// Runs the callbacks.
    pub transitions: BoxFuture<'static, ()>,
    /// Shuts the gate at its deadline.
    pub lease_check: LeaseCheck,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// Builds an election. Nothing happens until the futures of the driver are polled.
pub fn start(parts: Parts) -> (Elector, Driver) {
    let gate = Arc::new(Gate::new(parts.clock.clone()));
    let (messages, inbox) = mpsc::channel(256);
    let core = Core::new(
        parts.settings.clone(),
        parts.owner.clone(),
        parts.clock.now(),
    );
    let (view_tx, view) = watch::channel(core.view());
    let (jobs_tx, jobs) = mpsc::channel(16);
    let records = Arc::new(Records::new());
    let elector = Elector {
        gate: gate.clone(),
        messages: messages.clone(),
        view,
        records: records.clone(),
    };
    let info = {
        let endpoint = parts.endpoint;
        move |phase: Phase| {
            LockInfo {
                phase,
                endpoint: endpoint.clone(),
            }
            .encode()
        }
    };
    let transitions = Transitions {
        jobs,
        next: None,
        messages: messages.clone(),
        gate: gate.clone(),
        leadership: parts.leadership,
        settings: parts.settings.clone(),
        timer: parts.timer.clone(),
        clock: parts.clock.clone(),
        spawner: parts.spawner,
    };
    let lease_check = LeaseCheck {
        gate: gate.clone(),
        messages,
        timer: parts.timer.clone(),
        interval: parts.settings.loop_interval,
    };
    let lock_loop = LockLoop {
        core,
        gate,
        inbox,
        jobs: jobs_tx,
        view: view_tx,
        records,
        calls: calls::Calls {
            backend: parts.backend,
            key: parts.key.into(),
            owner: Arc::new(parts.owner),
            clock: parts.clock,
            timer: parts.timer,
            settings: parts.settings,
            info: Arc::new(info),
        },
    };
    let driver = Driver {
        lock_loop: Box::pin(lock_loop.run()),
        transitions: Box::pin(transitions.run()),
        lease_check,
    };
    (elector, driver)
}
