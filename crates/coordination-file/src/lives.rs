//! Lifetime locks: proof that a process lives, kept by the kernel.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use coordination_core::Error;
use kvcm_fence::Incarnation;
use rustix::{fs::FlockOperation, io::Errno};

use crate::{
    directory::Directory,
    disk,
    error::not_done,
    names::{self, LIFE},
};

/// How often the lock of a life is tried for.
const TRIES: usize = 20;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// The lifetime locks of the owners in this process. Closing the files, by the backend's end or
/// the process's, is their death.
#[derive(Debug)]
pub(crate) struct Lives {
    /// None after the backend's end.
    held: Mutex<Option<HashMap<Incarnation, File>>>,
}

impl Lives {
    pub(crate) fn new() -> Self {
        Self {
            held: Mutex::new(Some(HashMap::new())),
        }
    }

    /// Takes the lock of an owner, unless this process has it. Before any record names the owner.
    pub(crate) fn take(
        &self,
        directory: &Directory,
        incarnation: Incarnation,
    ) -> Result<(), Error> {
        let name = names::life(incarnation);
        let path = directory.path_of(&name);
        let kept = match &*self.held() {
            None => return Err(Error::not_done("the backend has ended")),
            Some(held) => match held.get(&incarnation) {
                None => false,
                Some(file) => is_at(file, &path).map_err(not_done("examine", &path))?,
            },
        };
        if kept {
            return Ok(());
        }
        let mut tries = 0..TRIES;
        let file = loop {
            if let Some(file) = lock_new(directory, &name)? {
                break file;
            }
            if let Some(file) = freed(&path, FlockOperation::NonBlockingLockExclusive) {
                break file;
            }
            if tries.next().is_none() {
                let source = format!("another process lives as {incarnation}");
                return Err(Error::not_done(source));
            }
            // Whoever only looks whether it is locked holds it for a moment, too.
            thread::sleep(PAUSE);
        };
        match &mut *self.held() {
            None => Err(Error::not_done("the backend has ended")),
            Some(held) => {
                held.insert(incarnation, file);
                Ok(())
            }
        }
    }

    /// Whether this backend has the lock of `incarnation`.
    pub(crate) fn has(&self, incarnation: Incarnation) -> bool {
        let held = self.held();
        held.as_ref()
            .is_some_and(|held| held.contains_key(&incarnation))
    }

    /// Whether the backend has ended.
    pub(crate) fn are_ended(&self) -> bool {
        self.held().is_none()
    }

    /// Ends all lives of this backend.
    pub(crate) fn end(&self) {
        *self.held() = None;
    }

    fn held(&self) -> MutexGuard<'_, Option<HashMap<Incarnation, File>>> {
        // Nothing panics while it is locked.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the kernel has freed the lifetime lock, which is proof of death. A file that is missing
/// or cannot be opened proves nothing.
pub(crate) fn is_dead(directory: &Directory, incarnation: Incarnation) -> bool {
    let path = directory.path_of(&names::life(incarnation));
    freed(&path, FlockOperation::NonBlockingLockShared).is_some()
}

/// The lifetime files among `all_names` of processes that are dead, with what keeps their deaths
/// proven until it is dropped.
pub(crate) fn dead<'n>(directory: &Directory, all_names: &'n [String]) -> Vec<(&'n str, File)> {
    let lives = all_names.iter().filter(|name| name.starts_with(LIFE));
    let dead = lives.filter_map(|name| {
        let path = directory.path_of(name);
        let file = freed(&path, FlockOperation::NonBlockingLockShared)?;
        Some((name.as_str(), file))
    });
    dead.collect()
}

/// A new file at `name` that is locked from the first moment on; none when one is there.
fn lock_new(directory: &Directory, name: &str) -> Result<Option<File>, Error> {
    if directory.exists(name)? {
        return Ok(None);
    }
    let private = format!("{name}.{:08x}", fastrand::u32(..));
    let path = directory.path_of(&private);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    let file = disk::open(&options, &path).map_err(not_done("open", &path))?;
    let linked = match disk::lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => directory.link(&private, name),
        // Somebody in tidying up takes it for that of a dead process.
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(not_done("lock", &path)(error)),
    };
    directory.discard([private.as_str()]);
    Ok(linked?.then_some(file))
}

/// The file, locked by us, when no other had locked it.
fn freed(path: &Path, operation: FlockOperation) -> Option<File> {
    let writes = operation == FlockOperation::NonBlockingLockExclusive;
    let file = disk::open(OpenOptions::new().read(true).write(writes), path).ok()?;
    disk::lock(&file, operation).ok()?;
    is_at(&file, path).ok()?.then_some(file)
}

/// Whether the open file is the one that stands at `path`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match disk::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
