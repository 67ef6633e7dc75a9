//! The directory, and how files in it are changed so that a crash leaves the old or the new.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use coordination_core::Error;

use crate::{
    Options, disk,
    error::{file_error, not_done, unknown},
    exclusion,
    names::TEMPORARY,
};

/// The directory. All changes happen under the guard.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// The file system that it was on at first.
    device: u64,
    /// Of this process and no other: should somebody remove the guard file, two writers must not
    /// write into one file.
    temporary: PathBuf,
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
        let device = fs::metadata(path)
            .map_err(|error| fatal("examine", error))?
            .dev();
        let temporary = path.join(format!("{TEMPORARY}{:032x}", fastrand::u128(..)));
        if !exclusion::locks_exclude(&temporary) {
            let hint = "use a local directory, or another backend";
            let source = format!("two locks of one file in {} can be had", path.display());
            return Err(Error::fatal(hint, source));
        }
        Ok(Self {
            path: path.to_owned(),
            device,
            temporary,
            #[cfg(test)]
            synced: std::sync::Mutex::default(),
        })
    }

    /// That the directory is there and still on its file system: an unmounted one leaves an empty
    /// directory behind, where every lock would look free.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let found = disk::metadata(&self.path).map_err(not_done("find", &self.path))?;
        if found.dev() != self.device {
            let path = self.path.display();
            return Err(Error::not_done(format!(
                "{path} is on another file system than at the start"
            )));
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

    /// Makes the file hold `bytes` for all who read it during this boot, or leaves it as it was,
    /// whoever is killed when. A power cut may leave the old bytes, the new ones, or damage.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.replace_by(name, || self.write_temporary(bytes).map(drop))
    }

    /// The same, and a power cut leaves the old or the new, the new after
    /// [`Self::make_durable`].
    pub(crate) fn replace_durably(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.replace_by(name, || disk::sync(&self.write_temporary(bytes)?))
    }

    fn replace_by(
        &self,
        name: &str,
        write_temporary: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), Error> {
        let path = self.path_of(name);
        let written = write_temporary().and_then(|()| disk::rename(&self.temporary, &path));
        if let Err(error) = written {
            // It may not even have been created.
            let _ = disk::remove_file(&self.temporary);
            return Err(not_done("write", &path)(error));
        }
        Ok(())
    }

    /// Makes all changes of names so far survive a power cut.
    pub(crate) fn make_durable(&self) -> Result<(), Error> {
        self.sync().map_err(unknown("make durable", &self.path))
    }

    /// Adds an empty file that must not be there. Durable after the next
    /// [`Self::make_durable`].
    pub(crate) fn add_mark(&self, name: &str) -> Result<(), Error> {
        let path = self.path_of(name);
        let created = disk::open(OpenOptions::new().write(true).create_new(true), &path);
        created.map_err(not_done("create", &path))?;
        Ok(())
    }

    /// Adds an empty file that must not be there and survives a power cut. After an error it may
    /// be there all the same.
    pub(crate) fn add_durable_mark(&self, name: &str) -> Result<(), Error> {
        self.add_mark(name)?;
        self.sync().map_err(not_done("make durable", &self.path))
    }

    /// Removes a file. Durable after the next [`Self::make_durable`].
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path_of(name);
        disk::remove_file(&path).map_err(not_done("remove", &path))
    }

    /// Removes files that nobody needs, if possible.
    pub(crate) fn discard<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        for name in names {
            if let Err(error) = disk::remove_file(&self.path_of(name)) {
                tracing::debug!(%error, name, "cannot remove a file that nobody needs");
            }
        }
    }

    /// Renames a damaged file so that people can look at it.
    pub(crate) fn set_aside(&self, name: &str, how: &str) -> Result<(), Error> {
        let path = self.path_of(name);
        let aside = (1u32..)
            .map(|number| format!("{name}.damaged.{number}"))
            .find(|aside| fs::symlink_metadata(self.path_of(aside)).is_err())
            .unwrap_or_default();
        disk::rename(&path, &self.path_of(&aside)).map_err(not_done("set aside", &path))?;
        tracing::warn!(file = %path.display(), how, aside, "a damaged record was set aside");
        self.make_durable()
    }

    fn write_temporary(&self, bytes: &[u8]) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let file = disk::open(&options, &self.temporary)?;
        disk::write_all(&file, bytes)?;
        Ok(file)
    }

    fn sync(&self) -> io::Result<()> {
        #[cfg(test)]
        self.remember_sync();
        disk::sync(&disk::open(OpenOptions::new().read(true), &self.path)?)
    }
}
