//! Eviction: makes room before a limit is reached.
//!
//! A group is over its mark when its bytes, its bytes in one kind of storage, or the keys of one of
//! its instances reach the group's `used_percentage` of their limit. Then the blocks that were not
//! used for longest go, of all instances of the group together, just so many that it is below the
//! mark again. What is on its way out already counts as gone, so the delay before bytes are deleted
//! makes nothing go twice.

mod evict;
mod mark;
mod run;
