//! The way of a block out of the cache, in steps of which each is safe to repeat.
//!
//! 1. An operation in the journal says that the location is being deleted; only then it is marked
//!    in memory ([`Shared::retire`](crate::manager::Shared)). From here on nobody reads it, and
//!    the key can be written again at another path.
//! 2. It waits for the group's `delay_before_delete_ms`, for engines may be reading it, and for
//!    the session that may still be writing it.
//! 3. A worker deletes the bytes: after it has asked, for each file, whether this node still may.
//! 4. An operation in the journal says that the location is gone; then its record goes, and the
//!    key with its last one.
//!
//! What waits is in a [`Queue`] of limited size. What does not fit is found again by a scan of the
//! index once the rest is done, as is everything after a change of leader: there is one way for
//! both. No path is granted twice, so deleting late, or twice, meets nothing else.

mod backlog;
mod bytes;
mod queue;
mod run;
mod shared_files;
mod worker;

pub(crate) use backlog::Backlog;
pub(crate) use queue::{Batch, Queue};
pub use run::Permit;
pub(crate) use shared_files::{Freed, Neighbours, SharedFiles};
