//! Places an election in production.
//!
//! The lock loop and the transitions run on a control thread with a runtime of their own, so that
//! a saturated data plane cannot cost the lease; the lease check is a plain thread, so that
//! nothing at all can delay it but the scheduler. Callbacks run where the [`Spawn`] of the parts
//! puts them.

use std::{
    io,
    thread::{Builder, JoinHandle},
};

use tokio::{runtime, sync::oneshot};

use crate::Driver;

/// A thread with a current-thread runtime for what must not wait for the data plane.
#[derive(Debug)]
pub struct Control {
    handle: runtime::Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system refuses a thread or the descriptors of a runtime.
    pub fn start() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = Builder::new()
            .name("kvcm-control".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(stopped);
                // A name lookup that hangs in the system is not waited for.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where to spawn what must not wait for the data plane.
    pub fn handle(&self) -> &runtime::Handle {
        &self.handle
    }

    /// Runs an election until it has ended.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn run(&self, driver: Driver) -> io::Result<()> {
        self.handle.spawn(driver.lock_loop);
        self.handle.spawn(driver.transitions);
        let lease_check = driver.lease_check;
        Builder::new()
            .name("kvcm-lease".to_owned())
            .spawn(move || lease_check.run_blocking())
            .map(drop)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_end_does_not_wait_for_a_blocking_call_that_hangs() {
        let control = Control::start().unwrap();
        let (release, hang) = mpsc::sync_channel::<()>(1);
        let (began, wait_began) = mpsc::sync_channel(1);
        control.handle().spawn_blocking(move || {
            began.send(()).unwrap();
            let _ = hang.recv();
        });
        wait_began.recv().unwrap();
        drop(control);
        // Still there: nobody waited for it.
        release.send(()).unwrap();
    }
}
