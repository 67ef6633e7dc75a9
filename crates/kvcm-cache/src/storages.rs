//! The storages that locations name by number.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use kvcm_registry::{Registry, Storage, StorageSpec, StorageType};
use kvcm_storage::{DataStorage, Kind, OpenError, Settings};
use parking_lot::RwLock;

use crate::{Error, Result, ops::DefineStorage};

/// A storage as it was configured when its number was given out. When its configuration changes
/// it gets a new number, so the URIs of old locations stay what they were.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) number: u16,
    pub(crate) storage: Storage,
    /// Names places in it.
    pub(crate) data: DataStorage,
    /// The journal has the number.
    defined: AtomicBool,
}

impl Known {
    fn open(number: u16, storage: Storage, defined: bool) -> Result<Self, OpenError> {
        Ok(Self {
            number,
            data: open(&storage)?,
            storage,
            defined: AtomicBool::new(defined),
        })
    }

    pub(crate) const fn kind(&self) -> StorageType {
        self.storage.kind()
    }

    /// The operation that gives it its number, when the journal may not have it.
    pub(crate) fn definition(&self) -> Option<DefineStorage> {
        let defined = self.defined.load(Ordering::Acquire);
        (!defined).then(|| DefineStorage::of(self))
    }

    /// The journal has the number.
    pub(crate) fn set_defined(&self) {
        self.defined.store(true, Ordering::Release);
    }
}

/// The files or objects of a storage.
pub(crate) fn open(storage: &Storage) -> Result<DataStorage, OpenError> {
    let data = DataStorage::open(&storage.name, &settings(&storage.spec))?;
    if storage.check_when_open {
        data.require_check();
    }
    Ok(data)
}

fn settings(spec: &StorageSpec) -> Settings {
    let keys = |count: i32| u32::try_from(count).unwrap_or(0);
    match spec {
        StorageSpec::File(spec) => Settings::File {
            root_path: spec.root_path.clone(),
            key_count_per_file: keys(spec.key_count_per_file),
        },
        StorageSpec::Hf3fs(spec) => Settings::Hf3fs {
            mountpoint: spec.mountpoint.clone(),
            root_dir: spec.root_dir.clone(),
            key_count_per_file: keys(spec.key_count_per_file),
            touch_file_when_create: spec.touch_file_when_create,
        },
        StorageSpec::Mooncake(_) => Settings::Mooncake,
        StorageSpec::VcnsHf3fs(_) => Settings::Closed(Kind::VcnsHf3fs),
        StorageSpec::PaceSsd(_) => Settings::Closed(Kind::PaceSsd),
        // Kinds of the future are closed to this version; PACE is the nearest name for them.
        _ => Settings::Closed(Kind::Pace),
    }
}

/// All numbered storages.
#[derive(Clone, Debug, Default)]
pub(crate) struct List(Arc<Vec<Option<Arc<Known>>>>);

impl List {
    /// The storage of that number.
    pub(crate) fn get(&self, number: u16) -> Option<&Arc<Known>> {
        self.0.get(usize::from(number))?.as_ref()
    }

    /// One past the highest number.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Those that there are.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Known>> {
        self.0.iter().flatten()
    }

    /// Which of them may be read now: those whose name is registered and enabled, and that answer.
    pub(crate) fn usable(&self, registry: &Registry) -> Usable {
        let usable = |known: &Option<Arc<Known>>| {
            known.as_ref().is_some_and(|known| {
                let registered = registry.storage(&known.storage.name);
                registered.is_some_and(|storage| storage.is_available) && known.data.is_readable()
            })
        };
        let flags: Vec<bool> = self.0.iter().map(usable).collect();
        Usable {
            all: flags.iter().all(|flag| *flag),
            flags,
        }
    }
}

/// Which storages may be read, by number.
#[derive(Debug)]
pub(crate) struct Usable {
    all: bool,
    flags: Vec<bool>,
}

impl Usable {
    pub(crate) fn contains(&self, number: u16) -> bool {
        let flag = || self.flags.get(usize::from(number)).copied();
        // A number younger than the list was given out a moment ago, to a storage that was there.
        self.all || flag().unwrap_or(true)
    }
}

/// Gives out the numbers.
#[derive(Debug, Default)]
pub(crate) struct Storages {
    list: RwLock<List>,
}

impl Storages {
    /// All of them as they are now.
    pub(crate) fn list(&self) -> List {
        self.list.read().clone()
    }

    /// The number of a storage as it is configured now.
    ///
    /// # Errors
    /// [`Error::Unsupported`] and [`Error::Internal`] for one that cannot be opened.
    pub(crate) fn number(&self, storage: &Storage) -> Result<Arc<Known>> {
        let same = |known: &&Arc<Known>| {
            known.storage.name == storage.name && known.storage.spec == storage.spec
        };
        if let Some(known) = self.list.read().iter().find(same) {
            return Ok(Arc::clone(known));
        }
        let mut list = self.list.write();
        if let Some(known) = list.iter().find(same) {
            return Ok(Arc::clone(known));
        }
        let number = u16::try_from(list.0.len()).map_err(|_| {
            Error::Internal("storages were reconfigured more than 65,536 times".into())
        })?;
        let known = Known::open(number, storage.clone(), false).map_err(|error| match error {
            OpenError::Unsupported { .. } => Error::Unsupported(error.to_string()),
            other => Error::Internal(other.to_string()),
        })?;
        let known = Arc::new(known);
        let mut storages = (*list.0).clone();
        storages.push(Some(Arc::clone(&known)));
        *list = List(Arc::new(storages));
        Ok(known)
    }

    /// A number that the journal gives.
    pub(crate) fn restore(&self, number: u16, storage: Storage) -> Result<(), OpenError> {
        let known = Known::open(number, storage, true)?;
        let mut list = self.list.write();
        let mut storages = (*list.0).clone();
        let at = usize::from(number);
        if storages.len() <= at {
            storages.resize(at + 1, None);
        }
        storages[at] = Some(Arc::new(known));
        *list = List(Arc::new(storages));
        Ok(())
    }
}
