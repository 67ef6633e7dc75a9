//! The loop that owns the core.

use std::collections::HashMap;
use std::sync::Arc;

use coordination_core::HintStream;
use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use kvcm_clock::{Clock as _, Moment, Timer as _};
use kvcm_fence::Epoch;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::coop::consume_budget,
};

use super::{calls::Calls, lateness::Lateness, records::Records, transitions::Job};
use crate::{
    Command, Core, DemoteOutcome, Gate, Input, PauseRefused, Role, TransferOutcome,
    TransferRefused, View, handle::Message,
};

/// Owns the core, feeds it and performs its commands. Only gate operations and the starting of
/// calls happen in it, so that no turn can block.
pub(super) struct LockLoop {
    pub(super) core: Core,
    pub(super) gate: Arc<Gate>,
    pub(super) inbox: mpsc::Receiver<Message>,
    pub(super) jobs: mpsc::Sender<Job>,
    pub(super) view: watch::Sender<View>,
    pub(super) records: Arc<Records>,
    pub(super) calls: Calls,
}

/// What is under way between two turns.
struct Pending {
    calls: FuturesUnordered<BoxFuture<'static, Input>>,
    demotions: Replies<DemoteOutcome>,
    transfers: Replies<Result<TransferOutcome, TransferRefused>>,
    pauses: Replies<Result<(), PauseRefused>>,
    wake: Moment,
    /// The gate of this epoch could not be extended.
    found_shut: Option<Epoch>,
    stopped: bool,
}

/// Requests whose answer the core owes.
struct Replies<T> {
    waiting: HashMap<u64, oneshot::Sender<T>>,
    next: u64,
}

impl<T> Replies<T> {
    fn new() -> Self {
        Self {
            waiting: HashMap::new(),
            next: 1,
        }
    }

    fn wait(&mut self, reply: oneshot::Sender<T>) -> u64 {
        let id = self.next;
        self.next += 1;
        self.waiting.insert(id, reply);
        id
    }

    /// Whoever asked may have gone.
    fn answer(&mut self, id: u64, answer: T) {
        if let Some(reply) = self.waiting.remove(&id) {
            let _ = reply.send(answer);
        }
    }
}

impl LockLoop {
    pub(super) async fn run(mut self) {
        let mut hints: HintStream = self.calls.backend.watch(&self.calls.key);
        let mut hints_ended = false;
        let mut lateness = Lateness::new();
        let mut pending = Pending {
            calls: FuturesUnordered::new(),
            demotions: Replies::new(),
            transfers: Replies::new(),
            pauses: Replies::new(),
            wake: Moment::ZERO,
            found_shut: None,
            stopped: false,
        };
        self.turn(Input::Tick, &mut pending).await;
        while !pending.stopped {
            // Whatever keeps this loop busy, the connections of the backend live on this thread.
            consume_budget().await;
            let input = tokio::select! {
                biased;
                // First, so that no flood of messages can keep an answer about the lease waiting.
                Some(input) = pending.calls.next() => input,
                message = self.inbox.recv() => match message {
                    Some(message) => Self::input(message, &mut pending),
                    // Every handle is gone: nobody can ask for anything any more.
                    None => Input::Stop,
                },
                hint = hints.next(), if !hints_ended => match hint {
                    Some(hint) => Input::Hint(hint),
                    None => { hints_ended = true; Input::Tick }
                },
                () = self.calls.timer.sleep_until(pending.wake) => {
                    let late = self.calls.clock.now().since(pending.wake);
                    let margin = lateness.record(late);
                    self.records.timer_was_late(late, margin);
                    match margin {
                        Some(margin) => Input::SetMargin(margin),
                        None => Input::Tick,
                    }
                }
            };
            self.turn(input, &mut pending).await;
        }
    }

    fn input(message: Message, pending: &mut Pending) -> Input {
        match message {
            Message::Input(input) => input,
            Message::Demote {
                expected,
                pause,
                reply,
            } => Input::Demote {
                id: pending.demotions.wait(reply),
                expected,
                pause,
            },
            Message::Transfer {
                to,
                expected,
                reply,
            } => Input::Transfer {
                id: pending.transfers.wait(reply),
                to,
                expected,
            },
            Message::Pause { reply } => Input::Pause {
                id: pending.pauses.wait(reply),
            },
        }
    }

