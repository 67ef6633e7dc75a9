//! What the rest of a process sees of its election.

use std::{sync::Arc, time::Duration};

use kvcm_fence::Epoch;
use tokio::sync::{mpsc, oneshot, watch};

use crate::{DemoteOutcome, Gate, Input, Measures, Record, View, driver::Records};

/// What the driver receives from outside.
#[derive(Debug)]
pub(crate) enum Message {
    Input(Input),
    Demote {
        expected: Option<Epoch>,
        reply: oneshot::Sender<DemoteOutcome>,
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
        let (reply, answer) = oneshot::channel();
        if self
            .messages
            .send(Message::Demote { expected, reply })
            .await
            .is_err()
        {
            return DemoteOutcome::NotLeader;
        }
        answer.await.unwrap_or(DemoteOutcome::NotLeader)
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

    /// Both may be lost when the queue is full: the store refuses the next write as well.
    fn post(&self, input: Input) {
        if self.messages.try_send(Message::Input(input)).is_err() {
            tracing::warn!("the queue of the election is full, a message to it was dropped");
        }
    }
}
