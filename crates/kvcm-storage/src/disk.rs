//! All that is asked of a file system, in one place, so that tests can let each of it fail or hang.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, StatVfsMountFlags},
    io::Errno,
};

use crate::space::Space;

/// The file system below one root.
///
/// Everything is reached from the root's descriptor, a segment at a time and without following
/// symbolic links, so that nothing outside the root is ever touched. The root itself may be a
/// link: where it leads is the operator's wish.
#[derive(Debug)]
pub(crate) struct Disk {
    root: PathBuf,
    /// A directory that the root is below, and that is never made here: it may be a mount point.
    base: PathBuf,
    /// Was seen on another file system than `/`.
    was_mounted: AtomicBool,
    #[cfg(test)]
    pub(crate) fault: crate::disk_faults::Fault,
}

/// What is asked of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    OpenRoot,
    OpenDirectory,
    MakeDirectory,
    List,
    Space,
    Write,
    Remove,
}

/// Descriptors only lead to what is below them.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// For everybody, as far as the process's mask allows: engines may run as other users.
const DIRECTORY_MODE: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);

impl Disk {
    /// The root is `base` and `below` it, as a path each. What is missing below is made when it is
    /// needed.
    pub(crate) fn new(base: &str, below: &str) -> Self {
        let base = PathBuf::from(match base.trim_end_matches('/') {
            "" => "/",
            path => path,
        });
        Self {
            root: match below.trim_matches('/') {
                "" => base.clone(),
                below => base.join(below),
            },
            base,
            was_mounted: AtomicBool::new(false),
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
        let root = rustix::fs::openat(CWD, &self.root, DIRECTORY, Mode::empty())?;
        self.check_mounted(&root)?;
        Ok(root)
    }

    /// The root, made when it is missing.
    pub(crate) fn make_root(&self) -> io::Result<OwnedFd> {
        match self.open_root() {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.root != self.base => {}
            other => return other,
        }
        let base = rustix::fs::openat(CWD, &self.base, DIRECTORY, Mode::empty());
        let mut handle = base.map_err(|errno| {
            let base = self.base.display();
            let text = format!("{base}: {errno}; make it, or mount what belongs there");
            io::Error::new(io::Error::from(errno).kind(), text)
        })?;
        self.check_mounted(&handle)?;
        for segment in self.root.strip_prefix(&self.base).into_iter().flatten() {
            // As with the root itself, links are the operator's.
            self.make_directory(&handle, segment)?;
            handle = rustix::fs::openat(&handle, segment, DIRECTORY, Mode::empty())?;
        }
        Ok(handle)
    }

    /// A directory in another one.
    pub(crate) fn open_directory(
        &self,
        parent: impl AsFd,
        name: impl rustix::path::Arg,
    ) -> io::Result<OwnedFd> {
        self.ask(Operation::OpenDirectory)?;
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
    }

    /// A directory in another one, made when it is missing.
    pub(crate) fn open_or_make_directory(
        &self,
        parent: impl AsFd,
        name: &str,
    ) -> io::Result<OwnedFd> {
        match self.open_directory(&parent, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        self.make_directory(&parent, name)?;
        self.open_directory(parent, name)
    }

    /// Makes a directory in another one, if nothing has its name. Says whether that was so.
    pub(crate) fn make_directory(
        &self,
        parent: impl AsFd,
        name: impl rustix::path::Arg,
    ) -> io::Result<bool> {
        self.ask(Operation::MakeDirectory)?;
        match rustix::fs::mkdirat(parent, name, DIRECTORY_MODE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Shows the names of the directories in a directory.
    pub(crate) fn list_directories(
        &self,
        directory: impl AsFd,
        mut show: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.ask(Operation::List)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
        for entry in Dir::new(readable)? {
            let entry = entry?;
            // Some file systems do not tell the type; such ones are looked at one by one.
            if entry.file_type() == FileType::Directory {
                show(entry.file_name().to_bytes());
            }
        }
        Ok(())
    }

    /// Makes a file when there is none.
    pub(crate) fn create(&self, directory: impl AsFd, name: &str) -> io::Result<()> {
        self.ask(Operation::Write)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(directory, name, flags, FILE_MODE)?;
        Ok(())
    }

    /// Makes a file of this content that is on the disk, and returns what is read back. It is
    /// left there.
    pub(crate) fn write_and_read(
        &self,
        directory: impl AsFd,
        name: &str,
        content: &[u8],
    ) -> io::Result<Vec<u8>> {
        self.ask(Operation::Write)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, name, flags, FILE_MODE)?;
        let mut file = File::from(file);
        file.write_all(content)?;
        // Remote file systems tell here that they are full.
        file.sync_all()?;
        file.rewind()?;
        let mut read = Vec::new();
        file.take(content.len() as u64 + 1).read_to_end(&mut read)?;
        Ok(read)
    }

    /// Removes a file.
    pub(crate) fn remove(&self, directory: impl AsFd, name: &str) -> io::Result<()> {
        self.ask(Operation::Remove)?;
        Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?)
    }

    /// Room in the file system of this directory.
    pub(crate) fn space(&self, directory: impl AsFd) -> io::Result<Space> {
        self.ask(Operation::Space)?;
        let found = rustix::fs::fstatvfs(directory)?;
        Ok(Space {
            bytes: found.f_blocks.saturating_mul(found.f_frsize),
            bytes_free: found.f_bavail.saturating_mul(found.f_frsize),
            files: found.f_files,
            files_free: found.f_favail,
            is_read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
        })
    }

    /// Fails when the directory is on the file system of `/` and was on another one before: then
    /// what is mounted there is missing, and the directory is what the mount had covered.
    fn check_mounted(&self, directory: impl AsFd) -> io::Result<()> {
        let is_mounted = rustix::fs::fstat(directory)?.st_dev != rustix::fs::stat("/")?.st_dev;
        if is_mounted {
            self.was_mounted.store(true, Ordering::Relaxed);
        } else if self.was_mounted.load(Ordering::Relaxed) {
            let text = "nothing is mounted there any more";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(())
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
