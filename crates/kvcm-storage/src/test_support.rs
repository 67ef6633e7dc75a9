//! A storage in a directory of its own, whose file system can fail and hang.

use std::{
    fs,
    path::PathBuf,
    task::{Context, Waker},
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    DataStorage, Deletion, Grant, MadeDirectories, Part, Place, Settings, disk_faults::Fault,
};

/// More than anything takes here.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const GRANT: Grant = Grant {
    epoch: 3,
    counter: 9,
};

pub(crate) struct Fixture {
    pub(crate) root: TempDir,
    pub(crate) storage: DataStorage,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let root = TempDir::new().unwrap();
        let settings = Settings::File {
            root_path: root.path().to_str().unwrap().to_owned(),
            key_count_per_file: 1,
        };
        let storage = DataStorage::open("s", &settings).unwrap();
        Self { root, storage }
    }

    /// Another storage with the same files.
    pub(crate) fn again(&self, name: &str) -> DataStorage {
        let settings = Settings::File {
            root_path: self.root.path().to_str().unwrap().to_owned(),
            key_count_per_file: 8,
        };
        DataStorage::open(name, &settings).unwrap()
    }

    /// Creates what one key of an instance needs.
    pub(crate) async fn create(
        &self,
        instance: &str,
        made: &MadeDirectories,
    ) -> Result<(), crate::CreateError> {
        self.create_for(instance, made, GRANT).await
    }

    /// The same for another grant.
    pub(crate) async fn create_for(
        &self,
        instance: &str,
        made: &MadeDirectories,
        grant: Grant,
    ) -> Result<(), crate::CreateError> {
        let template = self.storage.template(instance, "tp0", 1);
        let specs = [(&template, made)];
        self.storage.create(specs, Vec::new(), grant, LONG).await
    }

    pub(crate) fn fault(&self) -> &Fault {
        &self.storage.root().unwrap().disk.fault
    }

    pub(crate) fn hung_threads(&self) -> usize {
        self.storage.status().hung_threads
    }

    pub(crate) fn place(&self, instance: &str, key: i64) -> Place {
        let template = self.storage.template(instance, "tp0", 1);
        template.uri(key, GRANT, Part::Whole).place()
    }

    pub(crate) fn path(&self, place: &Place) -> PathBuf {
        self.root.path().join(place.as_str())
    }

    pub(crate) fn write(&self, place: &Place) {
        let path = self.path(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "block").unwrap();
    }

    pub(crate) async fn delete(&self, places: &[Place]) -> Vec<Deletion> {
        let deleted = self.storage.delete(places.to_vec(), LONG, || true);
        deleted.await.unwrap()
    }
}

/// Runs calls that bring the number of stuck threads to `stuck`, and lets their time pass at once
/// then.
pub(crate) async fn hang<F: Future>(fixture: &Fixture, stuck: usize, calls: F) -> F::Output {
    tokio::time::pause();
    let mut calls = std::pin::pin!(calls);
    // The first look at them starts the threads, and no time passes while this one waits for them.
    let mut context = Context::from_waker(Waker::noop());
    assert!(calls.as_mut().poll(&mut context).is_pending());
    fixture.fault().wait_stuck(stuck);
    let outcome = calls.await;
    tokio::time::resume();
    outcome
}

/// Lets everything go on that hangs.
pub(crate) async fn heal(fixture: &Fixture) {
    fixture.fault().heal();
    while fixture.hung_threads() > 0 {
        tokio::task::yield_now().await;
    }
}
