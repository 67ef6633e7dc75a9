//! One data storage.

use std::{sync::Arc, time::Duration};

use thiserror::Error;

use crate::{
    Deletion, Grant, Kind, Level, MadeDirectories, OpenError, Place, Problem, Settings, Space,
    UriTemplate,
    create::{Failure, Wanted, Weight, create},
    delete::{DeletionCounts, delete},
    probe,
    root::Root,
    segment,
    settings::Checked,
    template::Form,
};

/// A storage that new blocks may go to.
///
/// Opening one names it only: it does not touch files or services. Storages with the same root
/// share its threads and what is known of its health. All futures need a tokio runtime.
#[derive(Debug)]
pub struct DataStorage {
    name: String,
    kind: Kind,
    keys_per_file: u32,
    /// What all its URIs begin with; the rest is the place.
    uri_root: String,
    /// Its files, when it has files.
    root: Option<Arc<Root>>,
    with_files: bool,
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

/// Why no block can go to a storage.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("storage `{name}` takes no new blocks ({problem})")]
pub struct CreateError {
    /// The storage.
    pub name: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is known of a storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What it is good for.
    pub level: Level,
    /// Why it is not good for everything.
    pub problem: Option<Problem>,
    /// Room in its file system, when a check has seen it.
    pub space: Option<Space>,
    /// Threads that hang in calls to its file system.
    pub hung_threads: usize,
    /// How often it stopped taking new blocks.
    pub times_down: u64,
    /// What became of the files that were to be deleted.
    pub deletions: DeletionCounts,
}

impl DataStorage {
    /// Opens the storage `name`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(name: &str, settings: &Settings) -> Result<Self, OpenError> {
        let Checked {
            kind,
            keys_per_file,
            uri_root,
            disk,
            with_files,
        } = settings.check(name)?;
        Ok(Self {
            name: name.to_owned(),
            kind,
            keys_per_file,
            uri_root,
            root: disk.map(Root::of),
            with_files,
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

    /// Takes no new blocks until a first check has succeeded, if none has yet.
    pub fn require_check(&self) {
        if let Some(root) = &self.root {
            root.health.require_proof();
        }
    }

    /// Whether new blocks may go there, as far as is known.
    pub fn is_available(&self) -> bool {
        self.level() == Level::Up
    }

    /// Whether blocks can be read there, as far as is known: one that is full may be read.
    pub fn is_readable(&self) -> bool {
        self.level() >= Level::Readable
    }

    fn level(&self) -> Level {
        self.root
            .as_ref()
            .map_or(Level::Up, |root| root.health.level())
    }

    /// What is known of it.
    pub fn status(&self) -> Status {
        let root = self.root.as_deref();
        Status {
            level: self.level(),
            problem: root.and_then(|root| root.health.problem()),
            space: root.and_then(|root| *root.space.lock()),
            hung_threads: root.map_or(0, |root| root.pool.hung()),
            times_down: root.map_or(0, |root| root.health.times_down()),
            deletions: root.map(|root| root.deletions.counts()).unwrap_or_default(),
        }
    }

    /// How URIs of this spec of this instance look; `size` is the spec's in bytes.
    ///
    /// Files lie in `<instance id>/<spec name>/<directory>/`, also those that keys share, so that no
    /// file mixes specs. The directory is one of 4096 and the same for all keys of a grant.
    pub fn template(&self, instance: &str, spec: &str, size: i64) -> UriTemplate {
        let (mut head, place) = (self.uri_root.clone(), self.uri_root.len());
        segment::push(&mut head, instance);
        head.push('/');
        segment::push(&mut head, spec);
        head.push('/');
        let form = match self.root {
            Some(_) => Form::Files,
            None => Form::Objects,
        };
        UriTemplate::new(head, place, form, size)
    }

    /// Whether each place has to be created, and not only the directory of one of them.
    pub const fn creates_files(&self) -> bool {
        self.with_files
    }

    /// Whether the directory of this grant is among those that are known to be there. `made` is
    /// that of one spec of one instance.
    pub fn has_directory(&self, made: &MadeDirectories, grant: Grant) -> bool {
        let root = self.root.as_ref();
        root.is_none_or(|root| made.contains(grant, root.losses()))
    }

    /// Makes the directories of a grant for these specs, and the `files` when it
    /// [`creates_files`](Self::creates_files): what a spec has made knows of its directory afterwards,
    /// and of others that come next. It returns within the time that is given, also when the file
    /// system hangs.
    ///
    /// # Errors
    /// [`CreateError`]; the storage may take no more blocks from then on.
    pub async fn create<'a>(
        &self,
        specs: impl IntoIterator<Item = (&'a UriTemplate, &'a MadeDirectories)>,
        files: Vec<Place>,
        grant: Grant,
        within: Duration,
    ) -> Result<(), CreateError> {
        let Some(root) = &self.root else {
            return Ok(());
        };
        let losses = root.losses();
        let (wanted, made): (Vec<_>, Vec<_>) = specs
            .into_iter()
            .map(|(template, made)| {
                let wanted = Wanted {
                    parent: template.directory().to_owned(),
                    number: grant.directory_number(),
                    ahead: made.take_ahead(grant),
                    looks: !made.has_looked(losses),
                };
                (wanted, made)
            })
            .unzip();
        match create(root, wanted, files, within).await {
            Ok(known) => {
                for (made, known) in made.into_iter().zip(known) {
                    made.learn(&known, losses);
                }
                Ok(())
            }
            Err(Failure { problem, weight }) => {
                let certain = weight == Weight::Certain;
                if weight != Weight::Nothing
                    && let Some(change) = root.health.failed(problem.clone(), certain)
                {
                    probe::tell(&self.name, root, &change);
                }
                Err(CreateError {
                    name: self.name.clone(),
                    problem,
                })
            }
        }
    }

    /// Deletes what is at the places, and tells for each of them, in their order, what became of
    /// it. Places of shared files are to come once, when the last of their keys goes.
    ///
    /// It returns within the time that is given, also when the file system hangs. `may_go_on` is
    /// asked right before each deletion, on the thread that deletes: after its first "no", or
    /// after the deadline, or when the future is dropped, nothing more is begun.
    ///
    /// # Errors
    /// [`Unavailable`]: nothing was begun.
    pub async fn delete(
        &self,
        places: Vec<Place>,
        within: Duration,
        may_go_on: impl Fn() -> bool + Send + 'static,
    ) -> Result<Vec<Deletion>, Unavailable> {
        let deleted = match &self.root {
            None => Ok(vec![Deletion::Left; places.len()]),
            Some(root) => delete(root, places, within, may_go_on).await,
        };
        deleted.map_err(|reason| Unavailable {
            name: self.name.clone(),
            reason,
        })
    }

    /// Its files.
    pub(crate) const fn root(&self) -> Option<&Arc<Root>> {
        self.root.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Part;

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
            touch_file_when_create: false,
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
    fn a_storage_of_objects_is_always_available() {
        let storage = DataStorage::open("s", &Settings::Mooncake).unwrap();
        storage.require_check();
        assert!(storage.is_available() && storage.is_readable());
        assert_eq!(storage.keys_per_file(), 1);
        assert_eq!(storage.status().problem, None);
    }
}
