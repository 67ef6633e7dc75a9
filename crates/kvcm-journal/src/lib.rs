//! A fenced, append-only record store.
