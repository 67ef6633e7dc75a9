//! What all storages of one directory share.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use crate::{delete::Deletions, disk::Disk, health::Health, pool::Pool, space::Space};

/// One directory that storages keep their files in.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) disk: Disk,
    pub(crate) pool: Arc<Pool>,
    pub(crate) health: Health,
    /// A probe is on its way.
    pub(crate) probing: AtomicBool,
    /// What the last probe saw.
    pub(crate) space: Mutex<Option<Space>>,
    pub(crate) deletions: Deletions,
    /// How often directories were found to have gone.
    losses: AtomicU64,
}

/// The roots of this process by path, so that a storage which is opened again, by the next reign
/// or with another setting, gets no new threads while old ones hang, and is known to be down when
/// it was. A root lives as long as somebody uses it or hangs in it.
static ROOTS: Mutex<Option<HashMap<PathBuf, Weak<Root>>>> = Mutex::new(None);

impl Root {
    /// The root of this disk, or the one that is there already.
    pub(crate) fn of(disk: Disk) -> Arc<Self> {
        let mut roots = ROOTS.lock();
        let roots = roots.get_or_insert_default();
        if let Some(root) = roots.get(disk.root()).and_then(Weak::upgrade) {
            return root;
        }
        roots.retain(|_, root| root.strong_count() > 0);
        let path = disk.root().to_owned();
        let root = Arc::new(Self {
            disk,
            pool: Arc::default(),
            health: Health::new(),
            probing: AtomicBool::new(false),
            space: Mutex::new(None),
            deletions: Deletions::default(),
            losses: AtomicU64::new(0),
        });
        roots.insert(path, Arc::downgrade(&root));
        root
    }

    /// How often directories were found to have gone.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// Directories that were there have gone: whoever remembers any has to look again.
    pub(crate) fn lost(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
    }
}
