//! Coordination inside one process.
