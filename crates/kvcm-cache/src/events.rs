//! What happens to blocks, told as structured log events: one line for each batch.

use crate::home::Home;

/// The target of the events, by which a logger can choose them.
pub const EVENTS: &str = "kvcm::events";

macro_rules! event {
    ($name:literal, $home:expr $(, $field:ident = $value:expr)*) => {
        tracing::info!(
            target: EVENTS,
            event = $name,
            instance = %$home.id,
            group = $home.instance.group,
            $($field = $value,)*
        )
    };
}

/// A write session ended by its writer.
pub(crate) fn ended(home: &Home, added: usize, unwritten: usize) {
    if added > 0 {
        event!("blocks_added", home, blocks = added);
    }
    if unwritten > 0 {
        event!("blocks_unwritten", home, blocks = unwritten);
    }
}

/// A write session whose time was up.
pub(crate) fn expired(home: &Home, unwritten: usize) {
    event!("session_expired", home, blocks = unwritten);
}

/// Blocks that a caller removed.
pub(crate) fn removed(home: &Home, blocks: usize) {
    event!("blocks_removed", home, blocks = blocks);
}

/// Blocks that made room.
pub(crate) fn evicted(home: &Home, blocks: usize, reason: &str) {
    event!("blocks_evicted", home, blocks = blocks, reason = reason);
}

/// Bytes that are gone, or were given up.
pub(crate) fn deleted(home: &Home, storage: u16, blocks: usize, deleted: bool) {
    event!(
        "bytes_deleted",
        home,
        storage = storage,
        blocks = blocks,
        deleted = deleted
    );
}
