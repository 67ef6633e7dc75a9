//! What a storage is.

use thiserror::Error;

use crate::{Kind, disk::Disk, segment};

/// What a storage is, as far as naming and files need it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settings {
    /// Files under a directory of a shared file system.
    File {
        /// The directory, beginning with `/`. A missing slash at its end is added.
        root_path: String,
        /// Keys that share one file; 0 and 1 mean none.
        key_count_per_file: u32,
    },
    /// Files on a 3FS mount.
    Hf3fs {
        /// Where it is mounted.
        mountpoint: String,
        /// The directory under the mount point.
        root_dir: String,
        /// Keys that share one file; 0 and 1 mean none.
        key_count_per_file: u32,
        /// The files are made, empty, before their places are handed out.
        touch_file_when_create: bool,
    },
    /// Objects in Mooncake.
    Mooncake,
    /// A kind that cannot be opened: gives the error that says why.
    Closed(Kind),
}

/// Why a storage cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Its service is not open to the public.
    #[error("storage `{name}` is of type {kind}, which is not supported: {reason}")]
    Unsupported {
        /// The storage.
        name: String,
        /// Its kind.
        kind: Kind,
        /// Why not, and what to use.
        reason: &'static str,
    },
    /// A setting that cannot be.
    #[error("storage `{name}`: {setting} is `{value}`, {expected}")]
    Setting {
        /// The storage.
        name: String,
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

/// The settings, checked.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) kind: Kind,
    pub(crate) keys_per_file: u32,
    /// What all URIs begin with; the rest is the place.
    pub(crate) uri_root: String,
    /// Where its files are, when it has files.
    pub(crate) disk: Option<Disk>,
    pub(crate) with_files: bool,
}

impl Settings {
    /// Checks them for the storage `name`.
    pub(crate) fn check(&self, name: &str) -> Result<Checked, OpenError> {
        match self {
            Self::File {
                root_path,
                key_count_per_file,
            } => {
                check_path(name, "root_path", root_path)?;
                if !root_path.starts_with('/') {
                    let expected = "expected a path that begins with `/`";
                    return Err(setting(name, "root_path", root_path, expected));
                }
                let slash = if root_path.ends_with('/') { "" } else { "/" };
                let path = root_path.trim_end_matches('/');
                // The root is made when it is missing, the directory that it is in is not.
                let (base, below) = path.rsplit_once('/').unwrap_or(("", ""));
                Ok(Checked {
                    kind: Kind::File,
                    keys_per_file: (*key_count_per_file).max(1),
                    uri_root: format!("file://{}{root_path}{slash}", host(name)),
                    disk: Some(Disk::new(base, below)),
                    with_files: false,
                })
            }
            Self::Hf3fs {
                mountpoint,
                root_dir,
                key_count_per_file,
                touch_file_when_create,
            } => {
                check_path(name, "mountpoint", mountpoint)?;
                check_path(name, "root_dir", root_dir)?;
                let mut uri_root = format!("hf3fs://{}/", host(name));
                for part in [mountpoint, root_dir] {
                    let part = part.trim_matches('/');
                    if !part.is_empty() {
                        uri_root.push_str(part);
                        uri_root.push('/');
                    }
                }
                let base = format!("/{}", mountpoint.trim_matches('/'));
                Ok(Checked {
                    kind: Kind::Hf3fs,
                    keys_per_file: (*key_count_per_file).max(1),
                    uri_root,
                    disk: Some(Disk::new(&base, root_dir)),
                    with_files: *touch_file_when_create,
                })
            }
            Self::Mooncake => Ok(Checked {
                kind: Kind::Mooncake,
                keys_per_file: 1,
                uri_root: format!("mooncake://{}/?key=", host(name)),
                disk: None,
                with_files: false,
            }),
            Self::Closed(kind) => Err(OpenError::Unsupported {
                name: name.to_owned(),
                kind: *kind,
                reason: closed(*kind),
            }),
        }
    }
}

/// The storage's name as the host of a URI.
fn host(name: &str) -> String {
    let mut host = String::new();
    segment::push(&mut host, name);
    host
}

fn check_path(name: &str, what: &'static str, path: &str) -> Result<(), OpenError> {
    if path.is_empty() {
        return Err(setting(name, what, path, "expected a path"));
    }
    if path.contains(|c: char| c == '?' || c == '#' || c.is_control()) {
        let expected = "expected a path without `?`, `#` and control characters";
        return Err(setting(name, what, path, expected));
    }
    if path.split('/').any(|segment| segment == "..") {
        let expected = "expected a path without `..`";
        return Err(setting(name, what, path, expected));
    }
    Ok(())
}

fn setting(name: &str, setting: &'static str, value: &str, expected: &'static str) -> OpenError {
    OpenError::Setting {
        name: name.to_owned(),
        setting,
        value: value.to_owned(),
        expected,
    }
}

const fn closed(kind: Kind) -> &'static str {
    match kind {
        Kind::Pace | Kind::PaceSsd => {
            "the PACE pool hands out places itself, through a service whose protocol is not \
             public; use file, hf3fs or mooncake"
        }
        Kind::VcnsHf3fs => {
            "VCNS maps files through a service whose protocol is not public; use hf3fs"
        }
        Kind::Hf3fs | Kind::Mooncake | Kind::File => "its settings are missing",
    }
}
