//! All that is asked of a file system, in one place, so that tests can let each of it fail or hang.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// The file system below one root.
///
/// Everything is reached from the root's descriptor, a segment at a time and without following
/// symbolic links, so that nothing outside the root is ever touched. The root itself may be a
/// link: where it leads is the operator's wish.
#[derive(Debug)]
pub(crate) struct Disk {
    root: PathBuf,
    #[cfg(test)]
    pub(crate) fault: crate::disk_faults::Fault,
}

/// What is asked of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    OpenRoot,
    OpenDirectory,
    Remove,
}

/// Descriptors only lead to what is below them.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Disk {
    /// The root is a path that ends with a slash.
    pub(crate) fn new(root: &str) -> Self {
        Self {
            root: PathBuf::from(match root.trim_end_matches('/') {
                "" => "/",
                path => path,
            }),
            #[cfg(test)]
            fault: Default::default(),
        }
    }

    /// The root's path.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The root, when it is there.
    pub(crate) fn open_root(&self) -> io::Result<OwnedFd> {
        self.ask(Operation::OpenRoot)?;
        Ok(rustix::fs::openat(
            CWD,
            &self.root,
            DIRECTORY,
            Mode::empty(),
        )?)
    }

    /// A directory in another one.
    pub(crate) fn open_directory(&self, parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
        self.ask(Operation::OpenDirectory)?;
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
    }

    /// Removes a file.
    pub(crate) fn remove(&self, directory: impl AsFd, name: &str) -> io::Result<()> {
        self.ask(Operation::Remove)?;
        Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?)
    }

    /// Where tests step in.
    #[cfg_attr(
        not(test),
        expect(
            clippy::unnecessary_wraps,
            clippy::unused_self,
            reason = "tests let it fail"
        )
    )]
    fn ask(&self, operation: Operation) -> io::Result<()> {
        #[cfg(test)]
        return self.fault.ask(operation);
        #[cfg(not(test))]
        {
            let _ = operation;
            Ok(())
        }
    }
}
