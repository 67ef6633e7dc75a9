//! Shuts the gate at its deadline, whatever the rest of the process is doing.

use std::{sync::Arc, time::Duration};

use kvcm_clock::Timer;
use tokio::sync::mpsc;

use crate::{Gate, Input, handle::Message};

/// Shuts the gate at its deadline and tells the core. The gate looks at the deadline itself on
/// every admission, so this is what makes the *demotion* prompt when the lock loop hangs.
#[derive(Debug)]
pub struct LeaseCheck {
    pub(super) gate: Arc<Gate>,
    pub(super) messages: mpsc::Sender<Message>,
    pub(super) timer: Arc<dyn Timer>,
    pub(super) interval: Duration,
}

impl LeaseCheck {
    /// Runs as a future, for tests and simulations; ends with the election.
    pub async fn run(self, clock: Arc<dyn kvcm_clock::Clock>) {
        while self.look() {
            let wait = self.next_wait();
            tokio::select! {
                biased;
                () = self.timer.sleep_until(clock.now() + wait) => {}
                () = self.messages.closed() => return,
            }
        }
    }

    /// Runs on a thread of its own; ends with the election.
    pub fn run_blocking(self) {
        while self.look() {
            std::thread::park_timeout(self.next_wait());
        }
    }

    /// Looks once. False when the election has ended.
    fn look(&self) -> bool {
        if let Some((epoch, ended)) = self.gate.shut_if_expired() {
            tracing::warn!(
                epoch = epoch.get(),
                gate = "shut",
                at_ns = ended.as_nanos(),
                "the lease ended without renewal, the gate is shut"
            );
            // When the queue is full the next renewal finds the gate shut.
            let input = Input::GateShut { epoch };
            let _ = self.messages.try_send(Message::Input(input));
        }
        !self.messages.is_closed()
    }

    fn next_wait(&self) -> Duration {
        let wait = self.gate.left().unwrap_or(self.interval).min(self.interval);
        wait.max(Duration::from_millis(1))
    }
}
