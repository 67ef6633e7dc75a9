//! One data storage.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use thiserror::Error;

use crate::{
    Deletion, Kind, Place, UriTemplate, delete::delete, disk::Disk, pool::Pool, segment,
    template::Form,
};

/// What a storage is, as far as naming needs it.
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
    },
    /// Objects in Mooncake.
    Mooncake,
    /// A kind that cannot be opened: gives the error that says why.
    Closed(Kind),
}

/// A storage that new blocks may go to.
///
/// Opening one names it only: it does not touch files or services.
#[derive(Debug)]
pub struct DataStorage {
    name: String,
    kind: Kind,
    keys_per_file: u32,
    /// What all its URIs begin with; the rest is the place.
    root: String,
    /// Where its files are, when it has files.
    files: Option<Files>,
    enabled: AtomicBool,
    healthy: AtomicBool,
}

/// The files of a storage and who touches them.
#[derive(Debug)]
struct Files {
    disk: Arc<Disk>,
    pool: Arc<Pool>,
}

/// Why a call to a storage was not begun.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("storage `{name}` does not answer: {reason}")]
pub struct Unavailable {
    /// The storage.
    pub name: String,
    /// Why not.
    pub reason: &'static str,
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

// === impl DataStorage ===

impl DataStorage {
    /// Opens the storage `name`, enabled and healthy.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(name: &str, settings: &Settings) -> Result<Self, OpenError> {
        let (kind, keys_per_file, root, path) = match settings {
            Settings::File {
                root_path,
                key_count_per_file,
            } => {
                check_path(name, "root_path", root_path)?;
                if !root_path.starts_with('/') {
                    let expected = "expected a path that begins with `/`";
                    return Err(setting(name, "root_path", root_path, expected));
                }
                let slash = if root_path.ends_with('/') { "" } else { "/" };
                let path = format!("{root_path}{slash}");
                let root = format!("file://{}{path}", host(name));
                (Kind::File, *key_count_per_file, root, Some(path))
            }
            Settings::Hf3fs {
                mountpoint,
                root_dir,
                key_count_per_file,
            } => {
                check_path(name, "mountpoint", mountpoint)?;
                check_path(name, "root_dir", root_dir)?;
                let mut path = String::from("/");
                for part in [mountpoint, root_dir] {
                    let part = part.trim_matches('/');
                    if !part.is_empty() {
                        path.push_str(part);
                        path.push('/');
                    }
                }
                let root = format!("hf3fs://{}{path}", host(name));
                (Kind::Hf3fs, *key_count_per_file, root, Some(path))
            }
            Settings::Mooncake => {
                let root = format!("mooncake://{}/?key=", host(name));
                (Kind::Mooncake, 1, root, None)
            }
            Settings::Closed(kind) => {
                return Err(OpenError::Unsupported {
                    name: name.to_owned(),
                    kind: *kind,
                    reason: closed(*kind),
                });
            }
        };
        Ok(Self {
            name: name.to_owned(),
            kind,
            keys_per_file: keys_per_file.max(1),
            root,
            files: path.map(|path| {
                let disk = Disk::new(&path);
                Files {
                    pool: Pool::of(disk.root()),
                    disk: Arc::new(disk),
                }
            }),
            enabled: AtomicBool::new(true),
            healthy: AtomicBool::new(true),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Keys that share one file, at least 1.
    pub const fn keys_per_file(&self) -> u32 {
        self.keys_per_file
    }

    /// Whether new blocks may go there: enabled by operators, and healthy.
    pub fn is_available(&self) -> bool {
        self.is_enabled() && self.healthy.load(Ordering::Acquire)
    }

    /// Whether operators have it enabled.
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    /// Notes that an operator enabled or disabled it.
    pub fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Release);
    }

    /// Notes what a probe found.
    pub fn set_healthy(&self, healthy: bool) {
        self.healthy.store(healthy, Ordering::Release);
    }

    /// How URIs of this spec of this instance look; `size` is the spec's in bytes.
    ///
    /// Files lie in `<instance id>/<spec name>/<directory>/`, also those that keys share, so that no
    /// file mixes specs. The directory is one of 4096 and the same for all keys of a grant.
    pub fn template(&self, instance: &str, spec: &str, size: i64) -> UriTemplate {
        let (mut head, place) = (self.root.clone(), self.root.len());
        segment::push(&mut head, instance);
        head.push('/');
        segment::push(&mut head, spec);
        head.push('/');
        let form = match self.files {
            Some(_) => Form::Files,
            None => Form::Objects,
        };
        UriTemplate::new(head, place, form, size)
    }

