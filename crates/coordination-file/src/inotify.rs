//! Waiting for a new file.

use std::{io, mem::MaybeUninit, os::fd::OwnedFd, path::Path};

use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    io::Errno,
};
use tokio::net::unix::pipe::Receiver;

use crate::readiness;

/// Waits until a file gets a name in a directory that begins as the names of some records.
pub(crate) struct NameWatch {
    prefix: String,
    queue: Queue,
}

/// Events come from the beginning on; the runtime is only known at the first wait.
enum Queue {
    Fresh(Option<OwnedFd>),
    Registered(Receiver),
}

impl NameWatch {
    /// # Errors
    /// When the user has used up their inotify instances, for example.
    pub(crate) fn new(directory: &Path, prefix: String) -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let what = WatchFlags::CREATE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&queue, directory, what)?;
        Ok(Self {
            prefix,
            queue: Queue::Fresh(Some(queue)),
        })
    }

    /// Returns when there was one since the last call. Cancel-safe.
    ///
    /// # Errors
    /// When no more events will come: the directory has gone, for instance.
    pub(crate) async fn changed(&mut self) -> io::Result<()> {
        if let Queue::Fresh(queue) = &mut self.queue {
            let queue = queue.take().ok_or(io::ErrorKind::NotConnected)?;
            let registered = readiness::register(queue)?;
            self.queue = Queue::Registered(registered);
        }
        let Queue::Registered(queue) = &self.queue else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        loop {
            queue.readable().await?;
            match queue.try_io(|| read_all(queue, &self.prefix)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }
}

/// Empties the queue. `WouldBlock` unless there may be a new file.
fn read_all(queue: &Receiver, prefix: &str) -> io::Result<()> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(queue, &mut buffer);
    let mut is_ours = false;
    let gone = ReadFlags::IGNORED | ReadFlags::UNMOUNT | ReadFlags::MOVE_SELF;
    loop {
        match reader.next() {
            Ok(event) if event.events().intersects(gone) => {
                return Err(io::Error::other("the directory has gone"));
            }
            Ok(event) => {
                let overflow = event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                let file = event.file_name();
                is_ours |= overflow
                    || file.is_some_and(|file| file.to_bytes().starts_with(prefix.as_bytes()));
            }
            Err(Errno::AGAIN) if is_ours => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
