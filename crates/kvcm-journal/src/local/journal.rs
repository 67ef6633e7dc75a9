//! The journal, before anyone may write to it.

use std::{io, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use kvcm_fence::Claim;

use super::{
    claim,
    directory::Directory,
    disk::{Disk, NoAnswer},
    store::LocalStore,
};
use crate::{ClaimError, Journal, Source, Writer, store_writer::StoreWriter};

/// A journal in a directory of this host, for the processes of this host.
///
/// The directory comes into being with the first claim. File calls are made by threads of the
/// journal's own, so that a disk that hangs blocks nobody: one for all that has an order, and one
/// for the bytes of snapshots, which no batch waits for.
#[derive(Debug)]
pub struct LocalJournal {
    directory: Arc<Directory>,
    disk: Disk,
    snapshots: Disk,
}

impl LocalJournal {
    /// The journal in this directory, which is not touched yet.
    ///
    /// # Errors
    /// When the system refuses the threads.
    pub fn new(path: &Path) -> io::Result<Self> {
        Self::with_network_fs(path, false)
    }

    /// The same, also on network and FUSE file systems if `allowed`: for people who know that on
    /// theirs one process sees at once what another one has written.
    ///
    /// # Errors
    /// When the system refuses the threads.
    pub fn with_network_fs(path: &Path, allowed: bool) -> io::Result<Self> {
        Ok(Self {
            directory: Arc::new(Directory::new(path, allowed)),
            disk: Disk::start("kvcm-journal")?,
            snapshots: Disk::start("kvcm-snapshot")?,
        })
    }

    #[cfg(test)]
    pub(super) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    #[cfg(test)]
    pub(super) const fn disk(&self) -> &Disk {
        &self.disk
    }

    #[cfg(test)]
    pub(super) const fn snapshots(&self) -> &Disk {
        &self.snapshots
    }
}

#[async_trait]
impl Journal for LocalJournal {
    fn describe(&self) -> String {
        format!("local journal {}", self.directory.path().display())
    }

    async fn claim(&self, claim: Claim, timeout: Duration) -> Result<Box<dyn Writer>, ClaimError> {
        let directory = self.directory.clone();
        let by = claim.clone();
        let claiming = move || claim::claim(&directory, &by);
        let claimed = self.disk.run_within(timeout, claiming).await;
        let claimed = claimed.map_err(no_answer)??;
        let former = claimed.former.clone();
        let disks = (self.disk.clone(), self.snapshots.clone());
        let store = LocalStore::new(self.directory.clone(), disks, claimed);
        Ok(Box::new(StoreWriter::new(claim, former, Arc::new(store))))
    }

    async fn standing(&self, timeout: Duration) -> Result<Option<Claim>, ClaimError> {
        let directory = self.directory.clone();
        let looking = move || claim::standing(&directory);
        let found = self.disk.run_within(timeout, looking).await;
        found.map_err(no_answer)?
    }

    async fn probe(&self, timeout: Duration) -> Result<(), Source> {
        let directory = self.directory.clone();
        let probe = move || -> Result<(), Source> {
            directory.probe()?;
            Ok(directory.check_file_system()?)
        };
        let probed = self.disk.run_within(timeout, probe).await;
        probed.map_err(|no_answer| no_answer.why)?
    }
}

fn no_answer(no_answer: NoAnswer) -> ClaimError {
    ClaimError::Unavailable {
        outcome: no_answer.outcome,
        source: no_answer.why.into(),
    }
}
