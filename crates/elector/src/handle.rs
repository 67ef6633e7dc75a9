//! What the rest of a process sees of its election.

use std::{sync::Arc, time::Duration};

use coordination_core::NodeId;
use kvcm_fence::Epoch;
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    DemoteOutcome, Gate, Input, Measures, PauseRefused, Peer, Record, TransferOutcome,
    TransferRefused, View, driver::Records,
};

/// What the driver receives from outside.
#[derive(Debug)]
pub(crate) enum Message {
    Input(Input),
    Demote {
        expected: Option<Epoch>,
        pause: bool,
        reply: oneshot::Sender<DemoteOutcome>,
    },
    Transfer {
        to: NodeId,
        expected: Option<Epoch>,
        reply: oneshot::Sender<Result<TransferOutcome, TransferRefused>>,
    },
    Pause {
        reply: oneshot::Sender<Result<(), PauseRefused>>,
    },
}

/// A handle of an election; cheap to clone.
#[derive(Clone, Debug)]
pub struct Elector {
    pub(crate) gate: Arc<Gate>,
    pub(crate) messages: mpsc::Sender<Message>,
    pub(crate) view: watch::Receiver<View>,
    pub(crate) records: Arc<Records>,
}

impl Elector {
    /// The gate that leader-only work passes.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// What the election looks like now.
    pub fn view(&self) -> watch::Ref<'_, View> {
        self.view.borrow()
    }

    /// Follows what the election looks like.
    pub fn watch(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// The last changes of leadership that this node saw, at most 64, the oldest first.
    pub fn history(&self) -> Vec<Record> {
        self.records.history()
    }

    /// What was measured since the process started; more numbers are in [`View::totals`].
    pub fn measures(&self) -> Measures {
        self.records.measures()
    }

    /// Steps down: nothing new is let in, what is in flight finishes within the drain bound, the
    /// lock is released. Returns then; the demote callback may still be running. With `expected`
    /// only that epoch is given up.
    pub async fn demote(&self, expected: Option<Epoch>) -> DemoteOutcome {
        self.step_down(expected, false).await
    }

    /// As [`demote`](Self::demote), and then stays out of the race until [`resume`](Self::resume).
    /// When the step-down was not accepted, the node is not paused either.
    pub async fn demote_and_pause(&self, expected: Option<Epoch>) -> DemoteOutcome {
        self.step_down(expected, true).await
    }

    async fn step_down(&self, expected: Option<Epoch>, pause: bool) -> DemoteOutcome {
        let answer = self.ask(|reply| Message::Demote {
            expected,
            pause,
            reply,
        });
        answer.await.unwrap_or(DemoteOutcome::NotLeader)
    }

    /// Hands the lock over to the node `to`, which must be alive, eligible and ready by what
    /// [`set_peers`](Self::set_peers) told last: drains as [`demote`](Self::demote) does, then
    /// releases the lock so that only that node can take it for
    /// [`Settings::reservation`](crate::Settings). Returns when the successor was seen to have it,
    /// or when it is known that it will not. Until the release the transfer can be taken back: when
    /// the successor can no longer take over, requests outlast the drain bound, or
    /// [`cancel_transfer`](Self::cancel_transfer) asks for it; the reign then goes on in the same
    /// epoch. With `expected` only that epoch is handed over.
    ///
    /// # Errors
    /// Why it was not begun.
    pub async fn transfer(
        &self,
        to: NodeId,
        expected: Option<Epoch>,
    ) -> Result<TransferOutcome, TransferRefused> {
        let answer = self.ask(|reply| Message::Transfer {
            to,
            expected,
            reply,
        });
        answer.await.unwrap_or(Err(TransferRefused::NotLeader))
    }

    /// Takes a transfer back, if its lock is not yet released; its own answer tells.
    pub async fn cancel_transfer(&self) {
        let _ = self
            .messages
            .send(Message::Input(Input::CancelTransfer))
            .await;
    }

    /// Keeps this node out of the race until [`resume`](Self::resume); it still learns and reports
    /// who leads. Not remembered over a restart.
    ///
    /// # Errors
    /// A node that leads is not paused: see [`demote_and_pause`](Self::demote_and_pause).
    pub async fn pause(&self) -> Result<(), PauseRefused> {
        let answer = self.ask(|reply| Message::Pause { reply });
        answer.await.unwrap_or(Err(PauseRefused::Stopped))
    }

    /// Lets this node campaign again.
    pub async fn resume(&self) {
        let _ = self.messages.send(Message::Input(Input::Resume)).await;
    }

    /// Tells what is known of the other nodes, as often as it is looked at; an own entry is
    /// ignored. It counts for [`Settings::peers_max_age`](crate::Settings).
    pub fn set_peers(&self, peers: Vec<Peer>) {
        self.post(Input::Peers(peers));
    }

    /// Tells whether this node would be able to serve. A node that is not gives one that is the
    /// first chance; without another it asks its stores and tries all the same. True at the start.
    pub fn set_ready(&self, ready: bool) {
        self.post(Input::Ready(ready));
    }

    /// Tells whether the stores of this node answer and accept. A leader whose stores do not for a
    /// whole lease hands over, if another node is ready; another node counts as not ready
    /// meanwhile. To be told again with every look: messages may be lost under load.
    pub fn set_stores_ok(&self, ok: bool) {
        self.post(Input::StoresOk(ok));
    }

    /// None when the election has ended before it answered.
    async fn ask<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Message) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.messages.send(message(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Steps down if need be and ends the election; returns when nothing is held any more and no
    /// callback runs.
    pub async fn stop(&self) {
        let _ = self.messages.send(Message::Input(Input::Stop)).await;
        let mut view = self.watch();
        // An error means that the driver is gone, which is as stopped as it gets.
        let _ = view.wait_for(|view| view.stopped).await;
    }

    /// Sets how long this node stays out of the race after a step-down.
    pub async fn set_forbid(&self, forbid: Duration) {
        let _ = self
            .messages
            .send(Message::Input(Input::SetForbid(forbid)))
            .await;
    }

    /// A store has refused a write of `epoch`: the reign ends. `by` is the epoch that the store is
    /// claimed by, zero when it lost its fence.
    pub fn store_refused(&self, epoch: Epoch, by: Epoch) {
        self.post(Input::StoreRefused { epoch, by });
    }

    /// An epoch was seen outside the election: the next one of this node is higher.
    pub fn epoch_seen(&self, epoch: Epoch) {
        // Callers may see it with every request: what is known already costs the election nothing.
        if epoch > self.view.borrow().highest {
            self.post(Input::EpochSeen(epoch));
        }
    }

    /// A store that is claimed remembers an earlier claim. For promote callbacks, before they
    /// return: the backend may have lost all record of a leader that still serves, and then a
    /// store is the only one to tell of it.
    pub async fn store_remembers(&self, former: Epoch) {
        let input = Input::EpochSeen(former);
        let _ = self.messages.send(Message::Input(input)).await;
    }

    /// What is posted may be lost when the queue is full: a store refuses the next write as well,
    /// and the state of nodes is told again.
    fn post(&self, input: Input) {
        if self.messages.try_send(Message::Input(input)).is_err() {
            tracing::warn!("the queue of the election is full, a message to it was dropped");
        }
    }
}