    /// Deletes what is at the places, and tells for each of them, in their order, what became of
    /// it. Places of shared files are to come once, when the last of their keys goes.
    ///
    /// It returns within the time that is given, also when the file system hangs. `may_go_on` is
    /// asked right before each deletion, on the thread that deletes: after its first "no", or
    /// after the deadline, or when the future is dropped, nothing more is begun. Waiting needs a
    /// tokio runtime.
    ///
    /// # Errors
    /// [`Unavailable`]: nothing was begun.
    pub async fn delete(
        &self,
        places: Vec<Place>,
        within: Duration,
        may_go_on: impl Fn() -> bool + Send + 'static,
    ) -> Result<Vec<Deletion>, Unavailable> {
        let Some(files) = &self.files else {
            return Ok(vec![Deletion::Left; places.len()]);
        };
        let deleted = delete(&files.pool, &files.disk, places, within, may_go_on).await;
        deleted.map_err(|reason| self.unavailable(reason))
    }

    /// Threads that hang in calls to the storage.
    pub fn hung_threads(&self) -> usize {
        self.files.as_ref().map_or(0, |files| files.pool.hung())
    }

    /// Where tests let its file system fail.
    #[cfg(test)]
    pub(crate) fn fault(&self) -> crate::disk_faults::Fault {
        let files = self.files.as_ref();
        files
            .map(|files| files.disk.fault.clone())
            .unwrap_or_default()
    }

    fn unavailable(&self, reason: &'static str) -> Unavailable {
        Unavailable {
            name: self.name.clone(),
            reason,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grant, Part};

    const GRANT: Grant = Grant {
        epoch: 0x1f,
        counter: 2,
    };

    fn file(root_path: &str, key_count_per_file: u32) -> Settings {
        Settings::File {
            root_path: root_path.to_owned(),
            key_count_per_file,
        }
    }

    fn uri(settings: &Settings, instance: &str, part: Part) -> String {
        let storage = DataStorage::open("nfs_01", settings).unwrap();
        let template = storage.template(instance, "tp0", 1024);
        template.uri(-1, GRANT, part).to_string()
    }

    #[test]
    fn each_kind_has_its_uri() {
        assert_eq!(
            uri(&file("/tmp/nfs/", 1), "i1", Part::Whole),
            "file://nfs_01/tmp/nfs/i1/tp0/cd7/ffffffffffffffff-1f-2?size=1024"
        );
        let block = Part::Block {
            file: 0xabc,
            index: 3,
        };
        assert_eq!(
            uri(&file("/tmp/nfs/", 8), "i1", block),
            "file://nfs_01/tmp/nfs/i1/tp0/cd7/0000000000000abc-1f-2?blkid=3&size=1024"
        );
        let hf3fs = Settings::Hf3fs {
            mountpoint: "/3fs/stage/".to_owned(),
            root_dir: "kv".to_owned(),
            key_count_per_file: 1,
        };
        assert_eq!(
            uri(&hf3fs, "i1", Part::Whole),
            "hf3fs://nfs_01/3fs/stage/kv/i1/tp0/cd7/ffffffffffffffff-1f-2?size=1024"
        );
        assert_eq!(
            uri(&Settings::Mooncake, "i1", Part::Whole),
            "mooncake://nfs_01/?key=i1/tp0/ffffffffffffffff-1f-2&size=1024"
        );
    }

    #[test]
    fn a_root_without_its_slash_is_still_a_directory() {
        let with = uri(&file("/tmp/x/", 1), "i1", Part::Whole);
        assert_eq!(uri(&file("/tmp/x", 1), "i1", Part::Whole), with);
        assert!(with.starts_with("file://nfs_01/tmp/x/i1/"), "{with}");
    }

    #[test]
    fn an_odd_instance_id_cannot_break_the_uri() {
        let text = uri(&file("/r/", 1), "../a?b=c&d", Part::Whole);
        assert_eq!(
            text,
            "file://nfs_01/r/..%2Fa%3Fb%3Dc%26d/tp0/cd7/ffffffffffffffff-1f-2?size=1024"
        );
    }

    #[test]
    fn settings_that_cannot_be_and_closed_kinds_say_why() {
        let error = |settings| DataStorage::open("s", &settings).unwrap_err().to_string();
        assert_eq!(
            error(file("tmp", 1)),
            "storage `s`: root_path is `tmp`, expected a path that begins with `/`"
        );
        assert!(error(file("", 1)).contains("root_path is ``"));
        assert!(error(file("/a?b", 1)).contains("without `?`"));
        assert!(error(file("/a\0b", 1)).contains("control characters"));
        for path in ["/a/../b", "/..", "/a/..//"] {
            assert!(error(file(path, 1)).contains("without `..`"), "{path}");
        }
        for kind in [Kind::Pace, Kind::PaceSsd, Kind::VcnsHf3fs] {
            let text = error(Settings::Closed(kind));
            let head = format!("storage `s` is of type {kind}, which is not supported: ");
            assert!(text.starts_with(&head), "{text}");
        }
    }

    #[test]
    fn it_is_available_while_enabled_and_healthy() {
        let storage = DataStorage::open("s", &Settings::Mooncake).unwrap();
        assert!(storage.is_available());
        storage.set_healthy(false);
        assert!(!storage.is_available() && storage.is_enabled());
        storage.set_healthy(true);
        storage.set_enabled(false);
        assert!(!storage.is_available() && !storage.is_enabled());
        assert_eq!(storage.keys_per_file(), 1);
    }
}
