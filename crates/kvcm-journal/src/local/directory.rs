//! Files in the directory, and how they come into being whole.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use kvcm_fence::Epoch;
use thiserror::Error;

use super::{file_error::FileError, names, names::Names};

/// The directory.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Whether file systems will do that hosts may share.
    allows_network_fs: bool,
    /// Makes writes fail.
    #[cfg(test)]
    pub(super) full: std::sync::atomic::AtomicBool,
    /// What the file system is taken for.
    #[cfg(test)]
    pub(super) file_system: parking_lot::Mutex<Option<&'static str>>,
}

/// Why the journal does not go into a directory.
#[derive(Debug, Error)]
pub(super) enum UnfitFileSystem {
    #[error(
        "{path} is on {name}, where one process may not see what another one has written: use a \
         local directory, another kind of store, or allow_network_fs=true",
        path = path.display()
    )]
    Shared { path: PathBuf, name: &'static str },
    #[error(transparent)]
    Unknown(#[from] FileError),
}

/// A file that takes its name only when it is whole and durable.
#[derive(Debug)]
pub(super) struct Unfinished {
    file: File,
    path: PathBuf,
}

impl Directory {
    /// A directory, which need not be there yet.
    pub(super) fn new(path: &Path, allows_network_fs: bool) -> Self {
        Self {
            path: path.to_owned(),
            allows_network_fs,
            #[cfg(test)]
            full: std::sync::atomic::AtomicBool::new(false),
            #[cfg(test)]
            file_system: parking_lot::Mutex::default(),
        }
    }

    /// Makes the directory when it is missing.
    pub(super) fn create(&self) -> Result<(), FileError> {
        if !self.path.is_dir() {
            let created = fs::create_dir_all(&self.path);
            created.map_err(FileError::when("create directory", &self.path))?;
            if let Some(parent) = self.path.parent() {
                let synced = File::open(parent).and_then(|parent| parent.sync_all());
                synced.map_err(FileError::when("make durable", parent))?;
            }
        }
        Ok(())
    }

    /// Whether somebody has made the directory.
    pub(super) fn is_there(&self) -> Result<bool, FileError> {
        let found = self.path.try_exists();
        found.map_err(FileError::when("examine", &self.path))
    }

    /// That processes see at once here what others have written, which is certain only on file
    /// systems of one host.
    pub(super) fn check_file_system(&self) -> Result<(), UnfitFileSystem> {
        let shared = kvcm_fs::shared(&self.path);
        let shared = shared.map_err(FileError::when("examine", &self.path))?;
        #[cfg(test)]
        let shared = self.file_system.lock().or(shared);
        match shared {
            Some(name) if !self.allows_network_fs => Err(UnfitFileSystem::Shared {
                path: self.path.clone(),
                name,
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// What is there now: at least all that was there when the call began.
    pub(super) fn names(&self) -> Result<Names, FileError> {
        let failed = || FileError::when("list", &self.path);
        let mut names = Names::default();
        for entry in fs::read_dir(&self.path).map_err(failed())? {
            let name = entry.map_err(failed())?.file_name();
            // A name that is no text is none of ours.
            if let Some(name) = name.to_str() {
                names.add(name);
            }
        }
        Ok(names)
    }

    /// What a file holds; none when it is not there.
    pub(super) fn read(&self, name: &str) -> Result<Option<Bytes>, FileError> {
        let path = self.path_of(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FileError::new("read", &path, error)),
        }
    }

    /// A new file without a name that counts.
    pub(super) fn begin(&self, epoch: Epoch) -> Result<Unfinished, FileError> {
        let path = self.path_of(&names::temporary(epoch));
        let created = OpenOptions::new()
            .write(true)
            .read(true)
            .create_new(true)
            .open(&path);
        let file = created.map_err(FileError::when("create", &path))?;
        Ok(Unfinished { file, path })
    }

    /// Appends to a file that is not finished, and makes it durable so far.
    pub(super) fn extend(&self, file: &mut Unfinished, bytes: &[u8]) -> Result<(), FileError> {
        let (bytes, space) = self.space(bytes);
        let written = file.file.write_all(bytes).and(space);
        written
            .and_then(|()| file.file.sync_data())
            .map_err(FileError::when("write", &file.path))
    }

    /// Replaces the first bytes of a file that is not finished, and makes it durable so far.
    pub(super) fn rewrite(&self, file: &Unfinished, bytes: &[u8]) -> Result<(), FileError> {
        let (bytes, space) = self.space(bytes);
        let written = file.file.write_all_at(bytes, 0).and(space);
        written
            .and_then(|()| file.file.sync_data())
            .map_err(|error| FileError::new("write", &file.path, error))
    }

    /// Gives the file its name, when there is no such file yet; `None` when there is. The name is
    /// durable then.
    pub(super) fn finish(&self, file: Unfinished, name: &str) -> Result<Option<File>, FileError> {
        let named = self.name(file, name)?;
        if named.is_some() {
            self.sync()?;
        }
        Ok(named)
    }

    /// The same, with a name that is durable after the next [`sync`](Self::sync) only.
    pub(super) fn name(&self, file: Unfinished, name: &str) -> Result<Option<File>, FileError> {
        let path = self.path_of(name);
        // Not a rename, which would replace what is there.
        let linked = fs::hard_link(&file.path, &path);
        self.remove_quietly(&file.path);
        match linked {
            Ok(()) => Ok(Some(file.file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(FileError::new("create", &path, error)),
        }
    }

    /// Whether files can be written here.
    pub(super) fn probe(&self) -> Result<(), FileError> {
        self.create()?;
        let mut file = self.begin(Epoch::ZERO)?;
        let written = self.extend(&mut file, b"probe");
        self.remove_quietly(&file.path);
        written
    }

    /// Writes at a place of a file and makes it durable.
    pub(super) fn write_at(
        &self,
        file: &File,
        name: &str,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), FileError> {
        let (bytes, space) = self.space(bytes);
        let written = file.write_all_at(bytes, at).and(space);
        written
            .and_then(|()| file.sync_data())
            .map_err(|error| FileError::new("write", &self.path_of(name), error))
    }

    /// Makes what others wrote into a file durable.
    pub(super) fn sync_file(&self, name: &str) -> Result<(), FileError> {
        let path = self.path_of(name);
        let synced = File::open(&path).and_then(|file| file.sync_data());
        synced.map_err(FileError::when("make durable", &path))
    }

    /// Whether the name still leads to this file.
    pub(super) fn is_named(&self, file: &File, name: &str) -> Result<bool, FileError> {
        let path = self.path_of(name);
        let failed = || FileError::when("examine", &path);
        let ours = file.metadata().map_err(failed())?;
        match fs::metadata(&path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed()(error)),
        }
    }

    /// Removes files that nobody needs, if possible.
    pub(super) fn discard(&self, names: impl IntoIterator<Item = String>) {
        for name in names {
            self.remove_quietly(&self.path_of(&name));
        }
    }

    fn remove_quietly(&self, path: &Path) {
        if let Err(error) = fs::remove_file(path) {
            tracing::debug!(path = %path.display(), %error, "cannot remove a file that nobody needs");
        }
    }

    /// Makes the names durable that were given so far.
    pub(super) fn sync(&self) -> Result<(), FileError> {
        let synced = File::open(&self.path).and_then(|directory| directory.sync_all());
        synced.map_err(FileError::when("make durable", &self.path))
    }

    /// What there is space for: in tests of a full disk half of it.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "tests look at it"))]
    fn space<'b>(&self, bytes: &'b [u8]) -> (&'b [u8], io::Result<()>) {
        #[cfg(test)]
        if self.full.load(std::sync::atomic::Ordering::SeqCst) {
            return (
                &bytes[..bytes.len() / 2],
                Err(ErrorKind::StorageFull.into()),
            );
        }
        (bytes, Ok(()))
    }
}
