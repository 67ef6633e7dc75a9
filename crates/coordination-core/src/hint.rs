//! Why a waiter should look at a lock.

use std::pin::Pin;

use futures_util::Stream;
use kvcm_fence::{Epoch, Incarnation};

/// Something about a watched lock has changed. A hint may be lost, repeated or wrong; only a lock
/// operation tells the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Released, acquired, or its info changed.
    Changed,
    /// The holder's process is dead, by proof of the kernel: `try_lock` may presume it.
    HolderDied {
        /// Which life of the holder.
        incarnation: Incarnation,
        /// In which epoch.
        epoch: Epoch,
    },
}

/// Hints about one lock. Ends only when the backend is dropped.
pub type HintStream = Pin<Box<dyn Stream<Item = Hint> + Send>>;
