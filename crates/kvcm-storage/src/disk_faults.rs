//! File systems that fail or hang, for tests.

use std::{io, sync::Arc};

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use crate::disk::Operation;

/// Decides what becomes of each operation. Nothing happens to them at first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fault(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    hanging: Vec<Operation>,
    /// How many operations hang now.
    stuck: usize,
    asked: Vec<Operation>,
    failing: Vec<(Operation, Errno)>,
}

impl Fault {
    /// Comes before each operation.
    pub(crate) fn ask(&self, operation: Operation) -> io::Result<()> {
        let mut state = self.0.state.lock();
        state.asked.push(operation);
        state.stuck += 1;
        self.0.changed.notify_all();
        while state.hanging.contains(&operation) {
            self.0.changed.wait(&mut state);
        }
        state.stuck -= 1;
        let failing = state.failing.iter().find(|(at, _)| *at == operation);
        failing.map_or(Ok(()), |(_, errno)| Err((*errno).into()))
    }

    /// Those of this kind fail from now on.
    pub(crate) fn fail(&self, operation: Operation, errno: Errno) {
        self.0.state.lock().failing.push((operation, errno));
    }

    /// Those of this kind do not return from now on.
    pub(crate) fn hang(&self, operation: Operation) {
        self.0.state.lock().hanging.push(operation);
    }

    /// Waits until that many operations hang.
    pub(crate) fn wait_stuck(&self, count: usize) {
        let mut state = self.0.state.lock();
        while state.stuck != count {
            self.0.changed.wait(&mut state);
        }
    }

    /// Nothing fails any more, and what hangs goes on.
    pub(crate) fn heal(&self) {
        let mut state = self.0.state.lock();
        state.hanging.clear();
        state.failing.clear();
        self.0.changed.notify_all();
    }

    /// How often an operation was asked for.
    pub(crate) fn count(&self, operation: Operation) -> usize {
        let state = self.0.state.lock();
        state
            .asked
            .iter()
            .filter(|asked| **asked == operation)
            .count()
    }
}
