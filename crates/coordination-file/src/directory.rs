//! The directory, and what is done with files in it. Each is written once.

use std::{
    fs::{self, Metadata, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use coordination_core::Error;

use crate::{
    Options, disk,
    error::{file_error, not_done, unknown},
    exclusion,
    names::{self, TEMPORARY},
};

/// Which directory this is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

fn above(path: &Path) -> &Path {
    let parent = path.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or_else(|| Path::new("."))
}

/// The directory.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// The file system that it was on at first.
    device: u64,
    /// The directory above it, as it was then.
    above: Place,
    /// Who may do what in it.
    mode: u32,
    /// What the directory held when it was last synced, and how often it was.
    #[cfg(test)]
    pub(crate) synced: std::sync::Mutex<(usize, crate::power_cut_tests::Files)>,
}

impl Directory {
    /// Opens the directory, which comes into being when it is missing.
    pub(crate) fn open(path: &Path, options: Options) -> Result<Self, Error> {
        let fatal = |doing, error| {
            let hint = "give the file backend a local directory that the process may write to";
            Error::fatal(hint, file_error(doing, path, error))
        };
        fs::create_dir_all(path).map_err(|error| fatal("create directory", error))?;
        let shared = kvcm_fs::shared(path).map_err(|error| fatal("examine", error))?;
        if let Some(name) = shared {
            let path = path.display();
            if !options.allow_network_fs {
                let hint = "use a local directory, another backend, or allow_network_fs=true";
                let source = format!("{path} is on {name}, where file locks may mean nothing");
                return Err(Error::fatal(hint, source));
            }
            tracing::warn!(%path, file_system = name, "file locks may mean nothing here");
        }
        let found = fs::metadata(path).map_err(|error| fatal("examine", error))?;
        let above = fs::metadata(above(path));
        let above = above.map_err(|error| fatal("examine the directory above", error))?;
        let temporary = path.join(format!("{TEMPORARY}{:032x}", fastrand::u128(..)));
        if let Some(lack) = exclusion::lack(&temporary) {
            let hint = "use a local directory, or another backend";
            let source = format!("{lack} in {}", path.display());
            return Err(Error::fatal(hint, source));
        }
        let directory = Self {
            path: path.to_owned(),
            device: found.dev(),
            above: Place::of(&above),
            mode: found.mode() & 0o7777,
            #[cfg(test)]
            synced: std::sync::Mutex::default(),
        };
        // What cannot be listed now is told by each call.
        let all_names = directory.names().unwrap_or_default();
        names::check_format(&all_names, path)?;
        Ok(directory)
    }

    /// That the directory is there and still on its file system: an unmounted one leaves an empty
    /// directory behind, where every lock would look free. One that somebody has removed is made
    /// again, empty: what was held in it is held no more, as whoever held it finds out.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let found = match disk::metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.was_removed() => {
                self.make_again()?;
                disk::metadata(&self.path)
            }
            found => found,
        };
        let found = found.map_err(not_done("find", &self.path))?;
        if found.dev() != self.device {
            let path = self.path.display();
            return Err(Error::not_done(format!(
                "{path} is on another file system than at the start"
            )));
        }
        Ok(())
    }

    /// Whether the directory, which is not there, was removed from the very directory that it was in.
    /// Where a file system was unmounted, or mounted over it, that is another one.
    fn was_removed(&self) -> bool {
        let is_same = |found: &Metadata| Place::of(found) == self.above;
        let above = disk::metadata(above(&self.path));
        self.above.device == self.device && above.as_ref().is_ok_and(is_same)
    }

    fn make_again(&self) -> Result<(), Error> {
        match disk::create_dir(&self.path, self.mode) {
            Ok(()) => tracing::warn!(
                path = %self.path.display(),
                "the directory of the coordination was removed; it is made again, and what it held \
                 is lost"
            ),
            // Another process was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(not_done("create directory", &self.path)(error)),
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names of all files.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let failed = || not_done("list", &self.path);
        let mut names = Vec::new();
        for entry in disk::read_dir(&self.path).map_err(failed())? {
            let name = entry.map_err(failed())?.file_name();
            // A name that is no text is none of ours.
            if let Ok(name) = name.into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// What a file holds, or none when there is no such file in a directory that is there.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path_of(name);
        match disk::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.check()?;
                Ok(None)
            }
            Err(error) => Err(not_done("read", &path)(error)),
        }
    }

    /// Whether there is such a file.
    pub(crate) fn exists(&self, name: &str) -> Result<bool, Error> {
        let path = self.path_of(name);
        match disk::metadata(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(not_done("examine", &path)(error)),
        }
    }

    /// Writes a file that must not be there; with `synced`, what it holds is on the disk then, but
    /// not its name. After an error it may be there all the same.
    pub(crate) fn write_new(&self, name: &str, bytes: &[u8], synced: bool) -> Result<(), Error> {
        let path = self.path_of(name);
        let mut options = OpenOptions::new();
        let file = disk::open(options.write(true).create_new(true), &path);
        let written = file.and_then(|file| {
            disk::write_all(&file, bytes)?;
            if synced { disk::sync(&file) } else { Ok(()) }
        });
        written.map_err(not_done("write", &path))
    }

    /// Gives a file a second name. Returns false when that name is taken, or the file has gone.
    pub(crate) fn link(&self, from: &str, to: &str) -> Result<bool, Error> {
        let path = self.path_of(to);
        match disk::link(&self.path_of(from), &path) {
            Ok(()) => Ok(true),
            Err(error) => match error.kind() {
                ErrorKind::AlreadyExists | ErrorKind::NotFound => Ok(false),
                _ => Err(not_done("write", &path)(error)),
            },
        }
    }

    /// Renames a file, which holds `bytes` on the disk, or writes it anew when it has gone, and
    /// makes its new name survive a power cut.
    pub(crate) fn keep_durably(&self, from: &str, to: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path_of(to);
        match disk::rename(&self.path_of(from), &path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let written = self.write_new(to, bytes, true);
                written.map_err(Error::unknown)?;
            }
            renamed => renamed.map_err(unknown("write", &path))?,
        }
        self.make_durable()
    }

    /// Makes all changes of names so far survive a power cut.
    pub(crate) fn make_durable(&self) -> Result<(), Error> {
        self.sync().map_err(unknown("make durable", &self.path))
    }

    /// Adds an empty file. Returns false when it is there already. Durable after the next
    /// [`Self::make_durable`].
    pub(crate) fn add_mark(&self, name: &str) -> Result<bool, Error> {
        let path = self.path_of(name);
        match disk::open(OpenOptions::new().write(true).create_new(true), &path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(not_done("create", &path)(error)),
        }
    }

    /// Adds an empty file that survives a power cut, unless it is there already. After an error
    /// it may be there all the same.
    pub(crate) fn add_durable_mark(&self, name: &str) -> Result<bool, Error> {
        let is_new = self.add_mark(name)?;
        if is_new {
            self.sync().map_err(not_done("make durable", &self.path))?;
        }
        Ok(is_new)
    }

    /// Marks a directory that is used for the first time with our format.
    pub(crate) fn mark_format(&self) -> Result<(), Error> {
        names::check_format(&self.names()?, &self.path)?;
        self.add_mark(&names::format_mark()).map(drop)
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path_of(name);
        match disk::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(not_done("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes files that nobody needs, if possible.
    pub(crate) fn discard<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        for name in names {
            if let Err(error) = disk::remove_file(&self.path_of(name)) {
                tracing::debug!(%error, name, "cannot remove a file that nobody needs");
            }
        }
    }

    /// Gives a damaged file a second name that stays, so that people can look at it.
    pub(crate) fn set_aside(&self, name: &str, aside: &str, how: &str) {
        let file = self.path_of(name);
        match self.link(name, aside) {
            // By somebody else, or before.
            Ok(false) => {}
            Ok(true) => {
                tracing::warn!(file = %file.display(), how, aside, "a damaged record was set aside");
            }
            Err(error) => {
                tracing::warn!(file = %file.display(), how, %error, "a record is damaged");
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        #[cfg(test)]
        self.remember_sync();
        disk::sync(&disk::open(OpenOptions::new().read(true), &self.path)?)
    }
}
