//! Being told to end, by Ctrl-C or SIGTERM.
//!
//! Processes that were started are ended where they go out of scope. So whoever is told returns, and
//! does not exit.

use std::{future::Future, io, thread, time::Duration};

use anyhow::bail;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code of who was told to end.
pub const INTERRUPTED: u8 = 130;

/// How long a sleeper takes to notice.
const LOOK: Duration = Duration::from_millis(20);

/// SIGINT and SIGTERM, which end nothing by themselves once they are listened to.
#[derive(Debug)]
pub struct EndSignals {
    int: Signal,
    term: Signal,
}

impl EndSignals {
    /// Listens from now on. Needs a runtime around it.
    ///
    /// # Errors
    /// When a handler cannot be set.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
        }
    }
}

/// Whether a program that blocks was told to end. Its waits end with an error then.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(CancellationToken);

impl Interrupt {
    /// Listens on a thread of its own.
    ///
    /// # Errors
    /// When a handler cannot be set, or the thread cannot be had.
    pub fn on_signals() -> io::Result<Self> {
        let interrupt = Self::default();
        let told = interrupt.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut signals = {
            let _inside = runtime.enter();
            EndSignals::listen()?
        };
        let thread = thread::Builder::new().name("signals".to_owned());
        thread.spawn(move || {
            runtime.block_on(signals.next());
            told.tell();
        })?;
        Ok(interrupt)
    }

    /// What a signal does.
    pub fn tell(&self) {
        self.0.cancel();
    }

    /// Whether that was done.
    pub fn is_told(&self) -> bool {
        self.0.is_cancelled()
    }

    /// An error once told.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.is_told() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Sleeps, unless it is told.
    pub(crate) fn sleep(&self, time: Duration) -> anyhow::Result<()> {
        let mut rest = time;
        while !rest.is_zero() {
            self.check()?;
            let part = rest.min(LOOK);
            thread::sleep(part);
            rest -= part;
        }
        self.check()
    }

    /// Does `work`, unless it is told; what was done so far is dropped then.
    pub(crate) async fn or<T>(
        &self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        match self.0.run_until_cancelled(work).await {
            Some(done) => done,
            None => bail!("interrupted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const FOR_EVER: Duration = Duration::from_secs(100_000);

    #[test]
    fn waits_end_when_it_is_told_and_not_before() {
        let interrupt = Interrupt::default();
        interrupt.sleep(Duration::from_millis(1)).unwrap();
        let other = interrupt.clone();
        let sleeper = thread::spawn(move || other.sleep(FOR_EVER));
        interrupt.tell();
        assert!(sleeper.join().unwrap().is_err());
        assert!(interrupt.check().is_err() && interrupt.is_told());
    }

    #[tokio::test]
    async fn work_is_done_or_dropped() {
        let interrupt = Interrupt::default();
        assert_eq!(interrupt.or(async { Ok(7) }).await.unwrap(), 7);
        interrupt.tell();
        interrupt
            .or(pending::<anyhow::Result<()>>())
            .await
            .unwrap_err();
    }
}
