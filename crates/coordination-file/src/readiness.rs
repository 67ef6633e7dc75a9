//! Waiting for a descriptor of the kernel.

use std::{io, os::fd::OwnedFd};

use tokio::net::unix::pipe::Receiver;

/// Registers a non-blocking `descriptor` with the runtime, to wait until it can be read.
///
/// The receiver of a pipe is the runtime's one safe way to own any descriptor that can be read;
/// unchecked means that it need not be a pipe.
///
/// # Errors
/// When the kernel cannot wait for it.
pub(crate) fn register(descriptor: OwnedFd) -> io::Result<Receiver> {
    Receiver::from_owned_fd_unchecked(descriptor)
}
