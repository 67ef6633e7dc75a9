//! Coordination of several hosts through Redis.
