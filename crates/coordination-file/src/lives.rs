//! Lifetime locks: proof that a process lives, kept by the kernel.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use coordination_core::Error;
use kvcm_fence::Incarnation;
use rustix::{fs::FlockOperation, io::Errno};

use crate::{directory::Directory, disk, error::not_done, guard::is_at, names};

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

    /// Takes the lock of an owner, unless this process has it. Under the guard, and before any
    /// record names the owner: so nobody but a second process of the same incarnation is in the
    /// way.
    pub(crate) fn take(
        &self,
        directory: &Directory,
        incarnation: Incarnation,
    ) -> Result<(), Error> {
        let path = directory.path_of(&names::life(incarnation));
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
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = disk::open(&options, &path).map_err(not_done("open", &path))?;
        disk::lock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            if error == Errno::WOULDBLOCK {
                Error::not_done(format!("another process lives as {incarnation}"))
            } else {
                not_done("lock", &path)(error)
            }
        })?;
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

/// Removes the lifetime file `name` when its process is dead. Under the guard.
pub(crate) fn bury(directory: &Directory, name: &str) {
    let path = directory.path_of(name);
    if let Some(_locked) = freed(&path, FlockOperation::NonBlockingLockExclusive) {
        directory.discard([name]);
    }
}

/// The file, locked by us, when no other had locked it.
fn freed(path: &Path, operation: FlockOperation) -> Option<File> {
    let file = disk::open(OpenOptions::new().read(true), path).ok()?;
    disk::lock(&file, operation).ok()?;
    is_at(&file, path).ok()?.then_some(file)
}
