//! Waiting for a descriptor of the kernel.

use std::{io, os::fd::OwnedFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Registers `descriptor` with the runtime, to wait until it can be read.
///
/// # Errors
/// When the kernel cannot wait for it.
#[expect(
    deprecated,
    reason = "the successor is an unsafe function, and unsafe is forbidden here; what it asks its \
              caller to promise, that the descriptor stays open and the same, an OwnedFd keeps"
)]
pub(crate) fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}