    async fn turn(&mut self, input: Input, pending: &mut Pending) {
        let mut next = Some(input);
        while let Some(input) = next {
            if let Input::RenewAnswered {
                sent,
                result: Ok(_),
                ..
            } = &input
            {
                self.records.renewed(self.calls.clock.now().since(*sent));
            }
            let commands = self.core.step(self.calls.clock.now(), input);
            for command in commands {
                self.perform(command, pending).await;
            }
            next = pending
                .found_shut
                .take()
                .map(|epoch| Input::GateShut { epoch });
        }
        self.publish();
    }

    async fn perform(&self, command: Command, pending: &mut Pending) {
        match command {
            Command::TryLock {
                floor,
                presumed_dead,
            } => {
                pending
                    .calls
                    .push(self.calls.try_lock(floor, presumed_dead));
            }
            Command::Observe => pending.calls.push(self.calls.observe()),
            Command::Renew { epoch, phase } => pending.calls.push(self.calls.renew(epoch, phase)),
            Command::Unlock { epoch, reserve } => {
                pending.calls.push(self.calls.unlock(epoch, reserve));
            }
            Command::OpenGate { epoch, until } => self.open_gate(epoch, until),
            Command::ExtendGate { epoch, until } => {
                if !self.gate.extend(epoch, until) {
                    pending.found_shut = Some(epoch);
                }
            }
            Command::ShutAdmit { epoch } => self.gate.shut_admit(epoch),
            Command::ShutGate { epoch } => self.shut_gate(epoch),
            Command::Promote { epoch, previous } => {
                tracing::info!(%epoch, ?previous, "lock acquired, recovering");
                self.job(Job::Promote { epoch, previous }).await;
            }
            Command::CancelPromote { .. } => self.job(Job::Cancel).await,
            Command::Demote { epoch, reason } => {
                self.job(Job::Demote { epoch, reason }).await;
            }
            Command::ReopenGate { epoch } => {
                if self.gate.reopen(epoch) {
                    self.job(Job::Resume { epoch }).await;
                } else {
                    pending.found_shut = Some(epoch);
                }
            }
            Command::StopDrain { .. } => self.job(Job::StopDrain).await,
            Command::Drain { epoch, bound } => self.job(Job::Drain { epoch, bound }).await,
            Command::Probe => self.job(Job::Probe).await,
            Command::Reply { id, outcome } => pending.demotions.answer(id, outcome),
            Command::ReplyTransfer { id, result } => {
                match &result {
                    Ok(outcome) => tracing::info!(?outcome, "transfer ended"),
                    Err(error) => tracing::info!(%error, "transfer refused"),
                }
                pending.transfers.answer(id, result);
            }
            Command::ReplyPause { id, result } => pending.pauses.answer(id, result),
            Command::Record(change) => self.records.keep(change),
            Command::Wake(at) => pending.wake = at,
            Command::Stopped => pending.stopped = true,
        }
    }

    /// The line, and that of the shut gate, is what `kvcm-check` reads: never two gates open.
    fn open_gate(&self, epoch: Epoch, until: Moment) {
        let now = self.calls.clock.now();
        self.gate.open(epoch, until);
        tracing::info!(
            epoch = epoch.get(),
            gate = "open",
            at_ns = now.as_nanos(),
            "leading"
        );
    }

    fn shut_gate(&self, epoch: Epoch) {
        if let Some(deadline) = self.gate.shut(epoch) {
            let now = self.calls.clock.now();
            // A gate that does not look at its deadline was open until now.
            let at = match cfg!(feature = "unsafe-no-fencing") {
                true => now,
                false => now.min(deadline),
            };
            tracing::info!(
                epoch = epoch.get(),
                gate = "shut",
                at_ns = at.as_nanos(),
                "no longer leading"
            );
        }
    }

    /// The core has at most one callback, one drain and one probe under way, so the queue never
    /// fills.
    async fn job(&self, job: Job) {
        let _ = self.jobs.send(job).await;
    }

    fn publish(&self) {
        let new = self.core.view();
        self.view.send_if_modified(|view| {
            if new.role != view.role && new.role == Role::Follower {
                tracing::info!("standing by");
            }
            let changed = *view != new;
            *view = new;
            changed
        });
    }
}
