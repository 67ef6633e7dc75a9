//! The signals that a server takes.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, SIGINT, SIGUSR1 and SIGUSR2, each of which stops the server, as with the predecessor.
/// From its creation on none of them ends the process by itself, nor does SIGHUP, which has the
/// files of TLS read again.
#[derive(Debug)]
pub struct StopSignals([Signal; 4]);

impl StopSignals {
    /// Takes the signals over; needs a runtime.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new() -> io::Result<Self> {
        // Once taken, a signal stays taken for the life of the process.
        let _ = signal(SignalKind::hangup())?;
        Ok(Self([
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::user_defined1())?,
            signal(SignalKind::user_defined2())?,
        ]))
    }

    /// Returns at the first signal; a second one ends the process at once.
    pub async fn first(mut self) {
        self.next().await;
        tokio::spawn(async move {
            self.next().await;
            tracing::warn!("asked to stop twice, ending without a hand-over");
            std::process::exit(1);
        });
    }

    async fn next(&mut self) {
        let [terminate, interrupt, user1, user2] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = user1.recv() => {}
            _ = user2.recv() => {}
        }
    }
}
